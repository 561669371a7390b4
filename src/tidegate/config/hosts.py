"""Under which names a port without a password may be asked for.

A page on the open web can point its own domain at this machine and read, through the user's browser,
whatever answers there (DNS rebinding). The browser then names that domain in Host, so a port that asks
for no key answers only to names that such a page cannot have.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

_AUTHORITY = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::[0-9]{1,5})?", re.IGNORECASE | re.ASCII)


class Hosts:
    """The names of one port, whatever its number: a tunnel may change that."""

    def __init__(self, bound: str, others: Iterable[str] = ()) -> None:
        """``bound`` is the address that is listened on."""
        self._names = {name.lower() for name in (bound, *others)}
        # Behind a wildcard the machine's own addresses are not known. Any address will do, since
        # rebinding needs a name.
        self._takes_addresses = bound in ("", "0.0.0.0", "::")  # noqa: S104

    def allow(self, authority: str) -> bool:
        """Whether a Host header, or the authority of an Origin, names us."""
        parts = _AUTHORITY.fullmatch(authority)
        if parts is None:
            return False
        name = (parts[1] or parts[2]).lower()
        return name in self._names or is_loopback(name) or (self._takes_addresses and _is_address(name))


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
