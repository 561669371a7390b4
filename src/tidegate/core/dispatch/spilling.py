"""Requests that go to a pay-per-token upstream, because no replica of ours can answer them in time.

Nobody is spilt who can be served here. Whoever would be refused for want of room is passed on instead, and so is
whoever waits for longer than ``max_wait_s``, as long as money, requests in flight and the upstream's own health
allow it. A request goes there once: if it fails there it ends as it would have without it, and says so.
"""

from __future__ import annotations

from math import inf

from tidegate.core.dispatch import outlook
from tidegate.core.dispatch.ledger import Entry, Phase
from tidegate.core.dispatch.line import Line
from tidegate.core.dispatch.spans import REFUSED
from tidegate.core.dispatch.spillbook import SpillBook, Spilt, price
from tidegate.core.effects import Spill
from tidegate.core.events import Failure, UpstreamEnded, UpstreamFailed
from tidegate.core.outcomes import Outcome
from tidegate.core.settings import SpillBounds
from tidegate.core.types import ModelId, ReplicaId

NOT_BILLED = frozenset({Failure.REFUSED, Failure.BUSY, Failure.ERROR})
"""Before an answer has begun: the upstream took nothing on."""


def upstream_of(model: ModelId) -> ReplicaId:
    """What the model's upstream is called where replicas are. No model's name has this sign in it."""
    return ReplicaId(f"{model}+spill")


def spill(
    line: Line,
    entry: Entry,
    outcome: Outcome,
    because: str,
    now_s: float,
    retry_after_s: float | None = None,
) -> Spill | None:
    """The order to pass the entry on, instead of ending it so; None when it may not be. The books are right then."""
    bounds = line.config.spill
    if bounds is None or not _is_eligible(entry, bounds, outcome, now_s):
        return None
    output, cost = _at_most(entry, bounds)
    if _bound(line, bounds, cost, now_s) is not None:
        return None
    if entry.flow is not None:
        line.queue.settle(entry, 0.0)  # No replica of ours will have worked for it.
    if line.queue.held.requests:
        line.queue.leave(entry)
    # It does not come back for the place that it was told of.
    line.promises.redeem(entry, now_s, at_any_time=True)
    line.spills.sent(entry.request_id, cost)
    line.span.spilt()
    entry.spilt = Spilt(cost, output, bounds, outcome, because, retry_after_s)
    entry.phase = Phase.SENT
    entry.replica_id = upstream_of(line.model)
    entry.sent_s = now_s
    entry.attempts += 1
    return Spill(entry.request_id, entry.replica_id, entry.attempts, because, cost)


def note_refused(line: Line, entry: Entry, outcome: Outcome, now_s: float) -> None:
    """The entry is refused. Where it could have been spilt but for a bound, that is counted."""
    bounds = line.config.spill
    if bounds is None or not _is_eligible(entry, bounds, outcome, now_s):
        return
    bound = _bound(line, bounds, _at_most(entry, bounds)[1], now_s)
    if bound is not None:
        line.spills.held(bound)


def foreseen(line: Line, entry: Entry, now_s: float) -> str | None:
    """Why a newcomer would wait for longer than the policy lets it, as far as that is known; None when not."""
    bounds = line.config.spill
    if bounds is None or bounds.max_wait_s is None:
        return None
    if bounds.max_wait_s == 0.0:
        return "no replica is free"
    if line.anybody_serves():
        wait_s = outlook.wait_s(line, entry, now_s)
    else:
        ready_s = line.expected_ready_s()
        wait_s = None if ready_s is None else ready_s - now_s
    if wait_s is None or wait_s <= bounds.max_wait_s:
        return None
    return f"the wait is expected to be {wait_s:.1f} s"


def due_s(line: Line, entry: Entry) -> float:
    """When an entry that waits has waited for as long as it is to before it is spilt; infinity: it never is."""
    bounds = line.config.spill
    if bounds is None or bounds.max_wait_s is None or not _may_leave(entry, bounds):
        return inf
    return entry.queued_s + bounds.max_wait_s


def began(book: SpillBook, entry: Entry, now_s: float) -> None:
    """The upstream's answer has begun."""
    entry.phase = Phase.STREAMING
    if entry.first_byte_s is None:
        entry.first_byte_s = now_s
    book.breaker.answered()


def grew(book: SpillBook, entry: Entry) -> None:
    """More of the upstream's answer has come. Longer than was reserved for, it takes more of the hour's money now."""
    spilt = entry.spilt
    assert spilt is not None
    cost = spilt.used(entry.arrived.prompt_tokens, entry.answer_tokens)
    if cost > spilt.cost:
        book.reserve(entry.request_id, cost)


def answered(book: SpillBook, entry: Entry, event: UpstreamEnded, now_s: float) -> None:
    """The upstream's answer is complete."""
    spilt = entry.spilt
    assert spilt is not None
    began(book, entry, now_s)
    entry.status, entry.cached_tokens = event.status, event.cached_tokens
    if event.status >= 400:
        entry.spilt_cost = 0.0
        return
    prompt, output = event.prompt_tokens, event.output_tokens
    if output is None:
        output = spilt.output_tokens if prompt is None else 0
    entry.spilt_cost = spilt.used(entry.arrived.prompt_tokens if prompt is None else prompt, output)


def failed(book: SpillBook, entry: Entry, event: UpstreamFailed, now_s: float) -> tuple[Outcome, str]:
    """The upstream failed it. How it ends then, and why."""
    spilt = entry.spilt
    assert spilt is not None
    entry.status = event.status
    has_begun = entry.first_byte_s is not None
    book.failed(event.failure, event.status, now_s, has_begun=has_begun)
    what = event.failure.value
    if has_begun:
        return (
            Outcome.FAILED_MIDSTREAM,
            f"the upstream for spilt requests failed in the middle of its answer: {what}",
        )
    if event.failure in NOT_BILLED:
        entry.spilt_cost = 0.0
    return spilt.outcome, f"{spilt.because}; it was spilt, and the upstream failed: {what}"


def settle(book: SpillBook, entry: Entry, prompt: int | None, output: int | None, now_s: float) -> None:
    """The entry is about to be closed, in whatever way: what it has cost is known now, as well as it ever will be.

    ``prompt`` and ``output`` are the upstream's own counts, None where it gave none. Of an answer that was broken off
    the tokens passed on are known; one in a single piece may have been complete.
    """
    spilt, arrived = entry.spilt, entry.arrived
    assert spilt is not None
    prompt = arrived.prompt_tokens if prompt is None else prompt
    output = entry.answer_tokens if output is None else output
    if entry.spilt_cost is None:
        entry.spilt_cost = spilt.used(prompt, output) if arrived.streams else spilt.cost
    book.ended(entry.request_id, entry.spilt_cost, (prompt, output), now_s)


def _is_eligible(entry: Entry, bounds: SpillBounds, outcome: Outcome, now_s: float) -> bool:
    """It ends for want of room, may leave the house, and has the time for it."""
    in_time = entry.arrived.deadline_s - now_s > bounds.ttft_s
    return outcome in REFUSED and in_time and _may_leave(entry, bounds)


def _may_leave(entry: Entry, bounds: SpillBounds) -> bool:
    """It may leave the house, and nothing of it has been passed on."""
    arrived = entry.arrived
    return (
        entry.spilt is None
        and not entry.resumes
        and arrived.may_spill
        and arrived.adapter is None
        and arrived.priority >= bounds.from_priority
    )


def _at_most(entry: Entry, bounds: SpillBounds) -> tuple[int, float]:
    """Tokens of its answer, and the money for it and its prompt."""
    limit = entry.arrived.max_output_tokens
    output = bounds.output_tokens if limit is None else limit
    return output, price(bounds, entry.arrived.prompt_tokens, output)


def _bound(line: Line, bounds: SpillBounds, cost: float, now_s: float) -> str | None:
    """What keeps a request of this cost here; None when it may go."""
    if line.route is not None and not line.route.may_spill:
        return "fleet.max_cost_per_day"
    return line.spills.obstacle(bounds, cost, now_s)
