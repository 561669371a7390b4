"""A model's replicas of one kind, and what runs there, as amounts that flow.

What waits is one line, first come first served (``sim.fluid.floor``); what runs is ``n`` requests over ``S`` equal replicas.
In a slot

- a batch of ``b = n / S`` takes ``s(b)`` a step by the engine's own law; prompts take the share ``f`` of the time, so
  a token takes ``s(b) / (1 - f)``, and ``f`` is at most what a step full of prompt chunks leaves it;
- answers end at the rate ``n / (tokens left * time a token)``: lengths are memoryless, Little's law holds whatever
  they are;
- as many are let in as slots, memory and the prompts' share of the time allow.

A request's first token comes after its wait in line, its prompt and one step; and, since prompts meet at the
engines by chance, after a wait that is exponential beyond the share of time that prompts take
(``core.queueing.late_share``). Left out: which replica a request is on, prefix caches (the load says what is fresh),
preemption, retries, slow start, and every difference between two requests of one slot. ``python -m benchmarks.fleet
check`` prints how far this is from the simulator that moves each request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp, inf

from tidegate.core.queueing import (
    busy_share,
    late_share,
    mean_wait_s,
    normal_share,
    pace_spread_s,
    wait_quantile_s,
)
from tidegate.core.spreading import dearer_s
from tidegate.core.types import Dice
from tidegate.sim.fluid.amounts import Flowed
from tidegate.sim.fluid.line import Line
from tidegate.sim.needs import prefill_s
from tidegate.sim.scenario import ModelSetup, Slo
from tidegate.workload.chance import normal

TINY = 0.05
"""Of a request: what decays below this has ended. Three time constants after the last of one."""

BRIDGE = 0.63
"""The expected top of a Brownian bridge, in deviations of its free end: sqrt(pi / 8)."""

HALVINGS = 12
"""Who is let in slows down who runs, who then makes room later: how many fit is found to a four-thousandth."""

FEW = 1.0
"""Below this the noise of endings would be larger than what there is."""


class Pool:
    """The running requests of one model at its replicas of one kind."""

    def __init__(self, setup: ModelSetup, slo: Slo, line: Line, flowed: Flowed, dice: Dice) -> None:
        """``line`` is the model's, and ``flowed`` is told what becomes of those that are let in."""
        self._dice = dice
        self._law = setup.law
        self._limits = setup.limits
        self._slots = min(setup.fleet.slots, setup.limits.max_sequences)
        self._slo = slo
        self.line = line
        self.flowed = flowed
        self.ended = 0.0
        """Answers that are complete."""
        self.running = 0.0
        self._prompts = 0.0
        """Prompt tokens of what runs."""
        self._owed = 0.0
        """Output tokens that what runs has still to get."""
        self._in_time = 0.0
        """Of what runs, how much got its first token in time."""
        self.tpot_s = self.tpot_seen_s = self._law.decode_s(1, 0, 1)
        self.prefill_share = 0.0
        self.prefilling = 0.0
        """Beside what runs: those whose prompts are computed or wait for that at an engine."""
        self.swing = 0.0
        """How far above its ends the number of those that run is expected to come within a slot."""
        self.let_in = 0.0
        """In the last slot."""
        self.stay_s = 1.0
        """Time constant with which answers end."""
        self.ttft_s: tuple[float, float, float] | None = None
        """Median, 90th and 95th percentile of the first tokens of the last slot; None without any."""

    def __repr__(self) -> str:
        return f"<Pool running={self.running:.1f} tpot={self.tpot_s * 1e3:.1f} ms>"

    @property
    def owed_tokens(self) -> float:
        """Prompt and answer tokens of what runs."""
        return self._prompts + self._owed

    def kv_tokens(self) -> float:
        """In the memory of all engines."""
        return self._prompts + 0.5 * self._owed

    def lose(self, requests: float) -> None:
        """So many of those that run were cut off."""
        lost = min(requests, self.running)
        if lost > 0:
            self._shrink_to(self.running - lost)
            self.flowed.failed += lost

    def step(
        self,
        now_s: float,
        span_s: float,
        most: float,
        *,
        serving: float,
        draining: float = 0.0,
        draining_requests: float = 0.0,
    ) -> None:
        """From ``now_s`` on for ``span_s``; up to ``most`` of those in line come, evenly over it.

        ``serving`` replicas take new requests. Those that drain are at work too, ``draining`` whole ones' worth,
        and hold ``draining_requests`` of what runs.
        """
        self.ttft_s = None
        self.let_in = 0.0
        working = serving + draining
        most = min(most, self.line.requests)
        if working <= 0 and self.running > 0.0:
            # The last replica went when it held less than half a request: that has ended.
            self._over(self.running, float(self.tpot_seen_s <= self._slo.tpot_s))
        if working <= 0 or (most <= 0.0 and self.running == 0.0):
            self._rest()
            return
        prompt, output = self._means()
        batch = max(1, round(self.running / working))
        cached = round(batch * (prompt + 0.5 * output))
        prompt_s = prefill_s(self._law, batch, cached, round(prompt))
        step_s = self._law.decode_s(batch, cached, 1)
        most_share = self._most_share(step_s, prompt_s / max(1.0, prompt), batch)
        share_each = prompt_s / (working * span_s)
        let_in = min(most, most_share / share_each * serving / working if prompt_s > 0 else inf)
        room = self._room(prompt + 0.5 * output) * serving

        def over(count: float) -> float:
            """By how many that run there would be too many, at the pace that so many prompts leave."""
            left, turned_over = _stay(_stay_s(step_s, count * share_each, output), span_s)
            return max(0.0, self.running - draining_requests) * left + count * turned_over - room

        let_in = _largest(over, let_in)
        self.prefill_share = let_in * share_each
        self.tpot_s = step_s / (1.0 - self.prefill_share)
        self.stay_s = _stay_s(step_s, self.prefill_share, output)
        left, turned_over = _stay(self.stay_s, span_s)
        stays = self.running * left + let_in * turned_over
        waits_s = busy_share(self.prefill_share, working) * mean_wait_s(self.prefill_share, working, prompt_s)
        self.prefilling = let_in / span_s * (prompt_s + waits_s)
        self.swing = BRIDGE * (stays * (1.0 - left * left)) ** 0.5
        self._let_in(let_in, now_s + 0.5 * span_s, working, prompt_s, step_s)
        self._end(stays, batch, step_s, left, let_in / (span_s * working), prompt_s)

    def _let_in(self, count: float, middle_s: float, serving: float, prompt_s: float, step_s: float) -> None:
        """The first ``count`` of the line, at an even rate around this moment."""
        passed = 0.0
        waits: list[tuple[float, float]] = []
        """Of those let in, the longest first: wait and how many."""
        for taken in self.line.take(count):
            wait_s = max(0.0, middle_s - taken.arrived_s)
            waits.append((wait_s, taken.requests))
            slack_s = self._slo.ttft_s - wait_s - prompt_s - step_s
            late = late_share(slack_s, self.prefill_share, serving, prompt_s)
            in_time = taken.requests * (1.0 - late)
            self.flowed.ttft_kept += in_time
            self._in_time += in_time
            self.running += taken.requests
            self._prompts += taken.prompt_tokens
            self._owed += taken.output_tokens
            passed += taken.requests
        self.let_in = passed
        if passed > 0:
            p50, p90, p95 = (
                _shortest_of_the_longest(waits, (1.0 - ratio) * passed)
                + prompt_s
                + step_s
                + wait_quantile_s(ratio, self.prefill_share, serving, prompt_s)
                for ratio in (0.50, 0.90, 0.95)
            )
            self.ttft_s = (p50, p90, p95)

    # ---- out ----

    def _end(
        self, stays: float, batch: int, step_s: float, left: float, let_in_per_s: float, prompt_s: float
    ) -> None:
        """All but ``stays`` of what runs end."""
        if self.running <= 0:
            return
        self.tpot_seen_s += (self.tpot_s - self.tpot_seen_s) * (1.0 - left)
        # Each ends or stays by chance; the sum of many such is a binomial number, and near enough a normal one.
        stays += normal(0.0, (self.running * left * (1.0 - left)) ** 0.5, self._dice) if stays >= FEW else 0.0
        ends = min(self.running, max(0.0, self.running - stays))
        if self.running - ends < TINY:
            ends = self.running
        cached = round((batch + 1) * self.kv_tokens() / self.running)
        grows_s = max(0.0, self._law.decode_s(batch + 1, cached, 1) - step_s)
        output = self._owed / self.running
        spread_s = pace_spread_s(self.tpot_seen_s, let_in_per_s, prompt_s, output, grows_s, batch)
        in_pace = normal_share((self._slo.tpot_s - self.tpot_seen_s) / spread_s)
        self._over(ends, in_pace)

    def _over(self, ends: float, in_pace: float) -> None:
        """So many answers are complete, and this share of them came in pace."""
        flowed = self.flowed
        self.ended += ends
        flowed.ended += ends
        flowed.tpot_kept += ends * in_pace
        flowed.kept += ends * in_pace * self._in_time / self.running
        flowed.output_tokens += ends * self._owed / self.running
        self._shrink_to(self.running - ends)

    def _shrink_to(self, running: float) -> None:
        ratio = running / self.running
        self.running = running
        self._prompts *= ratio
        self._owed *= ratio
        self._in_time *= ratio

    def _rest(self) -> None:
        """Nothing is computed."""
        self.prefill_share = self.prefilling = self.swing = 0.0
        if self.running == 0.0:
            self.tpot_s = self.tpot_seen_s = self._law.decode_s(1, 0, 1)

    # ---- what an engine can hold, and what the router would say of it ----

    def prices(self, prompt: float, output: float) -> tuple[float, float]:
        """What a request costs at an empty replica, and what each more in its batch adds (``core.spreading``)."""
        tokens = round(prompt + 0.5 * output)
        alone_s = self._law.mixed_s(0, 0, [(max(1, round(prompt)), 0)])
        more_s = self._law.decode_s(2, 2 * tokens, 1) - self._law.decode_s(1, tokens, 1)
        return alone_s, dearer_s(more_s, prompt)

    def room(self, prompt: float, output: float) -> float:
        """Requests of such a length that fit on one replica."""
        return self._room(prompt + 0.5 * output)

    def kept_up(self, span_s: float) -> tuple[float, float]:
        """At the pace of the last slot: of what runs, the share still there after the span, and of what comes over it."""
        left = exp(-span_s / self.stay_s)
        return left, self.stay_s / span_s * (1.0 - left)

    def _means(self) -> tuple[float, float]:
        """Prompt and output tokens of a request, of those that run and the next in line."""
        requests, prompts, outputs = self.running, self._prompts, self._owed
        first = self.line.first
        if first is not None:
            requests += first.requests
            prompts += first.prompt_tokens
            outputs += first.output_tokens
        return prompts / requests, max(1.0, outputs / requests)

    def _room(self, tokens: float) -> float:
        """Requests that fit on one replica."""
        memory = self._limits.kv_blocks * self._limits.block_tokens
        return min(float(self._slots), memory / max(1.0, tokens))

    def _most_share(self, step_s: float, token_s: float, batch: int) -> float:
        """Of the time, what prompts can take: in a step as full of chunks as it may be."""
        chunk_s = token_s * max(1, self._limits.max_step_tokens - batch)
        return chunk_s / (chunk_s + step_s)


def _stay_s(step_s: float, share: float, output: float) -> float:
    """Time constant with which answers end when so much of the time goes to prompts."""
    return max(1e-3, output * (step_s / (1.0 - share)))


def _stay(stay_s: float, span_s: float) -> tuple[float, float]:
    """Of what runs, the share still there after the span; and of what comes evenly over it."""
    left = exp(-span_s / stay_s)
    return left, stay_s / span_s * (1.0 - left)


def _largest(over: Callable[[float], float], most: float) -> float:
    """The largest count of at most ``most`` that is not over, to a thousandth of that; what is over grows with it."""
    if over(most) <= 0:
        return most
    least = 0.0
    step = most
    for _ in range(HALVINGS):
        step /= 2
        if over(least + step) <= 0:
            least += step
    return least


def _shortest_of_the_longest(waits: Sequence[tuple[float, float]], requests: float) -> float:
    """The wait that so many requests exceed or reach, of parcels in order of their waits, longest first."""
    passed = 0.0
    for wait_s, count in waits:
        passed += count
        if passed >= requests:
            return wait_s
    return waits[-1][0]
