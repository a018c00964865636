"""`python -m lycosa`: the command `lycosa`."""

from __future__ import annotations

from lycosa.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
