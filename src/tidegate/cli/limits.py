"""The process's own limits."""

from __future__ import annotations

import logging
import resource

log = logging.getLogger("tidegate")

RESERVE = 2_048
"""File descriptors for connections to engines, their logs, the journal and the admin pages."""


def raise_file_limit(max_connections: int) -> None:
    """Make room for every client's connection and what serving them takes, as far as the system allows.

    Where it does not, say so: without a descriptor a connection is reset before anybody can answer it.
    """
    wanted = max_connections + RESERVE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if allowed > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed < wanted:
        log.warning(
            "only %d files may be open (ulimit -n); gateway.max_connections of %d needs %d",
            allowed,
            max_connections,
            wanted,
        )
