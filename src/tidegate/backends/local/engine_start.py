"""From an engine's process to its first token, and why there was none."""

from __future__ import annotations

import asyncio
import re

from tidegate.adapters.base import Readiness
from tidegate.adapters.startup import parts_of
from tidegate.backends.engine_client import Answer
from tidegate.backends.local.model import LocalModel
from tidegate.backends.local.site import Site
from tidegate.backends.local.state import Record
from tidegate.core.lifecycle import Part

_PORT_TAKEN = re.compile(r"address (already )?in use|couldn't bind|EADDRINUSE|errno 98\b", re.IGNORECASE)


class EngineStart:
    """Watches one engine start."""

    def __init__(self, site: Site, model: LocalModel, record: Record) -> None:
        self._site = site
        self._model = model
        self._record = record
        self._last: Answer | None = None

    def __repr__(self) -> str:
        return f"<EngineStart of {self._record.replica_id}, last probe: {self._last}>"

    async def first_token(self) -> Answer:
        """Probe it until it generates, or answers and will never."""
        model, address = self._model, self._record.address
        return await self._site.client.until_ready(address, model.adapter, model.spec, on_answer=self._note)

    def why_it_ended(self, how: str) -> str:
        """Its process has ended, like this, before it was ready."""
        # Between our check and the engine's own bind lie seconds.
        is_taken = _PORT_TAKEN.search(self._site.logs.tail(self._record.replica_id))
        taken = f": somebody else took port {self._record.port}" if is_taken else ""
        return f"{how} before it was ready{taken}"

    def why_not_ready(self, answer: Answer | None) -> str | None:
        """What is wrong, given what the probing came to (None: time was up); None when it is ready."""
        last = self._last
        if last is not None and last.words:
            self._site.logs.note(self._record.replica_id, f"last probe: {last.detail}: {last.words}")
        if answer is None:
            seen = last.detail if last else "no answer"
            return f"not ready within {self._model.start_deadline_s:g} s; last probe: {seen}"
        if answer.readiness is not Readiness.READY:
            return f"the engine answers but generates nothing: {answer.detail}"
        return None

    async def parts(self) -> tuple[tuple[Part, float], ...]:
        """What it says of its start in its log."""
        marks = self._model.adapter.start_marks
        if not marks:
            return ()
        log_text = await asyncio.to_thread(self._site.logs.about_start, self._record.replica_id)
        return parts_of(log_text, marks)

    def _note(self, answer: Answer) -> None:
        self._last = answer
