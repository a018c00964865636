"""Response types: our own pages, and JSON."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.responses import HTMLResponse, Response

from lycosa.ask.json_form import safe


class Page(HTMLResponse):
    """One of our pages."""


class Json(Response):
    """A document; characters that control a terminal are escaped."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return safe(msgspec.json.encode(content))
