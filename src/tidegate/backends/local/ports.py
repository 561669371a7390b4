"""Ports for engines to listen on: no two replicas ever get the same."""

from __future__ import annotations

import random
import socket

DEFAULT_RANGE = range(20_000, 30_000)
"""Below the range from which kernels take ports for outgoing connections: a port from there could be
taken by a client's connection between the check and the engine's bind."""


class NoFreePort(RuntimeError):
    """Every port of the range is taken."""


class Ports:
    """Hands out ports of one range, each to one replica until it is given back."""

    def __init__(self, host: str, allowed: range = DEFAULT_RANGE) -> None:
        self._host = host
        self._allowed = allowed
        self._taken: set[int] = set()
        # Begins anywhere, so that two fleets on one machine seldom try the same port at once, and goes
        # round, so that a port rests before it is used again.
        self._next = random.randrange(len(allowed))

    def __repr__(self) -> str:
        return f"<Ports {self._allowed.start}-{self._allowed.stop - 1}, {len(self._taken)} taken>"

    def take(self) -> int:
        """A port on which nobody listens.

        Raises:
            NoFreePort: there is none.
        """
        for _ in range(len(self._allowed)):
            port = self._allowed[self._next]
            self._next = (self._next + 1) % len(self._allowed)
            if port not in self._taken and is_free(self._host, port):
                self._taken.add(port)
                return port
        message = f"no free port from {self._allowed.start} to {self._allowed.stop - 1}"
        raise NoFreePort(message)

    def claim(self, port: int) -> None:
        """Mark the port of a replica that runs already."""
        self._taken.add(port)

    def give_back(self, port: int) -> None:
        """The replica is gone."""
        self._taken.discard(port)


def is_free(host: str, port: int) -> bool:
    """True when a server could listen there now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as attempt:
        # As engines do; without it, a port whose last connections linger would look taken.
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            attempt.bind((host, port))
        except OSError:
            return False
    return True
