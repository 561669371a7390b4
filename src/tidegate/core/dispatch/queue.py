"""The bounded line of requests that wait for a slot on some replica of one model.

Who goes first: the highest priority class; in it the tenant that has been served least (``bands``); of
that tenant the earliest deadline, then the earliest arrival (``flows``). A lower class whose first has
waited for ``ageing_s`` gets a share of what is served, so none starves and an old flood of unimportant
requests does not overtake either.

A full queue makes room for whoever has the better claim to it: the last of a lower class goes, or of the
tenant that holds most while the newcomer's holds less.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from math import inf

from tidegate.core.dispatch.aside import Aside
from tidegate.core.dispatch.bands import Band
from tidegate.core.dispatch.flows import Flow
from tidegate.core.dispatch.held import NOTHING, Held, over
from tidegate.core.dispatch.ledger import Entry
from tidegate.core.settings import QueueLimits

OTHERS_MAX = 16
"""Tenants looked at when the one whose turn it is may not take what is free."""
DISPLACED_MAX = 8
"""Waiting requests that one newcomer may push out at most."""


class Queue:
    """Requests in the order above, bounded in requests, tokens and bytes."""

    def __init__(self, limits: QueueLimits, total: Held | None = None) -> None:
        """``total`` counts what no replica has been given yet, over all models' queues."""
        self.limits = limits
        self.held = Held()
        self.prompt_tokens = 0
        """Of all that is held."""
        self.aside = Aside()
        """Of these, those whose turn has come and who let others pass."""
        self._back = Held()
        """Of these, those that were sent before. They have been let in, and whoever comes is not to suffer for it
        that they are here and not at a replica."""
        self.usual_tokens: float | None = None
        """What this model's answers are long; None before the first."""
        self._total = Held() if total is None else total
        self._bands: list[Band] = []
        self._debt = 0.0
        """Tokens to be served in other classes before an old one may have its next turn."""

    def __len__(self) -> int:
        return self.held.requests

    def __repr__(self) -> str:
        held = self.held
        return f"<Queue {held.requests} requests, {held.tokens} tokens, {held.bytes} bytes>"

    # ---- bounds ----

    def fits(self, entry: Entry, promised: Held = NOTHING, overall: QueueLimits | None = None) -> str | None:
        """None when the entry may join, else which bound it would break, with the numbers.

        ``promised`` are places kept for requests that were told to come back about now.
        """
        held, limits = self.held.without(self._back), self.limits
        why = over(held, entry, limits, 1.0, promised, "")
        if why is None and overall is not None:
            why = over(self._total, entry, overall, 1.0, NOTHING, " of all models")
        if why is not None:
            return why
        if limits.class_share < 1.0:
            band = self._band(entry)
            there = Held(band.count, band.tokens, band.bytes)
            why = over(there, entry, limits, limits.class_share, NOTHING, f" of class {band.priority}")
        if why is None and limits.tenant_share < 1.0:
            why = over(
                self._of_tenant(entry), entry, limits, limits.tenant_share, promised, " of this tenant"
            )
        return why

    def displaced(self, entry: Entry, overall: QueueLimits | None = None) -> list[Entry]:
        """Whom to turn away so the entry fits; nobody when it has no better claim than they, or when it is
        not for want of room in all that it does not fit."""
        if self._fits_all(entry, self.held.without(self._back), self._total, overall):
            return []
        left, total = self.held.without(self._back), replace(self._total)
        gone: list[Entry] = []
        for last in islice(self.weaker(entry), DISPLACED_MAX):
            left.add(last, -1)
            total.add(last, -1)
            gone.append(last)
            if self._fits_all(entry, left, total, overall):
                return gone
        return []

    def displaced_elsewhere(self, entry: Entry, overall: QueueLimits, others: Iterable[Queue]) -> list[Entry]:
        """The same of other models' queues, when the bound of all is the only one in the way: whoever waits there and is
        of a lower class. Nobody when that would not make room."""
        if over(self.held.without(self._back), entry, self.limits, 1.0, NOTHING, "") is not None:
            return []
        total, gone, priority = replace(self._total), list[Entry](), entry.arrived.priority
        below = (other for other in others if other.waits_below(priority))
        lower = (one for other in below for one in other.weaker(entry) if one.arrived.priority < priority)
        for last in islice(lower, DISPLACED_MAX):
            total.add(last, -1)
            gone.append(last)
            if over(total, entry, overall, 1.0, NOTHING, "") is None:
                return gone
        return []

    def weaker(self, entry: Entry) -> Iterator[Entry]:
        """Who has the weaker claim to a place, the weakest first: of those set aside, then of the lowest class."""
        yield from self.aside.weaker(entry, self._band(entry).seen(entry))
        lowest = next((band for band in reversed(self._bands) if band.count > len(band.back)), None)
        if lowest is not None and lowest.priority <= entry.arrived.priority:
            flow = self._worst(lowest, entry)
            yield from reversed(flow.waiting.values()) if flow is not None else ()

    def _fits_all(self, entry: Entry, held: Held, total: Held, overall: QueueLimits | None) -> bool:
        if over(held, entry, self.limits, 1.0, NOTHING, "") is not None:
            return False
        return overall is None or over(total, entry, overall, 1.0, NOTHING, "") is None

    def _worst(self, band: Band, entry: Entry) -> Flow | None:
        """The tenant that holds most of this class, when the entry has the better claim to a place."""
        worst = max(band.flows(), key=lambda flow: flow.tokens / flow.weight, default=None)
        if worst is None or band.priority < entry.arrived.priority:
            return worst
        own = band.seen(entry)
        if own is worst or (own.tokens + entry.tokens) / own.weight >= worst.tokens / worst.weight:
            return None
        return worst

    def _of_tenant(self, entry: Entry) -> Held:
        there = Held()
        for band in self._bands:
            flow = band.seen(entry)
            there.requests += len(flow.waiting)
            there.tokens += flow.tokens
            there.bytes += flow.bytes
        return there

    # ---- in and out ----

    def join(self, entry: Entry) -> None:
        """Queue the entry. Whether it fits is the caller's to ask; a retry joins in any case."""
        self._band(entry).join(entry, self.usual_tokens)
        self.held.add(entry)
        self.prompt_tokens += entry.arrived.prompt_tokens
        (self._back if entry.attempts else self._total).add(entry)

    def leave(self, entry: Entry) -> bool:
        """Take the entry out, wherever it stands; False when it does not wait here."""
        if not self.held.requests:
            return False
        was_sent = self.aside.pop(entry)
        if was_sent is None:
            band = self._band(entry)
            was_sent = entry.request_id in band.back
            if not band.leave(entry):
                return False
        self.held.add(entry, -1)
        self.prompt_tokens -= entry.arrived.prompt_tokens
        (self._back if was_sent else self._total).add(entry, -1)
        return True

    def set_aside(self, entry: Entry) -> None:
        """The entry waits on without holding up others."""
        band = self._band(entry)
        was_sent = entry.request_id in band.back
        if band.leave(entry):
            self.aside.add(entry, was_sent=was_sent)

    def first(self, now_s: float) -> Entry | None:
        """Who is next, without taking it out."""
        top: Band | None = None
        old: Band | None = None
        oldest_s = now_s - self.limits.ageing_s
        for band in self._bands:
            if not band.count:
                continue
            if top is None:
                top = band
                if self._debt > 0.0:
                    break
            elif (entry := band.oldest()) is not None and entry.arrived_s <= oldest_s:
                old, oldest_s = band, entry.arrived_s
        chosen = old or top
        return None if chosen is None else chosen.first()

    def waits_above(self, priority: int) -> bool:
        """Somebody of a higher class waits."""
        return any(band.count and band.priority > priority for band in self._bands)

    def waits_below(self, priority: int) -> bool:
        """Somebody of a lower class waits."""
        return any(band.count and band.priority < priority for band in self._bands) or any(
            one.arrived.priority < priority for one in self.aside
        )

    def others(self, entry: Entry) -> Iterator[Entry]:
        """Who would be next of the other tenants of this entry's class, when it may not take what is free.

        Only those that have been served no more than its own tenant, within a request: the order among
        tenants is what it would have been a moment later.
        """
        band = self._band(entry)
        own = band.seen(entry)
        most = own.served + (self.mean_work or 0.0)
        for flow in islice(band.in_turn(), OTHERS_MAX):
            if flow.served > most:
                return
            first = None if flow is own else flow.first()
            if first is not None:
                yield first

    def take(self, entry: Entry) -> None:
        """The entry is sent: it leaves, and its tenant pays."""
        band = self._band(entry)
        self.leave(entry)
        band.charge(entry, self.usual_tokens)
        share = self.limits.aged_share
        if any(other.count for other in self._bands if other.priority > band.priority):
            self._debt = entry.cost * (1.0 / share - 1.0) if share else inf
        else:
            self._debt = max(0.0, self._debt - entry.cost)

    def settle(self, entry: Entry, tokens: float) -> None:
        """What a sent entry really took."""
        if entry.flow is not None:
            self._band(entry).settle(entry, tokens)

    # ---- looks ----

    def ahead(self, entry: Entry) -> float:
        """Tokens that will be taken before this newcomer."""
        ahead = 0.0
        for band in self._bands:
            if band.priority > entry.arrived.priority:
                ahead += band.work
        return ahead + self._band(entry).ahead(entry, self.usual_tokens)

    @property
    def work(self) -> float:
        """Tokens that all who wait are expected to be served."""
        return sum(band.work for band in self._bands)

    @property
    def mean_work(self) -> float | None:
        """The same of one of them, on average; None when nobody waits."""
        return self.work / self.turns if self.turns else None

    @property
    def turns(self) -> int:
        """Those who wait for their turn."""
        return self.held.requests - len(self.aside)

    @property
    def is_shared(self) -> bool:
        """More than one tenant or class has waited here of late."""
        return sum(band.tenants for band in self._bands) > 1

    def shared_by(self, entry: Entry) -> float:
        """How many like this entry's tenant share its class."""
        return self._band(entry).shared_by(entry)

    def oldest(self) -> Entry | None:
        """Who has waited longest; None when nobody waits."""
        found = [entry for band in self._bands if (entry := band.oldest()) is not None]
        found += self.aside
        return min(found, key=lambda entry: entry.arrived_s, default=None)

    def in_order(self) -> list[Entry]:
        """Everyone who waits, by class and arrival."""
        return sorted(self, key=lambda entry: (-entry.arrived.priority, entry.number))

    def __iter__(self) -> Iterator[Entry]:
        for band in self._bands:
            yield from band
        yield from self.aside

    def _band(self, entry: Entry) -> Band:
        priority = entry.arrived.priority
        for band in self._bands:
            if band.priority == priority:
                return band
        made = Band(priority)
        self._bands.append(made)
        self._bands.sort(key=lambda band: -band.priority)
        return made
