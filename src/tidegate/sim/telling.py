"""Long answers are told of before they end, as the gateway does: each time one has grown by a good deal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidegate.core.events import TokensSent
from tidegate.core.types import RequestId
from tidegate.engine.sequence import Sequence
from tidegate.sim.engines import SimEngine

TOLD_EVERY_TOKENS = 512
"""The gateway's own."""


@dataclass(slots=True)
class _Long:
    engine: SimEngine
    sequence: Sequence
    given: int
    """Tokens of engines before this one."""
    told: int


class LongAnswers:
    """Those under way that are long enough to be told of."""

    def __init__(self, tell: Callable[[TokensSent], None]) -> None:
        self._tell = tell
        self._long: dict[RequestId, _Long] = {}

    def __repr__(self) -> str:
        return f"<LongAnswers {len(self._long)}>"

    def sent(self, request_id: RequestId, engine: SimEngine, sequence: Sequence, given: int) -> None:
        """An engine has taken it on, after so many tokens of others."""
        if given + sequence.output_tokens >= TOLD_EVERY_TOKENS:
            before = self._long.get(request_id)
            self._long[request_id] = _Long(engine, sequence, given, 0 if before is None else before.told)

    def look(self) -> None:
        """Tell of those that have grown; forget those that are under way no more."""
        over = []
        for request_id, answer in self._long.items():
            engine = answer.engine
            if engine.sequences.get(request_id) is not answer.sequence:
                over.append(request_id)
                continue
            engine.catch_up()
            tokens = answer.given + engine.tokens_out(answer.sequence)
            if tokens >= answer.told + TOLD_EVERY_TOKENS:
                answer.told = tokens
                self._tell(TokensSent(request_id, tokens))
        for request_id in over:
            del self._long[request_id]
