"""What is answered: our own pages, and JSON."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.responses import HTMLResponse, Response

from lycosa.ask.json_form import safe


class Page(HTMLResponse):
    """A page of ours."""


class Json(Response):
    """A document; characters that a terminal would act on are escaped."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return safe(msgspec.json.encode(content))
