"""What vLLM's stream of KV events says about how far back a replica's cache still reaches.

vLLM (0.9 and newer, ``--kv-events-config``) publishes over ZeroMQ, in msgpack, which blocks were stored and which removed:
``BlockStored(hashes, parent, token ids, ...)``, ``BlockRemoved(hashes)``, ``AllBlocksCleared``, written as arrays by older
versions and as maps by newer ones. SGLang writes the same [vllm: vllm/distributed/kv_events.py, 2026].

Its hashes are of token ids, and the router's of text that nobody tokenises here, so single blocks cannot be matched.
But engines remove the least recently used block first: when one that was stored at some moment has been removed, all
that was last used before that moment is gone too. That moment is the *edge*. It is a safe bound whatever messages were
missed, so nothing has to be replayed; a clearing that was missed is found from what engines report with each answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

FOLLOWED = 8
"""One block in so many is followed: the edge needs a sample, not all."""
FOLLOWED_MOST = 50_000
"""Of one replica; 400,000 blocks of 16 tokens are more than a GPU holds."""
GPU = (None, "GPU", "gpu")
MARGIN_S = 0.25
"""Between a block's last use there and the moment at which we hear of it."""

_decoder = msgspec.msgpack.Decoder()


class CacheEdge:
    """One replica's."""

    __slots__ = ("_sequence", "_stored", "malformed_total")

    def __init__(self) -> None:
        self._stored: dict[int, float] = {}
        self._sequence: int | None = None
        self.malformed_total = 0

    def __repr__(self) -> str:
        return f"<CacheEdge blocks={len(self._stored)}>"

    def take(self, sequence: int, payload: bytes, now_s: float) -> float | None:
        """One message. The moment before which nothing is left, when it moved; ``now_s`` when all is gone.

        A message that makes no sense is counted, and changes nothing.
        """
        began_anew = self._sequence is not None and sequence < self._sequence
        self._sequence = sequence
        edge_s = None
        if began_anew:
            self._stored.clear()
            edge_s = now_s
        try:
            for kind, fields in _events(_decoder.decode(payload)):
                moved_s = self._event(kind, fields, now_s)
                edge_s = moved_s if edge_s is None else max(edge_s, moved_s or edge_s)
        except (msgspec.DecodeError, TypeError, ValueError, KeyError, IndexError):
            self.malformed_total += 1
        return edge_s

    def _event(self, kind: str, fields: Any, now_s: float) -> float | None:
        stored = self._stored
        if kind == "AllBlocksCleared":
            stored.clear()
            return now_s
        if kind == "BlockStored":
            if _field(fields, "medium", 5) in GPU:
                for block in _followed(fields):
                    stored.pop(block, None)
                    stored[block] = now_s
                while len(stored) > FOLLOWED_MOST:
                    del stored[next(iter(stored))]
            return None
        if kind != "BlockRemoved" or _field(fields, "medium", 1) not in GPU:
            return None
        moments = [stored.pop(block) for block in _followed(fields) if block in stored]
        return max(moments) - MARGIN_S if moments else None


def _events(batch: Any) -> Iterator[tuple[str, Any]]:
    """Names and fields: of a batch that is an array or a map, and so are its events."""
    for event in batch["events"] if isinstance(batch, dict) else batch[1]:
        if isinstance(event, dict):
            yield event["type"], event
        else:
            yield event[0], event[1:]


def _field(fields: Any, name: str, place: int) -> Any:
    """Defaults are left out, at the end of an array or anywhere in a map."""
    if isinstance(fields, dict):
        return fields.get(name)
    return fields[place] if len(fields) > place else None


def _followed(fields: Any) -> Iterator[int]:
    """Hashes are numbers, or 32 bytes."""
    for block in _field(fields, "block_hashes", 0):
        number = int.from_bytes(block[:8], "little") if isinstance(block, bytes) else int(block)
        if number % FOLLOWED == 0:
            yield number
