"""What is right: each check says what is wrong with a course, in a sentence, or nothing."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Protocol

from tidegate.conformance.course import Course


class Check(Protocol):
    """A statement about a course."""

    def wrong(self, course: Course) -> str | None:
        """What is wrong; None when all is right."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Wanted are never more and never fewer than these within the span."""

    from_s: float
    until_s: float
    least: int = 0
    most: float = inf

    def wrong(self, course: Course) -> str | None:
        numbers = course.wanted(self.from_s, self.until_s)
        if max(numbers) > self.most:
            return f"{max(numbers)} wanted, {self.most:g} at most are right"
        return (
            f"{min(numbers)} wanted, {self.least} at least are right" if min(numbers) < self.least else None
        )


@dataclass(frozen=True, slots=True)
class Reaches:
    """At that moment wanted are at least, or at most, so many."""

    by_s: float
    least: int = 0
    most: float = inf

    def wrong(self, course: Course) -> str | None:
        found = course.wanted_at(self.by_s)
        if found < self.least:
            return f"{found} wanted after {self.by_s:g} s, {self.least} at least are right"
        return (
            f"{found} wanted after {self.by_s:g} s, {self.most:g} at most are right"
            if found > self.most
            else None
        )


@dataclass(frozen=True, slots=True)
class Stays:
    """From a moment on the number neither falls nor rises by more than this."""

    from_s: float
    until_s: float
    falls: int | None = None
    rises: int | None = None

    def wrong(self, course: Course) -> str | None:
        before, numbers = course.wanted_at(self.from_s), course.wanted(self.from_s, self.until_s)
        if self.falls is not None and min(numbers) < before - self.falls:
            return f"from {before} down to {min(numbers)} for no reason"
        if self.rises is not None and max(numbers) > before + self.rises:
            return f"from {before} up to {max(numbers)} for no reason"
        return None


@dataclass(frozen=True, slots=True)
class NoCollapse:
    """The number never falls by more than this share of the most that was wanted."""

    from_s: float
    until_s: float
    share: float

    def wrong(self, course: Course) -> str | None:
        most = 0
        for number in course.wanted(self.from_s, self.until_s):
            most = max(most, number)
            if number < (1 - self.share) * most:
                return f"from {most} down to {number} while the demand stands"
        return None


@dataclass(frozen=True, slots=True)
class FewReversals:
    """The number changes its direction no more often than this."""

    from_s: float
    until_s: float
    most: int

    def wrong(self, course: Course) -> str | None:
        found = course.reversals(self.from_s, self.until_s)
        return f"{found} changes of direction, {self.most} at most are right" if found > self.most else None


@dataclass(frozen=True, slots=True)
class Starts:
    """So many starts within a span, or in all."""

    most: int
    least: int = 0
    from_s: float = 0.0
    until_s: float = inf

    def wrong(self, course: Course) -> str | None:
        found = sum(self.from_s <= at_s <= self.until_s for at_s in course.launches)
        if found > self.most:
            return f"{found} starts, {self.most} at most are right"
        return f"{found} starts, {self.least} at least are right" if found < self.least else None


@dataclass(frozen=True, slots=True)
class FewerStarts:
    """Within as long after a later moment there are at most this share of the starts that there were after a first one."""

    first_s: float
    later_s: float
    within_s: float
    share: float

    def wrong(self, course: Course) -> str | None:
        first, later = (
            sum(from_s <= at_s <= from_s + self.within_s for at_s in course.launches)
            for from_s in (self.first_s, self.later_s)
        )
        return f"{later} starts, after {first} the first time" if later > self.share * first else None


@dataclass(frozen=True, slots=True)
class GivenUp:
    """No start is waited for longer than this."""

    after_s: float

    def wrong(self, course: Course) -> str | None:
        found = course.longest_start_s
        return None if found <= self.after_s else f"a start is still waited for after {found:g} s"


@dataclass(frozen=True, slots=True)
class Ended:
    """Every request ended in one of these ways."""

    ways: tuple[str, ...] = ("completed",)

    def wrong(self, course: Course) -> str | None:
        others = {way: count for way, count in course.endings.items() if way not in self.ways}
        return ", ".join(f"{count} {way}" for way, count in others.items()) or None
