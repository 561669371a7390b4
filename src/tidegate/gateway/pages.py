"""What the gateway answers by itself: the list of models, probes, metrics, and which methods there are."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from tidegate.gateway import routes
from tidegate.gateway.gate import Head
from tidegate.gateway.heads import STATUS_LINES
from tidegate.gateway.routes import Page

JSON = b"content-type: application/json\r\n"
METRICS = b"content-type: text/plain; version=0.0.4; charset=utf-8\r\n"


class Pages:
    """The gateway's own pages."""

    def __init__(
        self, names: Callable[[], Iterable[str]], metrics_page: Callable[[], bytes], *, started_s: int
    ) -> None:
        self._names = names
        self._metrics_page = metrics_page
        self._started_s = started_s

    def answer(self, head: Head, page: Page | None, *, stopping: bool, keep_alive: bool) -> bytes:
        """The whole response; no page means a question for the methods of a path."""
        status, fields, body = self._content(head, page, stopping=stopping)
        if status != 204:
            fields += b"content-length: %d\r\n" % len(body)
        if head.request_id is not None:
            fields += b"x-request-id: %b\r\n" % head.request_id
        if not keep_alive:
            fields += b"connection: close\r\n"
        return b"%b%b\r\n%b" % (STATUS_LINES[status], fields, b"" if head.method == "HEAD" else body)

    def _content(self, head: Head, page: Page | None, *, stopping: bool) -> tuple[int, bytes, bytes]:
        """Status, fields and body."""
        if page is None:
            allow = routes.allowed(head.path) or ""
            return 204, b"allow: %b\r\n" % allow.encode(), b""
        if page is Page.METRICS:
            return 200, METRICS, self._metrics_page()
        if page is Page.MODELS:
            return 200, JSON, self._model_list()
        if page is Page.HEALTH:
            return 200, JSON, b'{"status":"ok"}'
        if stopping:
            return 503, JSON + b"retry-after: 1\r\n", b'{"status":"stopping"}'
        return 200, JSON, b'{"status":"ready"}'

    def _model_list(self) -> bytes:
        """Models at zero replicas are in it: asking for one is what brings it up."""
        cards = [
            {"id": name, "object": "model", "created": self._started_s, "owned_by": "tidegate"}
            for name in self._names()
        ]
        return msgspec.json.encode({"object": "list", "data": cards})
