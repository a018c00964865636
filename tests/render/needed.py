"""A Chromium, for tests that need one; without it they are skipped."""

from __future__ import annotations

import shutil

import pytest

from lycosa.render.browser import NAMES

CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
chromium = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")
