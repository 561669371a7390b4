"""What requests' and answers' heads have in common: their status lines, and how one is recognised.

Clients and engines repeat a head with every message, but for the number in its Content-Length. Taken
apart there, heads that differ in nothing else share one key, and their judgement can be remembered.
"""

from __future__ import annotations

import re
from http import HTTPStatus

STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}

LENGTH_DIGITS_MAX = 15
LENGTH_FIELD = re.compile(rb"\r\n[Cc]ontent-[Ll]ength: ?([0-9]{1,15})\r\n")
"""How nearly everybody writes it. Any other spelling is read anew each time."""

Key = bytes | tuple[bytes, bytes]


def apart(raw: bytes) -> tuple[Key, int | None]:
    """What this head shares with those that differ only in their length, and the length.

    A head whose length was found is a pair and any other is bytes, so no head without digits there can
    be taken for one with them, whatever bytes it holds.
    """
    digits = LENGTH_FIELD.search(raw)
    if digits is None:
        return raw, None
    return (raw[: digits.start(1)], raw[digits.end(1) :]), int(digits[1])
