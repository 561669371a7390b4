"""Whether a request that finds no free slot may wait, and when to come back if not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidegate.core.dispatch import outlook
from tidegate.core.dispatch.held import NOTHING, Held
from tidegate.core.dispatch.ledger import Entry
from tidegate.core.dispatch.line import Line
from tidegate.core.outcomes import Outcome
from tidegate.core.settings import QueueLimits

RETRY_AFTER_MIN_S = 1.0
RETRY_AFTER_MAX_S = 600.0
"""OpenAI's client obeys up to 120 s, 60 s in its older releases, and gives up above: an overload that is
going to last longer is not made worse by those who would be turned away again."""
RETRY_AFTER_UNKNOWN_S = 20.0
"""When nobody serves and nothing is known of when somebody will."""
APART_UNKNOWN_S = 0.02

MARGIN = 0.8
"""Of the time left, what the predicted wait of a newcomer may take up: predictions are not exact."""
MARGIN_TOLD = 1.25
"""The same for one who comes back as told: it was promised, and half of what is left was its own."""
LEAST_LEFT = 0.1
"""Of the time to the deadline, what a wait may take up in any case: or a tight deadline could never wait."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request may not wait."""

    outcome: Outcome
    because: str
    retry_after_s: float


def clamp_retry_after(wait_s: float) -> float:
    """Within what clients obey."""
    return min(RETRY_AFTER_MAX_S, max(RETRY_AFTER_MIN_S, wait_s))


def retry_after_nobody(expected_ready_s: float | None, now_s: float) -> float:
    """When somebody is expected to serve."""
    return clamp_retry_after(RETRY_AFTER_UNKNOWN_S if expected_ready_s is None else expected_ready_s - now_s)


def judge(
    line: Line, entry: Entry, now_s: float, overall: QueueLimits, others: Iterable[Line] = ()
) -> tuple[Refusal | None, list[Entry]]:
    """Whether the entry may join the line, and whom it pushes out of it, or out of the ``others``.

    0. No more replicas can come, and somebody of a higher class waits: refused at once.
    1. Its time is up before its turn is expected: refused at once instead of later.
    2. It fits.
    3. Others have the weaker claim to their places: they go.
    4. The queue is full.

    Nobody is told to come back before there is room, and who comes back then finds a place kept.
    """
    if _sheds(line, entry):  # 0
        because = "the fleet is at its limit, and requests of a higher class wait"
        return Refusal(Outcome.REJECTED_FULL, because, clamp_retry_after(outlook.clears_s(line, now_s))), []
    came_back = line.promises.redeem(entry, now_s)
    kept = NOTHING if came_back else line.promises.kept(entry, now_s)
    late = _late(line, entry, now_s, kept, came_back=came_back)
    if late is not None:  # 1
        return late, []
    full = line.queue.fits(entry, kept, overall)
    if full is None:  # 2
        return None, []
    gone = line.queue.displaced(entry, overall)
    if not gone:
        queues = (other.queue for other in others if other is not line)
        gone = line.queue.displaced_elsewhere(entry, overall, queues)
    if gone:  # 3
        return None, gone
    return _full(line, entry, full, now_s), []  # 4


def hopeless(line: Line, entry: Entry, now_s: float) -> str | None:
    """Why its time is up before its first token could be there, whoever waits; None when it is not. An engine would
    compute its prompt for nobody."""
    left_s = entry.arrived.deadline_s - now_s
    if left_s <= 0.0:
        return "its deadline has passed"
    least_s = line.router.least_s(entry.arrived, left_s)
    if least_s <= left_s:
        return None
    return f"its prompt takes {least_s:.1f} s at least, of which {left_s:.1f} s are left"


def foresees_refusal(line: Line, entry: Entry, now_s: float, overall: QueueLimits) -> bool:
    """Whether ``judge`` would refuse this newcomer now. Only a look: nothing is promised, nobody is displaced."""
    if _sheds(line, entry):
        return True
    if line.promises.expects(entry, now_s):
        return False
    kept = line.promises.kept(entry, now_s)
    if _too_late(line, entry, now_s, kept, came_back=False) is not None:
        return True
    return line.queue.fits(entry, kept, overall) is not None and not line.queue.displaced(entry, overall)


def _sheds(line: Line, entry: Entry) -> bool:
    return line.route is not None and line.route.sheds and line.queue.waits_above(entry.arrived.priority)


def displaced(line: Line, entry: Entry, now_s: float) -> Refusal:
    """Why an entry that waited had to go after all."""
    return _full(line, entry, "room was made for a request with a better claim", now_s)


def _late(line: Line, entry: Entry, now_s: float, kept: Held, *, came_back: bool) -> Refusal | None:
    """A refusal when the deadline, or the longest wait allowed, ends before the entry's turn."""
    found = _too_late(line, entry, now_s, kept, came_back=came_back)
    if found is None:
        return None
    outcome, because, after_s = found
    return Refusal(outcome, because, _come_back(line, entry, now_s, after_s))


def _too_late(
    line: Line, entry: Entry, now_s: float, kept: Held, *, came_back: bool
) -> tuple[Outcome, str, float] | None:
    """How it would be refused, why, and in how many seconds it would not be."""
    arrived = entry.arrived
    if not line.anybody_serves():
        return _starts_too_late(line, entry, now_s)
    wait_s = outlook.wait_s(line, entry, now_s, kept.tokens)
    if wait_s is None:
        return None
    left_s = arrived.deadline_s - now_s
    usual_s = line.waits.service_s() * outlook.share_of_usual(line, entry)
    answer_s = max(usual_s, line.router.least_s(arrived, left_s - wait_s))
    allowed_s = max(LEAST_LEFT * left_s, left_s - answer_s)
    allowed_s = min(allowed_s, line.queue.limits.max_wait_busy_s)
    if wait_s <= allowed_s * (MARGIN_TOLD if came_back else MARGIN):
        return None
    because = f"the wait is expected to be {wait_s:.1f} s, of which {allowed_s:.1f} s are left"
    return Outcome.REJECTED_LATE, because, wait_s - MARGIN * allowed_s


def starts_too_late(line: Line, entry: Entry, now_s: float) -> Refusal | None:
    """A refusal when nobody serves, and the first who will is expected after the entry's time is up."""
    found = _starts_too_late(line, entry, now_s)
    if found is None:
        return None
    outcome, because, after_s = found
    return Refusal(outcome, because, _come_back(line, entry, now_s, after_s))


def _starts_too_late(line: Line, entry: Entry, now_s: float) -> tuple[Outcome, str, float] | None:
    ready_s = line.expected_ready_s()
    last_s = min(entry.arrived.deadline_s, entry.arrived_s + line.queue.limits.max_wait_starting_s)
    if ready_s is None or ready_s <= last_s:
        return None
    because = f"{line.model!r} is expected to serve in {ready_s - now_s:.1f} s, which is too late"
    return Outcome.REJECTED_NOBODY, because, ready_s - now_s


def _full(line: Line, entry: Entry, full: str, now_s: float) -> Refusal:
    """The queue is full: contention when somebody serves, else nobody is there."""
    rate = outlook.rate(line, now_s)
    after_s = 0.0 if rate is None else 0.5 * line.queue.work / rate
    if line.anybody_serves():
        because = f"the queue is full: {full}"
        return Refusal(Outcome.REJECTED_FULL, because, _come_back(line, entry, now_s, after_s))
    ready_s = line.expected_ready_s()
    after_s += RETRY_AFTER_UNKNOWN_S if ready_s is None else max(0.0, ready_s - now_s)
    because = f"no replica serves {line.model!r} yet and the queue is full: {full}"
    return Refusal(Outcome.REJECTED_NOBODY, because, _come_back(line, entry, now_s, after_s))


def _come_back(line: Line, entry: Entry, now_s: float, after_s: float) -> float:
    """Tell a moment, each a little after the one told before, as fast as the queue takes requests on."""
    rate = outlook.rate(line, now_s)
    apart_s = APART_UNKNOWN_S
    if rate is not None and line.queue.mean_work is not None:
        apart_s = line.queue.mean_work * line.queue.shared_by(entry) / rate
    after_s = clamp_retry_after(after_s)
    return clamp_retry_after(line.promises.make(entry, now_s, after_s, apart_s, RETRY_AFTER_MAX_S))
