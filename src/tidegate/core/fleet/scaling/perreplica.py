"""What one replica carries with the promise kept: the fluid law of a full replica, learned from the ledgers alone.

With ``B`` requests in a replica, each of ``p`` prompt tokens and ``o`` of answer, an answer takes

    T(B) = o * (k0 + k1 * B) + k2 * p * B

seconds: ``k0 + k1 * B`` is a decode step, and while it is answered the prompts of ``B`` others are computed beside it.
(The same law gives the oracle its needs in ``sim/needs.py``; there the engine's own step law is known.) A replica that
holds ``B`` thus ends ``B / T(B)`` requests a second. ``B`` and ``T`` can be seen from outside: what is in flight, and by
Little's law in flight by ended a second. So the law needs neither the engine's pages nor the router's; where the
gateways have learned a ``Capacity``, that is what is believed until there are samples. What follows from it for
a promise is in ``fullest``.
"""

from __future__ import annotations

from math import log2
from statistics import fmean

from tidegate.core.capacity import DECODE_PRIOR, PREFILL_PRIOR, Capacity
from tidegate.core.fleet.scaling.past import Past
from tidegate.core.knowledge import KnownBatch, KnownPace, is_sane

THOUSAND = 1e-3
NEWEST = 0.1
"""What a new sample counts for in its mean, at least."""
TRUSTED = 5
"""Samples from which on a mean counts fully."""
PRIOR = 0.01
"""What the prior's slope counts for against one such mean: it is known to a half, a mean to a twentieth."""
KEPT_S = 6 * 3600.0
LEFT_LEAST = 0.3
WAITING = 0.1
"""Of what is in flight: when so many wait besides, more is asked for than is done."""
PROBE = 1.003
"""Each ten seconds in which nobody waits: a replica that was overrun ends less than it could, so more is tried again."""
FULL_SHARE = 0.9
"""Of its slots, what a replica uses at least that is held back by them and by nothing else."""
SAMPLE_EVERY_S = 10.0
OVER_S = 60.0
"""A sample is of a minute in which no replica came or went."""
EDGE_S = 10.0
STEADY = 0.2
"""Of what ended: by how much what is in flight may have changed, for the two to be of one time. What waits may grow."""
ENDED_LEAST = 8
ALONE = 2.0
"""Seen beside so few, what a request takes alone is known; so it is when the fullest were twice as full as the emptiest."""
EXPLORE = 0.5
"""Of the emptiest seen, how full replicas are planned at least until that is known."""


class _Seen:
    """What answers took beside about so many others."""

    __slots__ = ("at_s", "batch", "count", "token_s")

    def __init__(self, batch: float, token_s: float, at_s: float) -> None:
        self.batch, self.token_s, self.at_s, self.count = batch, token_s, at_s, 1

    def add(self, batch: float, token_s: float, at_s: float) -> None:
        step = max(NEWEST, 1.0 / (self.count + 1))
        self.batch += step * (batch - self.batch)
        self.token_s += step * (token_s - self.token_s)
        self.count, self.at_s = self.count + 1, at_s


class Pace:
    """The learned law of one model's replicas.

    A fleet that is scaled well is always about equally full, and a line through one point has any slope. So what is seen
    is kept by how full replicas were, one mean for each half octave, and each counts alike: the busy minute of an hour ago
    beside the sixty of now. Where there is one such mean only, the slope is that of the prior, made to fit.
    """

    def __init__(self) -> None:
        self._seen: dict[int, _Seen] = {}
        self._terms: tuple[float, float] | None = None
        """``k0`` and ``k1`` in seconds."""
        self._prompt_token_s = 0.0
        """``k2``: what a prompt token takes."""
        self._samples = 0
        self._most: tuple[float, float] | None = None
        """Requests a second that a replica ended in the last minute in which some waited, and when that was."""
        self._well = (0.0, 0.0)
        """The most that one ended in a minute in which nobody did, and when."""
        self._batch = 1.0
        """How full replicas were when last looked at."""
        self._next_s = 0.0
        self._serving = 0.0
        self._since_s = 0.0

    def __repr__(self) -> str:
        return f"<Pace {self._terms} of {self._samples} samples>"

    @property
    def is_known(self) -> bool:
        """Something is known of how fast a replica is."""
        return self._terms is not None

    @property
    def samples(self) -> int:
        """Seen by itself, not told."""
        return self._samples

    def remember(self) -> KnownPace:
        """What outlives this process."""
        seen = self._seen.items()
        batches = tuple(KnownBatch(at, one.batch, one.token_s, one.at_s, one.count) for at, one in seen)
        return KnownPace(batches, self._terms, self._prompt_token_s, self._samples, self._most, self._well)

    def restore(self, known: KnownPace, now_s: float) -> None:
        """Go on from what a former process knew; figures that cannot be are left out, and old ones go as they would have."""
        for one in known.batches:
            if (
                one.token_s > 0.0
                and one.at_s <= now_s
                and all(map(is_sane, (one.batch, one.token_s, one.count)))
            ):
                self._seen[one.place] = seen = _Seen(one.batch, one.token_s, one.at_s)
                seen.count = max(1, one.count)
        if known.terms is None or not all(map(is_sane, (*known.terms, known.prompt_token_s))):
            return
        self._terms, self._prompt_token_s = known.terms, known.prompt_token_s
        self._samples = max(0, known.samples)
        if known.most is not None and is_sane(known.most[0]) and known.most[1] <= now_s:
            self._most = known.most
        if is_sane(known.well[0]) and known.well[1] <= now_s:
            self._well = known.well

    def settled_s(self, now_s: float) -> float:
        """For how long the number of replicas has been what it is."""
        return now_s - self._since_s

    def answer_s(self, batch: float, prompt: float, output: float) -> float | None:
        """How long an answer takes beside so many others; None while nothing is known."""
        if self._terms is None:
            return None
        k0, k1 = self._terms
        return max(1.0, output) * (k0 + k1 * batch) + self._prompt_token_s * prompt * batch

    @property
    def knows_alone(self) -> bool:
        """What a request takes alone has been seen, or follows from what was."""
        batches = [one.batch for one in self._seen.values()]
        return bool(batches) and (min(batches) <= ALONE or max(batches) >= min(batches) / EXPLORE)

    @property
    def emptiest(self) -> float:
        """Requests in a replica when there were fewest."""
        return min([one.batch for one in self._seen.values()], default=self._batch)

    def prompt_s(self, prompt: float) -> float:
        """What a prompt takes from those beside it."""
        return self._prompt_token_s * prompt

    def most_per_s(self, now_s: float) -> float | None:
        """What a replica can be brought to end a second, as far as that has been seen; None while it has not.

        Where prompts take all the time, batches never fill, and there is nothing that a law of batches would say.
        """
        if self._most is None or now_s > self._most[1] + KEPT_S:
            return None
        return max(self._most[0], self._well[0] if now_s <= self._well[1] + KEPT_S else 0.0)

    def look(
        self,
        past: Past,
        serving: float,
        slots: int,
        capacity: Capacity | None,
        now_s: float,
        *,
        has_others: bool = False,
    ) -> None:
        """Learn from the last minute, if it was a steady one, and no other variants were there that hold another number
        of requests for another time."""
        if has_others or serving != self._serving:
            self._serving, self._since_s = serving, now_s
        if now_s < self._next_s:
            return
        self._next_s = now_s + SAMPLE_EVERY_S
        prompt = past.mean_prompt_tokens(5 * OVER_S, now_s)
        output = past.mean_output_tokens(5 * OVER_S, now_s)
        if prompt is None or output is None:
            return
        output = max(1.0, output)
        self._batch = batch = (past.mean_in_flight(OVER_S, now_s) or 0.0) / max(1e-9, serving)
        took_s = self._took_s(past, now_s)
        if took_s is None or not serving:
            if capacity is not None and not self._samples:
                self._terms, self._prompt_token_s = _told(capacity, prompt, output), 0.0
            return
        first, whole, last = self._waiting(past, now_s)
        many = max(1.0, WAITING * batch * serving)
        each = batch / took_s
        if whole > many >= min(first, last):
            return  # of a minute that was overrun in part: neither what replicas do at most nor what they do with ease
        if whole > many:
            self._most = each, now_s
            if batch < FULL_SHARE * slots:
                return
        else:
            if each > self._well[0] or now_s > self._well[1] + KEPT_S:
                self._well = each, now_s
            self._probe(slots, prompt, output, now_s)
        self._prompt_token_s = _prompt_token_s(capacity, prompt)
        # What is left of a token's time without the prompts beside it; never less than a fair part of it.
        beside_s = self._prompt_token_s * prompt * batch / output
        token_s = max(LEFT_LEAST * took_s / output, took_s / output - beside_s)
        self._add(batch, token_s, now_s)
        self._fit(prompt + output / 2)

    def _probe(self, slots: int, prompt: float, output: float, now_s: float) -> None:
        """Nobody waits, so a replica may do more than it did when it was overrun. More than it could do with all of its
        slots in use says nothing, and neither does what was long ago."""
        if self._most is None:
            return
        most, at_s = PROBE * self._most[0], self._most[1]
        full_s = self.answer_s(float(slots), prompt, output)
        is_said = now_s <= at_s + KEPT_S and (full_s is None or most * full_s < slots)
        self._most = (most, at_s) if is_said else None

    def _add(self, batch: float, token_s: float, now_s: float) -> None:
        self._samples += 1
        place = round(2 * log2(max(1.0, batch)))
        if place in self._seen:
            self._seen[place].add(batch, token_s, now_s)
        else:
            self._seen[place] = _Seen(batch, token_s, now_s)
        self._seen = {where: one for where, one in self._seen.items() if now_s <= one.at_s + KEPT_S}

    def _fit(self, held_tokens: float) -> None:
        """Least squares of relative errors, with the prior's slope where nothing else says one."""
        seen = list(self._seen.values())
        p0, p1 = DECODE_PRIOR[0], DECODE_PRIOR[1] + DECODE_PRIOR[2] * THOUSAND * held_tokens
        weights = [min(1.0, one.count / TRUSTED) / one.token_s**2 for one in seen]
        scale = fmean([one.token_s / (p0 + p1 * one.batch) for one in seen])
        p0, p1 = scale * p0, scale * p1
        a = PRIOR / p0**2 + sum(weights)
        b = sum([w * one.batch for w, one in zip(weights, seen, strict=True)])
        c = PRIOR / p1**2 + sum([w * one.batch**2 for w, one in zip(weights, seen, strict=True)])
        d = PRIOR / p0 + sum([w * one.token_s for w, one in zip(weights, seen, strict=True)])
        e = PRIOR / p1 + sum([w * one.batch * one.token_s for w, one in zip(weights, seen, strict=True)])
        k1 = (a * e - b * d) / (a * c - b * b)
        k0 = (d - b * k1) / a
        if k1 < 0.0:
            k0, k1 = d / a, 0.0
        elif k0 < 0.0:
            k0, k1 = 0.0, e / c
        self._terms = k0, k1

    def _waiting(self, past: Past, now_s: float) -> tuple[float, float, float]:
        """Requests that waited in the first seconds of the last minute, in all of it, and in its last seconds."""
        whole, later = past.mean_queued(OVER_S, now_s) or 0.0, past.mean_queued(OVER_S - EDGE_S, now_s) or 0.0
        first = (whole * OVER_S - later * (OVER_S - EDGE_S)) / EDGE_S
        return first, whole, past.mean_queued(EDGE_S, now_s) or 0.0

    def _took_s(self, past: Past, now_s: float) -> float | None:
        """The mean answer by Little's law; None when the minute was not steady."""
        if past.seen_s(now_s) < OVER_S or now_s < self._since_s + OVER_S:
            return None
        ended, refused = past.ended_per_s(OVER_S, now_s), past.refused_per_s(OVER_S, now_s)
        there, later = past.mean_in_flight(OVER_S, now_s), past.mean_in_flight(OVER_S - EDGE_S, now_s)
        last = past.mean_in_flight(EDGE_S, now_s)
        if ended is None or refused is None or there is None or later is None or last is None:
            return None
        first = (there * OVER_S - later * (OVER_S - EDGE_S)) / EDGE_S
        done = (ended - refused) * OVER_S
        # Answers that come at once leave nothing in flight when somebody looks.
        if done < ENDED_LEAST or there <= 0.0 or abs(last - first) > STEADY * done:
            return None
        return there * OVER_S / done


def _told(capacity: Capacity, prompt: float, output: float) -> tuple[float, float]:
    """As the gateways have learned it. Their gaps between tokens have the prompts beside them in them already."""
    decode = capacity.decode
    return decode.k0, decode.k1 + decode.k2 * THOUSAND * (prompt + output / 2)


def _prompt_token_s(capacity: Capacity | None, prompt: float) -> float:
    if capacity is None:
        return THOUSAND * (PREFILL_PRIOR[1] + PREFILL_PRIOR[2] * THOUSAND * prompt / 2)
    return max(0.0, capacity.prefill_s(prompt, 0.0) - capacity.prefill.k0) / max(1.0, prompt)
