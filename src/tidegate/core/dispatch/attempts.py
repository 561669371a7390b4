"""What becomes of an attempt at a replica: its first byte, its end, its failure, and what follows."""

from __future__ import annotations

from tidegate.core.dispatch import spilling
from tidegate.core.dispatch.budget import Arrivals, Budget
from tidegate.core.dispatch.filling import fill
from tidegate.core.dispatch.floor import DispatchEffect, Floor
from tidegate.core.dispatch.ledger import Entry, Phase
from tidegate.core.dispatch.line import Line
from tidegate.core.effects import CancelUpstream
from tidegate.core.events import ClientGone, Failure, FirstByte, TokensSent, UpstreamEnded, UpstreamFailed
from tidegate.core.outcomes import Outcome
from tidegate.core.types import ReplicaId

RETRY_SHARE = 0.10
RETRY_FLOOR = 60.0
"""Retries within half a minute, beside a tenth of the traffic: the deaths of seven whole replicas of eight slots
need no more, and an engine that fails every request gets no more than two a second."""
RESUME_SHARE = 1.0
"""Going on with a broken stream costs its prompt once more; what is left of the answer is due anyway. So as
many may be taken up as requests came in, and not a tenth."""


class Attempts:
    """Owns no requests: it moves them on the floor."""

    def __init__(self, floor: Floor, arrivals: Arrivals) -> None:
        self._floor = floor
        self._retries = Budget(arrivals, RETRY_FLOOR)
        self._resumes = Budget(arrivals, RETRY_FLOOR)

    def first_byte(self, event: FirstByte, now_s: float) -> list[DispatchEffect]:
        """The answer has begun. Of two replicas the other one is no longer needed."""
        floor = self._floor
        entry = floor.ledger.find(event.request_id)
        if entry is None or entry.phase is not Phase.SENT:
            return []
        line = floor.lines.get(entry.model)
        if entry.spilt is not None:
            if event.replica_id in (None, entry.replica_id):
                spilling.began(floor.spills[entry.model], entry, now_s)
            return []
        winner = event.replica_id or entry.replica_id
        seat = None if winner is None else floor.seats.get(winner)
        if line is not None and seat is not None:
            line.note_first_byte(entry, seat, now_s)
        entry.phase = Phase.STREAMING
        entry.deaths = 0
        if entry.first_byte_s is None:
            entry.first_byte_s = now_s
        effects: list[DispatchEffect] = []
        if entry.hedge_id is not None and winner is not None:
            effects = self._drop_other(entry, winner, now_s)
        if line is None or not line.queue.held.requests:
            return effects
        # The replica may take the next prompt, or the other one's slot has become free.
        return effects + fill(floor, line, now_s)

    def tokens_sent(self, event: TokensSent, now_s: float) -> list[DispatchEffect]:
        """A long answer is charged before it ends."""
        entry = self._floor.ledger.find(event.request_id)
        if entry is None or event.tokens <= entry.answer_tokens:
            return []
        entry.answer_tokens = event.tokens
        if entry.spilt is not None:
            spilling.grew(self._floor.spills[entry.model], entry)
            return []
        line = self._floor.lines.get(entry.model)
        tokens = entry.arrived.prompt_tokens + event.tokens
        if line is not None and entry.flow is not None and tokens > entry.cost:
            line.queue.settle(entry, tokens)
        return []

    def ended(self, event: UpstreamEnded, now_s: float) -> list[DispatchEffect]:
        """The answer is complete."""
        floor = self._floor
        entry = floor.ledger.find(event.request_id)
        if entry is None or entry.phase is Phase.QUEUED:
            return []
        if entry.spilt is not None:
            if event.replica_id not in (None, entry.replica_id):
                return []
            spilling.answered(floor.spills[entry.model], entry, event, now_s)
            return [floor.close(entry, Outcome.COMPLETED, now_s, event.prompt_tokens, event.output_tokens)]
        winner = event.replica_id or entry.replica_id
        assert winner is not None
        entry.status, entry.cached_tokens = event.status, event.cached_tokens
        effects = self._drop_other(entry, winner, now_s) if entry.hedge_id is not None else []
        is_first = entry.first_byte_s is None
        if is_first:
            entry.first_byte_s = now_s
        line = floor.lines.get(entry.model)
        if line is not None and event.status < 400:
            line.router.answered(entry, winner, now_s, event)
        seat = floor.seats.get(winner)
        if line is not None and event.status < 400:
            if seat is not None and is_first:
                seat.answered(now_s)
            prompt = entry.arrived.prompt_tokens if event.prompt_tokens is None else event.prompt_tokens
            line.note_answer(entry, seat, now_s, prompt, event.output_tokens)
        elif line is not None and entry.flow is not None:
            line.queue.settle(entry, 0.0)  # The engine did nothing for it.
        effects.append(floor.close(entry, Outcome.COMPLETED, now_s, event.prompt_tokens, event.output_tokens))
        if line is None or not len(line.queue):
            return effects
        return effects + fill(floor, line, now_s)

    def failed(self, event: UpstreamFailed, now_s: float) -> list[DispatchEffect]:
        """Seven cases, the first that fits.

        1. The request has ended already, or is not at that replica: a late fact.
        2. It was spilt: it ends, since nobody here was to answer it.
        3. Another replica works on it too: that one goes on.
        4. A byte has been passed on, and another replica can take the answer up: it waits for that.
        5. A byte has been passed on: it ends with an error event.
        6. Nothing was started there, or a retry is left in the request and in the budget: it waits for
           its next turn, before everybody who had none.
        7. It ends with an error.
        """
        floor = self._floor
        entry = floor.ledger.find(event.request_id)
        if entry is None or entry.phase is Phase.QUEUED:  # 1
            return []
        failed_id = event.replica_id or entry.replica_id
        if failed_id is None or failed_id not in (entry.replica_id, entry.hedge_id):
            return []
        if entry.spilt is not None:  # 2
            if event.replica_id not in (None, entry.replica_id):
                return []
            outcome, because = spilling.failed(floor.spills[entry.model], entry, event, now_s)
            return floor.turn_away(entry, outcome, because, now_s, entry.spilt.retry_after_s)
        was_hedged = entry.hedge_id is not None
        entry.status = event.status
        seat = floor.leave(entry, failed_id, now_s)
        line = floor.lines.get(entry.model)
        if seat is not None:
            has_begun = entry.phase is Phase.STREAMING
            is_alone = line is None or line.is_alone(seat)
            seat.failed(event.failure, now_s, has_begun=has_begun, is_alone=is_alone)
        effects: list[DispatchEffect] = []
        if was_hedged:  # 3
            entry.tried = (*entry.tried, failed_id)
        else:
            effects = self._after_failure(entry, line, event, failed_id, now_s)
        if line is not None:
            change_s = line.next_change_s(now_s)
            if change_s is not None:
                effects += floor.wake_by(change_s)
            effects += fill(floor, line, now_s)
        return effects

    def client_gone(self, event: ClientGone, now_s: float) -> list[DispatchEffect]:
        """Nobody waits for the answer any more, in whatever phase."""
        floor = self._floor
        entry = floor.ledger.find(event.request_id)
        if entry is None:
            return []
        effects = floor.cancel(entry)
        effects.append(floor.close(entry, Outcome.CLIENT_GONE, now_s))
        line = floor.lines.get(entry.model)
        return effects if line is None else effects + fill(floor, line, now_s)

    # ---- the pieces ----

    def _after_failure(
        self, entry: Entry, line: Line | None, event: UpstreamFailed, failed_id: ReplicaId, now_s: float
    ) -> list[DispatchEffect]:
        floor, failure = self._floor, event.failure
        if failure is not Failure.BUSY:
            entry.failures += 1
        if failure is Failure.CUT:
            entry.deaths += 1
        has_begun = entry.first_byte_s is not None
        tokens = event.resumable_tokens
        if has_begun and tokens is None:
            # Broken off, or never taken up by the replica that was to go on with it.
            tokens = entry.resumed_tokens if entry.phase is Phase.SENT else None
        if line is not None and self._may_try_again(
            entry, line, failure, now_s, has_begun=has_begun, tokens=tokens
        ):
            if failed_id not in entry.tried:
                entry.tried = (*entry.tried, failed_id)
            if has_begun:  # 4
                entry.resumes += 1
                entry.resumed_tokens = tokens or 0
            return floor.queue(entry, line, now_s)  # 6
        is_fatal = line is not None and entry.deaths >= line.config.max_deaths > 1
        if has_begun:  # 5
            because = f"the engine failed in the middle of its answer: {failure.value}"
            if is_fatal:
                because = f"{entry.deaths} engines in a row broke off while they worked on it"
            return floor.turn_away(entry, Outcome.FAILED_MIDSTREAM, because, now_s)
        because = f"no replica answered, after {entry.attempts} tried: {failure.value}"
        if is_fatal:
            because = f"{entry.deaths} engines in a row broke off while they worked on it; it is not given to another"
        return floor.turn_away(entry, Outcome.FAILED_ENGINE, because, now_s, 1.0)  # 7

    def _may_try_again(
        self, entry: Entry, line: Line, failure: Failure, now_s: float, *, has_begun: bool, tokens: int | None
    ) -> bool:
        if now_s >= entry.arrived.deadline_s or self._floor.stop_deadline_s is not None:
            return False
        if has_begun and (tokens is None or not line.config.resume):
            return False
        if failure is Failure.BUSY:
            # The engine took nothing on: waiting for another turn costs it nothing either.
            return True
        if entry.failures > line.config.max_retries or entry.deaths >= line.config.max_deaths:
            return False
        if has_begun:
            return self._resumes.take(now_s, RESUME_SHARE)
        return self._retries.take(now_s, RETRY_SHARE)

    def _drop_other(self, entry: Entry, winner: ReplicaId, now_s: float) -> list[DispatchEffect]:
        """Of the two replicas that work on the entry, this one is heard."""
        loser = entry.hedge_id if winner == entry.replica_id else entry.replica_id
        assert loser is not None
        self._floor.leave(entry, loser, now_s)
        return [CancelUpstream(entry.request_id, loser)]
