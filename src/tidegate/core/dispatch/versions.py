"""Names behind which several models stand: which one answers a request, and what its answer says of it."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.core.dispatch.ledger import Entry
from tidegate.core.dispatch.line import Line
from tidegate.core.dispatch.shift import Shift, of_version
from tidegate.core.effects import Record, RolledBack
from tidegate.core.settings import TrafficShift
from tidegate.core.types import ModelId


class Versions:
    """All shifts of one gateway."""

    def __init__(self) -> None:
        self.news: list[RolledBack] = []
        """Not told yet."""
        self._shifts: dict[ModelId, Shift] = {}

    def __repr__(self) -> str:
        return f"<Versions {self._shifts!r}>"

    def configure(self, shifts: Mapping[ModelId, TrafficShift]) -> None:
        """These are the names from now on; what was seen of their versions stays."""
        known, self._shifts = self._shifts, {}
        for name, shift in shifts.items():
            self._shifts[name] = known.get(name) or Shift(shift)
            self._shifts[name].configure(shift)

    def line_for(self, entry: Entry, lines: Mapping[ModelId, Line]) -> Line | None:
        """The line of the version that is to answer; None when no such name is shifted."""
        shift = self._shifts.get(entry.arrived.model)
        if shift is None:
            return None
        arrived = entry.arrived

        def can(model: ModelId) -> bool:
            return model in lines and lines[model].can_serve()

        def matched(model: ModelId) -> float:
            return lines[model].router.cached_tokens(of_version(arrived, model))

        model = shift.choose(arrived.session, can, matched)
        line = lines.get(model)
        if line is not None:
            entry.model, entry.arrived = model, of_version(arrived, model)
            entry.shifted_tokens = entry.tokens + (line.queue.usual_tokens or 0.0)
            shift.sent(model, entry.shifted_tokens)
        return line

    def settle(self, entry: Entry, record: Record) -> None:
        """A request that was shifted has ended: its tokens are known, and how its version did."""
        name = entry.arrived.model
        shift = self._shifts.get(name)
        if shift is None or entry.shifted_tokens is None:
            return
        served = 0.0 if entry.sent_s is None else float(record.prompt_tokens + (record.output_tokens or 0))
        if entry.sent_s is None or record.output_tokens is not None:
            shift.sent(entry.model, served - entry.shifted_tokens)
        if entry.spilt is not None:
            return  # How others answer says nothing of the version.
        because = shift.ended(entry.model, record.outcome, record.ttft_s)
        if because is not None:
            self.news.append(RolledBack(name, entry.model, because))
