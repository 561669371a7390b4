"""Answers that are whole: JSON, and vLLM's errors."""

from __future__ import annotations

from aiohttp import web

from tidegate.emulator import wire


def in_json(body: bytes) -> web.Response:
    """What has been encoded already."""
    return web.Response(body=body, content_type="application/json")


def error(status: int, message: str, kind: str, param: str | None = None) -> web.Response:
    """An error in vLLM's shape."""
    body = wire.error(status, message, kind, param)
    return web.Response(status=status, body=body, content_type="application/json")


def wrong(param: str, value: object, allowed: str) -> web.Response:
    """The client's mistake."""
    return error(400, f"{param} is {value!r}; it must be {allowed}", "BadRequestError", param)


def loading(stage: str) -> web.Response:
    """It does not serve yet."""
    return error(503, f"Loading model: {stage}", "ServiceUnavailableError")


def cut(request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
    """Close the connection as it is; what was written is still sent."""
    if request.transport:
        request.transport.close()
    return response
