"""One brain's turns: their order, what one failing order does to the others, and wake-ups on time."""

import asyncio

import pytest

from tidegate.core.effects import CancelUpstream, Reject, WakeAt
from tidegate.core.events import Tick
from tidegate.core.outcomes import Outcome
from tidegate.runtime.journal import NoJournal
from tidegate.runtime.turns import Turns


class Hand:
    """A clock that a test sets."""

    def __init__(self):
        self.s = 0.0

    def now_s(self):
        return self.s


class Script:
    """A brain that answers each event from a list and keeps what it was told, and when."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.told = []

    def on(self, event, now_s):
        self.told.append((event, now_s))
        return self.answers.pop(0) if self.answers else []


def test_a_fact_reported_while_orders_are_carried_out_waits_for_the_turn_to_end():
    brain = Script([CancelUpstream("a", "m-1"), CancelUpstream("b", "m-1")])
    seen = []

    def carry(order):
        if order.request_id == "a":
            turns.handle("its failure")
        seen.append((order.request_id, len(brain.told)))

    turns = Turns("test", brain, Hand(), NoJournal(), {CancelUpstream: carry})
    turns.handle("begin")

    assert seen == [("a", 1), ("b", 1)]
    assert [event for event, _ in brain.told] == ["begin", "its failure"]


def test_an_order_that_cannot_be_carried_out_loses_no_other_and_is_heard_of(caplog):
    brain = Script([CancelUpstream("a", "m-1"), Reject("b", Outcome.FAILED_ENGINE, "why")])
    done, failed = [], []

    def refuse(order):
        raise ZeroDivisionError

    carry = {CancelUpstream: refuse, Reject: done.append}
    turns = Turns("test", brain, Hand(), NoJournal(), carry, failed=lambda order, error: failed.append(order))
    turns.handle("begin")

    assert [order.request_id for order in done] == ["b"]
    assert [order.request_id for order in failed] == ["a"]
    assert "CancelUpstream could not be carried out" in caplog.text
    turns.handle("the next turn comes as ever")
    assert len(brain.told) == 2


@pytest.mark.parametrize("early_s", [0.0, 0.0015])
async def test_a_wake_up_never_comes_before_its_moment(early_s):
    clock, brain = Hand(), Script([WakeAt(0.01)])
    turns = Turns("test", brain, clock, NoJournal(), {})
    turns.handle("begin")

    clock.s = 0.01 - early_s  # what a clock may say when a loop that counts in milliseconds wakes us
    await asyncio.sleep(0.02)
    told_early = len(brain.told)
    clock.s = 0.01
    await asyncio.sleep(0.02)

    assert told_early == (1 if early_s else 2)
    assert brain.told[1] == (Tick(), 0.01)
