"""``POST /scale``: the one thing that can be changed through the admin address, a model's number of replicas.

A page on the open web cannot send it: the body has to be called JSON, which a browser sends to another site only after
asking, and the answer to that is no. Whoever can run programs on this machine can.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from aiohttp import web

from tidegate.core.types import ModelId

PATH = "/scale"
BODY_BYTES_MAX = 4_096
HOLD_S = 3_600.0


class ScaleOrder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What somebody asks for."""

    model: str
    replicas: int | None
    """None: the law's number counts again."""
    for_s: float = HOLD_S
    at_least: bool = False


class Scaled(msgspec.Struct, frozen=True):
    """What has come of it."""

    model: ModelId
    desired: int
    because: str
    until_s: float | None
    """When the number set by hand ends; None: there is none."""


class NotYet(RuntimeError):
    """No order can be carried out so soon after the start."""


Scale = Callable[[ScaleOrder], Scaled]
"""Carries the order out; raises ``ValueError`` with what is wrong with it, or ``NotYet``."""


class Scaling:
    """Answers for the path."""

    def __init__(self, scale: Scale) -> None:
        self._scale = scale

    def __repr__(self) -> str:
        return f"<Scaling {PATH}>"

    async def post(self, request: web.Request) -> web.Response:
        """Carry the order out, or say what is wrong with it."""
        if request.content_type != "application/json":
            return _answer({"error": "the body must be application/json"}, 415)
        if (request.content_length or 0) > BODY_BYTES_MAX:
            return _answer({"error": f"the body is larger than {BODY_BYTES_MAX} bytes"}, 413)
        try:
            order = msgspec.json.decode(await request.read(), type=ScaleOrder)
            return _answer(self._scale(order), 200)
        except msgspec.DecodeError as error:
            return _answer({"error": f"the body is not what is asked for: {error}"}, 400)
        except ValueError as error:
            return _answer({"error": str(error)}, 400)
        except NotYet as error:
            return _answer({"error": str(error)}, 503)


def _answer(body: object, status: int) -> web.Response:
    return web.Response(body=msgspec.json.encode(body), status=status, content_type="application/json")
