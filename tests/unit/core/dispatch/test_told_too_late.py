"""Who waits at zero replicas learns that the start ends too late when that is known, and not at the deadline."""

from tidegate.core.lifecycle import State
from tidegate.core.outcomes import Outcome
from unit.core.dispatch.dispatch_world import World, outcomes, rejected


def test_who_waited_when_the_start_was_ordered_is_told_at_once_how_long_it_takes():
    world = World()
    world.table(0)
    assert outcomes(world.ask("hurried", 0.0, deadline_s=60.0)) == []
    assert outcomes(world.ask("patient", 0.0, deadline_s=600.0)) == []

    effects = world.table(0.1, ("m-1", 0, State.STARTING), expected_ready_s=100.0)

    assert outcomes(effects) == [("hurried", Outcome.REJECTED_NOBODY)]
    assert 99.0 < rejected(effects).retry_after_s < 101.0


def test_a_start_that_is_on_time_turns_nobody_away():
    world = World()
    world.table(0)
    world.ask("a", 0.0, deadline_s=60.0)

    assert outcomes(world.table(0.1, ("m-1", 0, State.STARTING), expected_ready_s=59.0)) == []
