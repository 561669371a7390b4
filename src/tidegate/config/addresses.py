"""Addresses of engines and of ourselves, from what a policy file has."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from tidegate.core.types import Address

_LOOPBACK_NAMES = frozenset({"localhost", "localhost.localdomain", "ip6-localhost"})


def address(written: str) -> Address | None:
    """The host and port of ``http://HOST:PORT``; None when they cannot be."""
    try:
        parts = urlsplit(written)
        host, port = parts.hostname, parts.port
        if host is not None and ":" in host:
            ipaddress.IPv6Address(host)
    except ValueError:
        return None
    return Address(host, port) if host and port else None


def one_spelling(where: Address) -> Address:
    """The address as every spelling of it comes out: this machine has several names, and IPv6 several forms. Two engines may
    listen at one port of IPv4 and of IPv6, so the two loopback addresses are not one."""
    host = where.host.rstrip(".").lower()
    try:
        parsed = ipaddress.ip_address(host)
    except ValueError:
        return Address("127.0.0.1" if host in _LOOPBACK_NAMES else host, where.port)
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return Address(str(parsed if mapped is None else mapped), where.port)
