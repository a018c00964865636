# Two commands: `make demo` and `make test`. Both set everything up first.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: setup demo test test-slow check bench bench-memory bench-seen bench-graph bench-frontier bench-bounded \
  bench-agents bench-chaos clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "lycosa needs Python 3.11 or newer: make PYTHON=python3.12 setup")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing lycosa and what it needs into $(VENV) (once, about a minute) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@$(BIN)/python -m lycosa.crawl.warming
	@touch $(STAMP)

demo: setup
	@$(BIN)/lycosa demo

test: setup
	$(BIN)/python -m pytest -n 4 --dist worksteal -m 'not slow'

test-slow: setup
	LYCOSA_EXAMPLES=all $(BIN)/python -m pytest -m 'slow or hypothesis'

check: setup
	$(BIN)/ruff check lycosa tests benchmarks
	$(BIN)/ruff format --check lycosa tests benchmarks
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tests/check_docs.py

bench: setup
	$(BIN)/python benchmarks/crawl.py

bench-memory: setup
	$(BIN)/python benchmarks/crawl_memory.py

# What people use instead is installed beside the environment, for this comparison only.
bench-seen: setup
	@test -d .bench/rivals || $(BIN)/python -m pip install --quiet --disable-pip-version-check --target .bench/rivals lmdb rocksdict scrapy
	PYTHONPATH=.bench/rivals $(BIN)/python benchmarks/seen.py

bench-graph: setup
	$(BIN)/python benchmarks/graph.py

bench-frontier: setup
	$(BIN)/python benchmarks/frontier.py

bench-bounded: setup
	$(BIN)/python benchmarks/bounded.py

bench-agents: setup
	$(BIN)/python benchmarks/agents.py

bench-chaos: setup
	$(BIN)/python benchmarks/cluster_chaos.py

clean:
	rm -rf $(VENV) build dist *.egg-info
