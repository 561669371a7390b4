"""What goes wrong with one replica: what clients and the controller see of it, to the millisecond."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.worlds import CLOCKWORK, M, Notes, run, steady, world
from tidegate.core.effects import Launch, Resume, Stop
from tidegate.core.events import EngineReported, ReplicaSeen, UpstreamEnded
from tidegate.core.lifecycle import Seen
from tidegate.engine.batch import Engine
from tidegate.engine.latency import LinearLaw
from tidegate.engine.sequence import Limits, Sequence
from tidegate.sim.engines import Outlet, SimEngine
from tidegate.sim.kernel import Kernel
from tidegate.sim.pace import Pace
from tidegate.sim.scenario import Scraping

LONG = [(0.0, 100, 10_000)]
"""One answer of ten seconds on a CLOCKWORK replica."""


def seen(notes, *kinds):
    return [
        (at_s, event.seen, event.detail)
        for _, at_s, event, _ in notes.turns
        if isinstance(event, ReplicaSeen) and event.seen in kinds
    ]


def orders(notes, *kinds):
    return [(at_s, one) for _, at_s, _, effects in notes.turns for one in effects if isinstance(one, kinds)]


# ---- slow ----


def test_two_slow_faults_at_once_multiply_and_each_ends_by_itself():
    faults = ("slow:factor=2,at=1,for=4", "slow:factor=3,at=2,for=1")
    done, _ = run(LONG, world(law=CLOCKWORK, min_replicas=1, max_replicas=1, faults=faults))

    # A second at full speed, one at half, one at a sixth, two at half again; the rest at full speed.
    tokens = 1_000 + 500 + 1_000 / 6 + 1_000
    assert done.tally.e2e_s[0] == pytest.approx(5.0 + (10_000 - tokens) / 1_000, abs=0.01)


def test_a_slow_fault_that_begins_and_ends_while_it_hangs_is_not_forgotten():
    beginning = ("hang:at=1,for=2,health=1", "slow:factor=2,at=2,for=3")
    ending = ("slow:factor=2,at=1,for=1.5", "hang:at=2,for=2,health=1")
    scenario = {"law": CLOCKWORK, "min_replicas": 1, "max_replicas": 1}

    # 1 s at full speed, still until 3 s, half speed until 5 s.
    done, _ = run(LONG, world(faults=beginning, **scenario))
    assert done.tally.e2e_s[0] == pytest.approx(5.0 + 8.0, abs=0.01)
    # 1 s at full speed, 1 s at half, still until 4 s, and then it is as fast as it was.
    done, _ = run(LONG, world(faults=ending, **scenario))
    assert done.tally.e2e_s[0] == pytest.approx(4.0 + 8.5, abs=0.01)


spells = st.lists(
    st.tuples(st.integers(0, 400), st.integers(1, 300), st.sampled_from([0.5, 2, 3, "hang", "mute"])),
    max_size=6,
)


@given(spells)
def test_however_faults_overlap_an_engine_does_the_work_of_its_hours(spells):
    kernel = Kernel()
    ended = []
    outlet = Outlet(lambda *_: None, lambda sequence, _: ended.append(kernel.now_s), lambda *_: None)
    law = LinearLaw(a=1, b=0, c=0, d=1, e=0, f=0)
    sim = SimEngine("m-1", M, Engine(Limits(), law), kernel, outlet, Pace())
    sim.send(Sequence("1", 1, 5_000))
    for at, lasts, what in spells:
        if isinstance(what, str):
            begin, end = sim.hang, sim.go_on
            kernel.at(at / 100, lambda begin=begin, what=what: begin(is_mute=what == "mute"))
            kernel.at((at + lasts) / 100, lambda end=end, what=what: end(is_mute=what == "mute"))
        else:
            kernel.at(at / 100, lambda what=what: sim.slow_down(what))
            kernel.at((at + lasts) / 100, lambda what=what: sim.speed_up(what))
    kernel.run([], lambda _: None)

    moments = sorted({0.0, *(at / 100 for at, _, _ in spells), *((at + d) / 100 for at, d, _ in spells)})
    done, expected = 0.0, None
    for begin, end in zip(moments, [*moments[1:], 1e9], strict=True):
        on = [what for at, lasts, what in spells if at / 100 <= begin < (at + lasts) / 100]
        pace = 1.0
        for what in on:
            pace = 0.0 if isinstance(what, str) else pace / what
        if done + (end - begin) * pace >= 5.0:
            expected = begin + (5.0 - done) / pace
            break
        done += (end - begin) * pace
    # A step that has begun ends as it began; at each change one may.
    assert ended == [pytest.approx(expected, abs=0.01 * (1 + 2 * len(spells)))]
    assert not sim.hangs
    assert not sim.is_mute


# ---- hang ----


def test_a_replica_that_answers_nothing_is_found_unresponsive_and_replaced():
    notes = Notes()
    scenario = world(min_replicas=2, max_replicas=3, cold_s=20.0, faults=("hang:at=50",))
    done, figures = run(steady(2, 200), scenario, journal=notes)

    found = seen(notes, Seen.UNRESPONSIVE)
    assert found == [(60.0, Seen.UNRESPONSIVE, "no answer for 10.0 s, last: no answer in time")]
    stopped = orders(notes, Stop)
    assert (stopped[0][0], stopped[0][1].replica_id) == (60.0, "m-1")
    assert "it is unresponsive: no answer for 10.0 s" in stopped[0][1].because
    assert [at_s for at_s, _ in orders(notes, Launch)] == [60.0]
    assert figures.completed + figures.failed == figures.requests
    assert figures.failed <= 16  # what it had begun to answer
    assert 10.0 < max(at for at in done.tally.e2e_s if at < float("inf")) < 12.0


def test_a_replica_whose_health_answers_is_noticed_by_those_who_wait_alone():
    notes = Notes()
    scenario = world(min_replicas=2, max_replicas=2, faults=("hang:at=50,for=100,health=1",))
    run(steady(2, 200), scenario, journal=notes)

    assert not seen(notes, Seen.UNRESPONSIVE)


def test_a_hang_shorter_than_the_patience_is_no_event():
    notes = Notes()
    run(steady(2, 100), world(min_replicas=2, max_replicas=2, faults=("hang:at=50,for=9",)), journal=notes)

    assert not seen(notes, Seen.UNRESPONSIVE)
    assert not orders(notes, Stop)


def test_what_hangs_has_no_metrics_unless_its_health_answers():
    def pages(fault):
        notes = Notes()
        scenario = world(
            min_replicas=1, max_replicas=1, faults=(fault,), scraping=Scraping(every_s=1.0, lag_s=0.25)
        )
        run(steady(2, 30), scenario, journal=notes)
        return sum(isinstance(event, EngineReported) and 10 < at < 15 for _, at, event, _ in notes.turns)

    assert pages("hang:at=10,for=5,health=1") == 5
    assert pages("hang:at=10,for=5") == 0


# ---- streams that are taken up ----


def resuming(**given):
    return world(law=CLOCKWORK, resume=True, min_replicas=2, max_replicas=2, **given)


def test_a_stream_goes_on_at_another_replica_and_its_client_gets_every_token_once():
    notes = Notes()
    rows = [(0.0, 100, 1_000), (0.0, 100, 1_000)]
    done, figures = run(rows, resuming(faults=("kill:at=0.4005",), cold_s=5.0), journal=notes)

    # 400 tokens had been passed on; the prompt and these are read in one step, which gives the next.
    ((at_s, order),) = orders(notes, Resume)
    assert at_s == pytest.approx(0.4005)
    assert (order.replica_id, order.attempt, order.tokens) == ("m-2", 2, 400)
    ended = [event for _, _, event, _ in notes.turns if isinstance(event, UpstreamEnded)]
    assert [(event.prompt_tokens, event.output_tokens) for event in ended] == [(100, 1_000)] * 2
    assert figures.completed == 2
    # The step under way at the other one ends at 0.401 s; then come 600 steps.
    assert max(done.tally.e2e_s) == pytest.approx(1.001, abs=1e-6)
    assert list(done.tally.ttft_s) == pytest.approx([0.001, 0.001])


def test_without_resume_it_ends_where_it_broke_off():
    rows = [(0.0, 100, 1_000), (0.0, 100, 1_000)]
    scenario = world(law=CLOCKWORK, min_replicas=2, max_replicas=2, faults=("kill:at=0.4",), cold_s=5.0)
    _, figures = run(rows, scenario)

    assert (figures.completed, figures.failed) == (1, 1)


def test_a_stream_is_taken_up_twice():
    notes = Notes()
    rows = [(0.0, 100, 3_000)]
    faults = ("kill:at=0.5005", "kill:at=1.5005")
    scenario = world(law=CLOCKWORK, resume=True, min_replicas=3, max_replicas=3, cold_s=60.0, faults=faults)
    done, figures = run(rows, scenario, journal=notes)

    tokens = [order.tokens for _, order in orders(notes, Resume)]
    assert tokens == [500, 1_500]
    assert figures.completed == 1
    # Half a step was lost with the first; the second died at the end of one.
    assert done.tally.e2e_s[0] == pytest.approx(3.0005, abs=1e-6)


def test_a_stream_of_a_hanging_replica_goes_on_elsewhere():
    notes = Notes()
    rows = [(0.0, 100, 1_000), (0.0, 100, 1_000)]
    done, figures = run(rows, resuming(faults=("hang:at=0.4005",), cold_s=5.0), journal=notes)

    ((at_s, order),) = orders(notes, Resume)
    assert (at_s, order.tokens) == (pytest.approx(10.4005), 400)
    assert figures.completed == 2
    assert max(done.tally.e2e_s) == pytest.approx(10.4005 + 0.600, abs=0.002)


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.integers(0, 2_000), st.integers(1, 500), st.integers(1, 3_000)), min_size=1, max_size=12
    ),
    st.lists(st.tuples(st.integers(1, 4_000), st.integers(0, 2)), max_size=4),
)
def test_no_token_is_lost_or_doubled_however_replicas_die(asked, deaths):
    """Every answer is what its first engine had passed on, what the next one had, and so on: all its tokens."""
    notes = Notes()
    rows = [(at / 1000, prompt, output) for at, prompt, output in sorted(asked)]
    faults = tuple(f"kill:at={at / 1000:.4f},replica={which}" for at, which in deaths)
    scenario = world(
        law=CLOCKWORK, resume=True, min_replicas=3, max_replicas=6, cold_s=0.3, faults=faults, slots=64
    )
    done, figures = run(rows, scenario, journal=notes)

    said = {e.request_id: e for _, _, e, _ in notes.turns if isinstance(e, UpstreamEnded)}
    for request_id, event in said.items():
        assert event.output_tokens == rows[int(request_id)][2]
        assert event.prompt_tokens == rows[int(request_id)][1]
    per_request = {}
    for _, order in orders(notes, Resume):
        before = per_request.get(order.request_id, 0)
        assert before <= order.tokens < rows[int(order.request_id)][2]
        per_request[order.request_id] = order.tokens
    assert figures.completed + figures.failed == len(rows)
    # A step takes a millisecond and gives a token: more time than that went only into waiting for a place,
    # reading again, and the steps that the deaths broke off.
    for row, (_, _, output) in enumerate(rows):
        if done.tally.e2e_s[row] < float("inf"):
            assert done.tally.e2e_s[row] >= output / 1000 - 1e-9
