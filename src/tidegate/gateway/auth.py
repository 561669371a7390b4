"""Who a request belongs to, by its API key. Only hashes of keys are configured."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from tidegate.config.settings import Client
from tidegate.core.types import DEFAULT_FLOW

ANYBODY = Client(DEFAULT_FLOW)

KEY_MAX_BYTES = 512


class Keys:
    """The known keys, by SHA-256 in hex.

    Looking a digest up in a dictionary tells nothing about a key by its timing: who does not have
    the key cannot steer its digest.
    """

    def __init__(self, clients: Mapping[str, Client]) -> None:
        self._clients = {digest.lower(): client for digest, client in clients.items()}
        self._seen: dict[bytes, Client] = {}
        """Header to client, of good keys alone: never larger than the number of configured keys
        times the spellings of "Bearer", and it saves the 1 µs of a hash for each request."""

    def __repr__(self) -> str:
        return f"<Keys {len(self._clients)}>"

    def client(self, authorization: bytes | None) -> Client | None:
        """Whose key this is; None when it is nobody's. Without configured keys everybody is welcome."""
        if not self._clients:
            return ANYBODY
        if authorization is None:
            return None
        client = self._seen.get(authorization)
        if client is None:
            client = self._look_up(authorization)
        return client

    def _look_up(self, authorization: bytes) -> Client | None:
        scheme, _, key = authorization.partition(b" ")
        if scheme.lower() != b"bearer" or not key or len(key) > KEY_MAX_BYTES:
            return None
        client = self._clients.get(hashlib.sha256(key).hexdigest())
        if client is not None and len(self._seen) < 2 * len(self._clients):
            self._seen[authorization] = client
        return client
