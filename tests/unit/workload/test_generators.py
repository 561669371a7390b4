"""Curves, chats, clients and mixes, told as stories with numbers in them."""

import math
from itertools import pairwise

import pytest

from dice import SeededDice
from tidegate.workload.builder import TraceBuilder
from tidegate.workload.closed_loop import Clients, ClosedLoop
from tidegate.workload.curves import RateCurve, clipped, daily, flash_crowd, ramp, steady, steps
from tidegate.workload.figures import Windows, gap_cv
from tidegate.workload.gaps import GammaGaps, WeibullGaps
from tidegate.workload.generate import arrival_times, generated, merged
from tidegate.workload.lengths import Fixed, Independent, LogNormal, Recorded, Total, Uniform, filled
from tidegate.workload.mix import Shares, labelled
from tidegate.workload.sessions import Chat, chats

SHORT = Independent(Fixed(100), Fixed(10))


def test_a_ramp_is_half_way_up_at_half_time():
    curve = ramp(2.0, 6.0, 100.0)

    assert curve.rate_after(50.0) == 4.0
    assert curve.expected == 400.0
    assert list(curve.moments([0.0, 150.0])) == [0.0, 50.0]  # 2/s and 4/s: 3/s on average


def test_steps_jump():
    curve = steps([(10.0, 1.0), (5.0, 4.0)])

    assert (curve.rate_before(10.0), curve.rate_after(10.0)) == (1.0, 4.0)
    assert list(curve.moments([9.0, 10.0, 14.0, 30.0])) == [9.0, 10.0, 11.0]


def test_a_day_has_its_peak_in_the_afternoon_and_its_mean_over_all():
    curve = daily(10.0, peak_ratio=1.8, peak_at_h=14.0, days=2.0)

    assert curve.mean_per_s == pytest.approx(10.0)
    assert curve.rate_after(14 * 3_600.0) == pytest.approx(18.0)
    assert curve.rate_after(2 * 3_600.0) == pytest.approx(2.0)
    assert curve.end_s == 2 * 86_400.0
    with pytest.raises(ValueError, match="peak_ratio is 3"):
        daily(10.0, peak_ratio=3.0)


def test_a_flash_crowd_rises_stays_and_fades_by_halves():
    curve = flash_crowd(2.0, 50.0, for_s=3_000.0, at_s=600.0, rise_s=10.0, hold_s=60.0, half_life_s=120.0)

    assert curve.rate_after(599.0) == 2.0
    assert curve.rate_after(610.0) == curve.rate_before(670.0) == 50.0
    assert curve.rate_after(670.0 + 120.0) == pytest.approx(2.0 + 24.0)
    assert curve.rate_before(3_000.0) == 2.0
    assert curve.end_s == 3_000.0


def test_a_crowd_on_top_of_a_day():
    day, crowd = daily(1.0), flash_crowd(0.0, 20.0, for_s=43_200.0, at_s=36_000.0)
    both = day + crowd

    assert both.end_s == 86_400.0
    assert both.rate_after(36_020.0) == pytest.approx(day.rate_after(36_020.0) + 20.0)
    assert clipped(both, 30_000.0).expected == pytest.approx(clipped(day, 30_000.0).expected)


@pytest.mark.parametrize(
    "knots",
    [((0.0, 1.0),), ((1.0, 1.0), (0.0, 1.0)), ((0.0, -1.0), (1.0, 1.0)), ((0.0, 1.0), (1.0, math.inf))],
)
def test_a_curve_that_cannot_be_is_refused(knots):
    with pytest.raises(ValueError, match="a rate curve needs"):
        RateCurve(knots)


@pytest.mark.parametrize(
    "gaps, cv", [(None, 1.0), (GammaGaps.with_cv(3.0), 3.0), (WeibullGaps.with_cv(3.0), 3.0)]
)
def test_arrivals_are_as_bursty_as_asked(gaps, cv):
    moments = arrival_times(steady(10.0, 4_000.0), SeededDice(5), gaps)

    assert len(moments) / 4_000.0 == pytest.approx(10.0, rel=0.06)
    assert gap_cv(moments) == pytest.approx(cv, rel=0.12)
    # Over long windows the dispersion of a renewal process tends to cv^2.
    assert Windows(moments, 20.0).dispersion() == pytest.approx(cv * cv, rel=0.35)


def test_the_same_dice_draw_the_same_trace():
    def drawn(seed):
        return generated(
            ramp(1.0, 5.0, 60.0), Independent(LogNormal(900, 1.2), Uniform(1, 99)), SeededDice(seed)
        )

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


def test_streams_are_merged_in_order_of_arrival():
    one = labelled(
        generated(steady(1.0, 60.0), SHORT, SeededDice(1)), SeededDice(1), models=Shares.of({"a": 1.0})
    )
    two = labelled(
        generated(steady(2.0, 60.0), SHORT, SeededDice(2)), SeededDice(1), models=Shares.of({"b": 1.0})
    )
    both = merged([one, two])

    assert len(both) == len(one) + len(two)
    assert list(both.arrived_s) == sorted([*one.arrived_s, *two.arrived_s])
    assert [row.arrived_s for row in both if row.model == "a"] == list(one.arrived_s)


def test_the_first_adapter_of_a_zipf_mix_is_twice_as_popular_as_the_second():
    trace = generated(steady(20.0, 1_000.0), SHORT, SeededDice(1))
    mixed = labelled(trace, SeededDice(2), adapters=Shares.zipf([f"lora-{number}" for number in range(50)]))
    counts = [sum(1 for row in mixed if row.adapter == f"lora-{number}") for number in range(3)]

    assert counts[0] / counts[1] == pytest.approx(2.0, rel=0.1)
    assert counts[0] / counts[2] == pytest.approx(3.0, rel=0.15)
    assert trace.adapters is None  # the first trace is as it was


def test_a_chat_grows_turn_by_turn():
    chat = Chat(question=Fixed(600), answer=Fixed(100), turns=Fixed(3), system_prompts=(1_024,))
    trace = chats(chat, steady(0.1, 100.0), SeededDice(4))
    first = [row for row in trace if row.session == "s0"]

    assert [row.prompt_tokens for row in first] == [1_624, 2_324, 3_024]
    assert [len(row.prefix_hashes) for row in first] == [4, 5, 6]
    assert all(row.prefix_hashes[:2] == (0, 1) for row in trace)  # the system prompt's two blocks
    assert first[1].prefix_hashes[:3] == first[0].prefix_hashes[:3]
    assert first[1].prefix_hashes[3] != first[0].prefix_hashes[3]  # it was partial
    assert all(after.arrived_s - before.arrived_s >= 100 / 40 for before, after in pairwise(first))


def test_a_chat_ends_before_its_prompt_is_too_long():
    chat = Chat(Fixed(600), Fixed(100), Fixed(9), max_prompt_tokens=1_400)

    assert max(row.prompt_tokens for row in chats(chat, steady(0.1, 100.0), SeededDice(4))) == 1_300


def test_a_first_question_is_cut_to_what_the_model_takes():
    chat = Chat(Fixed(600), Fixed(100), Fixed(3), system_prompts=(50,), max_prompt_tokens=400)

    assert {row.prompt_tokens for row in chats(chat, steady(0.1, 100.0), SeededDice(4))} == {400}
    with pytest.raises(ValueError, match="a system prompt has 50 tokens; it must leave room in 50"):
        chats(
            Chat(Fixed(1), Fixed(1), Fixed(1), system_prompts=(50,), max_prompt_tokens=50),
            steady(1.0, 1.0),
            SeededDice(4),
        )


def test_closed_loop_clients_ask_again_when_they_are_answered():
    clients = Clients(ClosedLoop(clients=2, asks=SHORT, start_over_s=10.0, requests=3), SeededDice(1))

    first = list(clients.first())
    assert [(client, arrival.arrived_s) for client, arrival in first] == [(0, 0.0), (1, 5.0)]
    assert clients.after(1, 7.0).arrived_s == 7.0
    assert clients.after(0, 9.0) is None  # three were to be sent
    assert clients.sent == 3


def test_clients_that_chat_continue_where_they_were_answered():
    chat = Chat(question=Fixed(600), answer=Fixed(100), turns=Fixed(2))
    clients = Clients(ClosedLoop(clients=2, asks=chat), SeededDice(1))

    (_, ours), (_, other) = clients.first()
    second, third = clients.after(0, 31.0), clients.after(0, 45.0)
    assert (second.session, second.arrived_s, second.prompt_tokens) == (ours.session, 31.0, 1_300)
    assert second.prefix_hashes[0] == ours.prefix_hashes[0] != other.prefix_hashes[0]
    assert (third.arrived_s, third.prompt_tokens) == (45.0, 600)
    assert len({ours.session, other.session, third.session}) == 3


def test_clients_think_before_they_ask_again():
    clients = Clients(ClosedLoop(clients=1, asks=SHORT, think_mean_s=4.0), SeededDice(1))
    waits = [clients.after(0, 100.0).arrived_s - 100.0 for _ in range(4_000)]

    assert sum(waits) / len(waits) == pytest.approx(4.0, rel=0.06)


def test_all_mistakes_in_a_closed_loop_are_told_at_once():
    with pytest.raises(
        ValueError, match=r"clients is 0.*; think_mean_s is -1.*; start_over_s is -2.*; requests is 0"
    ):
        Clients(ClosedLoop(0, SHORT, think_mean_s=-1.0, start_over_s=-2.0, requests=0), SeededDice(1))


def test_lengths_that_are_not_known_are_drawn_and_the_others_stay():
    builder = TraceBuilder()
    builder.add(0.0, None, None)
    builder.add(1.0, 7, None)
    builder.add(2.0, 8, 9)
    trace = builder.build()
    complete = filled(trace, SHORT, SeededDice(1))

    assert [(row.prompt_tokens, row.output_tokens) for row in complete] == [(100, 10), (7, 10), (8, 9)]
    assert not trace.is_complete
    assert (
        filled(trace, Recorded.of(trace), SeededDice(1))[0].prompt_tokens == 8
    )  # the one pair known in full


def test_text_and_image_tokens_add_up():
    assert Total((Fixed(100), Fixed(576))).draw(SeededDice(1)) == 676
