"""The traces of the comparison."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from itertools import accumulate, count

from benchmarks.sim.traces import public
from tidegate.sim.kernel import SeededDice
from tidegate.workload.arrival import Arrival
from tidegate.workload.builder import TraceBuilder
from tidegate.workload.chance import exponential
from tidegate.workload.curves import steady
from tidegate.workload.gaps import PoissonGaps
from tidegate.workload.generate import arrival_times
from tidegate.workload.lengths import LogNormal
from tidegate.workload.sessions import Chat, ChatBook
from tidegate.workload.traces import Trace

BLOCK_TOKENS = 64
SYSTEM_TOKENS = 1_024


def mooncake(rate: float) -> Trace:
    """The conversation trace at so many times its rate."""
    trace = public("mooncake-fast25/conversation*")
    return trace.at(array("d", (moment / rate for moment in trace.arrived_s)))


def chats(seed: int, starts_per_s: float, seconds: float, question: LogNormal) -> Trace:
    """Conversations of eight turns or so, each with one of four system prompts."""
    dice = SeededDice(seed)
    chat = Chat(
        question=question,
        answer=LogNormal(200, 0.8, 16, 1_500),
        turns=LogNormal(8, 0.6, 1, 40),
        think_mean_s=25.0,
        system_prompts=(SYSTEM_TOKENS,) * 4,
        max_prompt_tokens=60_000,
    )
    book, builder = ChatBook(chat, BLOCK_TOKENS), TraceBuilder(BLOCK_TOKENS)
    starts = arrival_times(steady(starts_per_s, seconds), dice, PoissonGaps())
    turns = sorted(
        (turn for start_s in starts for turn in book.turns(start_s, dice)), key=lambda turn: turn.arrived_s
    )
    for turn in turns:
        if turn.arrived_s < seconds:
            builder.append(turn)
    return builder.build()


def hot_prefix(seed: int, requests: int, per_s: float, share: float, prefix_tokens: int) -> Trace:
    """``share`` of the requests begin with the same prefix; all go on with something of their own."""
    dice, fresh, builder = SeededDice(seed), count(10_000), TraceBuilder(BLOCK_TOKENS)
    shared = tuple(range(prefix_tokens // BLOCK_TOKENS))
    own, answer = LogNormal(400, 0.8, 16, 4_000), LogNormal(150, 0.8, 8, 800)
    now_s = 0.0
    for _ in range(requests):
        now_s += exponential(1.0 / per_s, dice)
        begins = shared if dice.uniform() < share else tuple(next(fresh) for _ in shared)
        tokens = prefix_tokens + own.draw(dice)
        rest = tuple(next(fresh) for _ in range(-(-tokens // BLOCK_TOKENS) - len(begins)))
        builder.append(Arrival(now_s, tokens, answer.draw(dice), prefix_hashes=begins + rest))
    return builder.build()


def unrelated(seed: int, requests: int, per_s: float) -> Trace:
    """No prompt begins like another."""
    dice, fresh, builder = SeededDice(seed), count(), TraceBuilder(BLOCK_TOKENS)
    prompt, answer = LogNormal(2_000, 1.0, 64, 30_000), LogNormal(150, 0.8, 8, 800)
    now_s = 0.0
    for _ in range(requests):
        now_s += exponential(1.0 / per_s, dice)
        tokens = prompt.draw(dice)
        blocks = tuple(next(fresh) for _ in range(-(-tokens // BLOCK_TOKENS)))
        builder.append(Arrival(now_s, tokens, answer.draw(dice), prefix_hashes=blocks))
    return builder.build()


def adapters(seed: int, requests: int, per_s: float, names: int = 32) -> Trace:
    """Each asks for one of so many adapters, the k-th as often as 1 / k."""
    dice, builder = SeededDice(seed), TraceBuilder(BLOCK_TOKENS)
    weights = list(accumulate(1.0 / (name + 1) for name in range(names)))
    prompt, answer = LogNormal(1_500, 0.8, 16, 8_000), LogNormal(150, 0.8, 8, 800)
    now_s = 0.0
    for _ in range(requests):
        now_s += exponential(1.0 / per_s, dice)
        name = bisect_left(weights, dice.uniform() * weights[-1])
        builder.append(Arrival(now_s, prompt.draw(dice), answer.draw(dice), adapter=f"adapter-{name}"))
    return builder.build()
