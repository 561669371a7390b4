"""What a client's connection and the front desk know of each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tidegate.config.settings import GatewaySettings
from tidegate.gateway.auth import ANYBODY
from tidegate.gateway.call import Call
from tidegate.gateway.errors import Refusal
from tidegate.gateway.gate import Head
from tidegate.gateway.intake import Budget
from tidegate.gateway.routes import Page, Relay

if TYPE_CHECKING:
    from tidegate.gateway.client import ClientConnection


class Verdict:
    """A head that has been judged: where its request goes and whose it is, or why it goes nowhere."""

    __slots__ = (
        "forward",
        "found",
        "head",
        "heartbeat_s",
        "may_spill",
        "owner",
        "refusal",
        "session",
        "timeout_s",
    )

    def __init__(self, head: Head) -> None:
        self.head = head
        self.refusal: Refusal | None = None
        self.found: Relay | Page | None = None
        self.owner = ANYBODY
        self.forward = b""
        """Header lines that go to the engine."""
        self.timeout_s = 0.0
        self.may_spill = False
        self.heartbeat_s: float | None = None
        self.session: str | None = None
        """What the client's requests of one conversation have in common."""


class Desk(Protocol):
    """Who judges and answers requests: the gateway."""

    settings: GatewaySettings
    stopping: bool
    bodies: Budget

    def arrived(self, client: ClientConnection) -> bool:
        """A connection was made. False: there are too many, and it is to be turned away."""

    def left(self, client: ClientConnection) -> None:
        """The connection is closed."""

    def gone(self, call: Call) -> None:
        """The client of this call has gone."""

    def judge(self, raw: bytes) -> tuple[Verdict, int | None]:
        """Judge a request by its head; the second value is its body's length, None when in chunks.

        Raises:
            Refusal: it is no head at all, and where the next one begins is not known.
        """

    def take(self, client: ClientConnection, verdict: Verdict, body: bytes) -> None:
        """A whole request. Answered at once, or attached to the client as its call."""

    def name(self, head: Head | None) -> bytes:
        """What a request is called that is turned away: ``x-request-id``."""

    def refused(self, refusal: Refusal) -> None:
        """A request was turned away; count it."""

    def cut_off(self, *, reason: str) -> None:
        """A client is cut off that waits for no answer to a request, or has one counted elsewhere."""
