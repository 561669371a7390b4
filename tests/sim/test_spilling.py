"""What spilling does to a run: who is answered, when, and for how much."""

import pytest
from click.testing import CliRunner

from sim.worlds import CLOCKWORK, Notes, run, steady, world
from tidegate.cli.explaining import explain_command
from tidegate.core.effects import Spill
from tidegate.core.settings import QueueLimits, SpillBounds
from tidegate.runtime.plain_journal import PlainJournal
from tidegate.runtime.routed import routed
from tidegate.sim.figures import as_json
from tidegate.sim.scenario import Slo

PRICED = SpillBounds(
    prompt_price=1e-4, output_price=1e-3, max_cost_per_h=1_000.0, max_in_flight=1_000, ttft_s=0.5, tpot_s=0.01
)


def capped(spill, rows, **more):
    """One replica of four slots that takes 1 ms a token, and no room to wait."""
    scenario = world(
        law=CLOCKWORK,
        slots=4,
        min_replicas=1,
        max_replicas=1,
        queue=QueueLimits(max_requests=1),
        slo=Slo(1.0, 0.1),
        spill=spill,
        **more,
    )
    return run(rows, scenario)


def test_an_hour_of_more_than_one_replica_can_serve():
    """A hundred requests a second of 100 tokens: forty find a place. The others are refused, or spilt."""
    rows = steady(100.0, 20.0, prompt=10, output=100)
    _, refused = capped(None, rows)
    done, spilt = capped(PRICED, rows)
    assert refused.completed < 0.6 * len(rows)
    assert (spilt.completed, spilt.rejected) == (len(rows), 0)
    assert abs(spilt.spilt - refused.rejected) < 0.05 * len(rows)
    each = 10 * 1e-4 + 100 * 1e-3
    assert spilt.spilt_cost == pytest.approx(each * spilt.spilt)
    assert spilt.cost == pytest.approx(done.provision.money + spilt.spilt_cost)
    assert spilt.attainment == 1.0
    assert spilt.ttft_s.p99 == pytest.approx(0.5)
    told = as_json(spilt, policy="p", trace="t", cpu_s=0.0)
    assert told["spilt"] == {"requests": spilt.spilt, "cost": spilt.spilt_cost}


def test_money_for_a_few_answers_a_few():
    rows = steady(100.0, 20.0, prompt=10, output=100)
    few = SpillBounds(
        prompt_price=1e-4, output_price=1e-3, max_cost_per_h=5.0, max_in_flight=1_000, output_tokens=100
    )
    _, found = capped(few, rows)
    assert found.spilt_cost <= 5.0
    assert found.spilt == int(5.0 / (10 * 1e-4 + 100 * 1e-3))
    assert found.rejected > 0


def test_who_leaves_is_not_answered_later():
    """Clients that leave after 0.2 s have no first byte from an upstream that takes 0.5 s."""
    rows = steady(100.0, 5.0, prompt=10, output=100)
    _, found = capped(PRICED, rows, faults=("leave:at=0,for=10,share=1,patience=0.2",))
    assert found.outcomes["client_gone"] > 100
    assert found.completed + found.outcomes["client_gone"] == len(rows)


def test_the_same_orders_as_live():
    notes = Notes()
    rows = steady(100.0, 1.0, prompt=10, output=100)
    scenario = world(
        law=CLOCKWORK,
        slots=4,
        min_replicas=1,
        max_replicas=1,
        queue=QueueLimits(max_requests=1),
        spill=PRICED,
    )
    run(rows, scenario, journal=notes)
    spills = [effect for turn in notes.turns for effect in turn[3] if isinstance(effect, Spill)]
    assert spills
    assert all("the queue is full" in effect.because for effect in spills)


def test_explain_says_of_a_request_that_it_was_spilt_and_why(tmp_path):
    rows = steady(100.0, 1.0, prompt=10, output=100)
    scenario = world(
        law=CLOCKWORK,
        slots=4,
        min_replicas=1,
        max_replicas=1,
        queue=QueueLimits(max_requests=1),
        spill=PRICED,
    )
    notes, path = Notes(), tmp_path / "journal.jsonl"
    with PlainJournal(path, "run") as journal:
        run(rows, scenario, journal=journal)
    run(rows, scenario, journal=notes)
    orders = [effect for turn in notes.turns for effect in turn[3] if isinstance(effect, Spill)]

    found = routed([path], orders[0].request_id)
    assert found.spilt is not None
    assert found.spilt[1] == orders[0]
    assert found.choices == ()
    assert found.is_as_recorded
    assert found.record.spilt_cost == pytest.approx(10 * 1e-4 + 100 * 1e-3)
    told = CliRunner().invoke(explain_command, [str(path), "--request", orders[0].request_id]).output
    assert "spilt, 0.000 s after it came: the queue is full" in told
    assert "for 0.101000" in told
