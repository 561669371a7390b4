"""The constants of laws: what a policy file may change of them, and how that is written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any

from tidegate.config import kinds, units
from tidegate.config.kinds import Kind
from tidegate.config.problems import did_you_mean
from tidegate.core.fleet.scaling.policies import CONSTANTS
from tidegate.core.scaling_settings import LawSettings, ScalingPolicy

CONSTANT_NAME = kinds.text("name", r"[a-z][a-z0-9_]{0,49}", "the name of one of the law's constants")


NAMES = tuple(policy.value for policy in ScalingPolicy)

SHARES = ("risk", "utilization")
"""Whoever writes these as percentages is told: a risk of 5 would hold nothing for growth."""


def constant() -> Kind:
    """A law's constant: a duration, or a number without a unit. Which of them it must be is for a rule to say."""
    allowed = "a number of 0 or more, or a duration such as 90s"

    def read(value: object) -> float | str:
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1e12:
            return float(value)
        try:
            return units.format_duration(units.parse_duration(value if isinstance(value, str) else ""))
        except ValueError:
            raise ValueError(f"it must be {allowed}") from None

    def write(value: float | str) -> object:
        return int(value) if isinstance(value, float) and value.is_integer() else value

    schema = {"type": ["number", "string"], "minimum": 0}
    return Kind("number or duration", "", allowed, read, write, schema)


CONSTANT = constant()


def constants_of(policy: ScalingPolicy) -> dict[str, float | None]:
    """The constants that a policy file may change, as it spells them, with the law's own values."""
    kind = CONSTANTS.get(policy)
    if kind is None:
        return {}
    return {
        spelled(field.name): getattr(kind(), field.name)
        for field in fields(kind)
        if "bool" not in str(field.type)
    }


def spelled(name: str) -> str:
    """A constant's name in the file, where the unit stands in the value."""
    return name.removesuffix("_s")


def is_duration(policy: ScalingPolicy, key: str) -> bool:
    """It is a span of time."""
    return any(field.name == f"{key}_s" for field in fields(CONSTANTS[policy]))


def may_be_zero(policy: ScalingPolicy, key: str) -> bool:
    """Nothing is divided by it, and no loop waits for it."""
    return key.endswith(("_delay", "_window")) or constants_of(policy)[key] == 0.0


def mistakes_in(policy: ScalingPolicy, given: Mapping[str, float | str]) -> Iterator[tuple[str, str]]:
    """Each constant that this law does not have, or not with such a value, and what is wrong with it."""
    known = constants_of(policy)
    for key, value in given.items():
        if key not in known:
            meant = did_you_mean(key, known)
            hint = f"; did you mean {meant}?" if meant else ""
            yield key, f"{policy.value} has no such constant; it has {', '.join(known) or 'none'}{hint}"
        elif is_duration(policy, key) != isinstance(value, str):
            yield (
                key,
                "it must be a duration, such as 90s"
                if is_duration(policy, key)
                else "it must be a number without a unit",
            )
        elif value in (0.0, "0s") and not may_be_zero(policy, key):
            yield key, "it must be above 0"
        elif key in SHARES and isinstance(value, float) and value > 1.0:
            yield key, "it is a share, 1 at most"


def parsed_law(policy: ScalingPolicy, text: str) -> tuple[tuple[str, float], ...]:
    """The constants in ``key=value,...``, as a command line has them.

    Raises:
        ValueError: there is a mistake; the message names the constant, its value and what is allowed.
    """
    given: dict[str, float | str] = {}
    for part in filter(None, text.split(",")):
        key, _, written = part.partition("=")
        if key in given:
            message = f"{key} is there twice"
            raise ValueError(message)
        number = re.fullmatch(r"\d+(\.\d+)?(e-\d+)?", written)
        try:
            given[key] = CONSTANT.read(float(written) if number else written)
        except ValueError as error:
            message = f"{key} is {written or 'missing'}; {error}"
            raise ValueError(message) from None
    for key, mistake in mistakes_in(policy, given):
        value = given[key]
        message = f"{key} is {value if isinstance(value, str) else f'{value:g}'}; {mistake}"
        raise ValueError(message)
    return law_of(policy, given)


def laws_of(text: str) -> tuple[LawSettings, ...]:
    """The laws in ``NAME:constant=value,… + NAME``, as the policy file and the command line have them.

    Raises:
        ValueError: there is a mistake; the message names what it is about, and what is allowed.
    """
    laws: list[LawSettings] = []
    for part in text.split("+"):
        name, _, constants = part.strip().partition(":")
        if name not in NAMES:
            meant = did_you_mean(name, NAMES)
            hint = f"; did you mean {meant}?" if meant else ""
            what = f"{name!r} is no law; it" if "+" in text or constants else "it"
            message = f"{what} must be one of {', '.join(NAMES)}{hint}"
            raise ValueError(message)
        policy = ScalingPolicy(name)
        if any(law.policy is policy for law in laws):
            message = f"{name} is named already; each law counts once"
            raise ValueError(message)
        laws.append(LawSettings(policy, parsed_law(policy, constants)))
    return tuple(laws)


def written_laws(laws: Iterable[LawSettings]) -> str:
    """The same as the file has it."""
    return " + ".join(
        ":".join(filter(None, (law.policy.value, ",".join(_assigned(law.constants))))) for law in laws
    )


def _assigned(constants: tuple[tuple[str, float], ...]) -> Iterator[str]:
    return (f"{key}={value}" for key, value in written_law(constants).items())


def laws(*, several: bool) -> Kind:
    """A law by name with constants of its own, if wanted; ``several``: or more than one, joined by ``+``."""
    form = "`NAME` or `NAME:constant=value,…`" + (", several joined by ` + `" if several else "")
    allowed = f"one of {', '.join(NAMES)}, each with constants if wanted, as in ray:target=8,up_delay=5s"

    def read(value: object) -> str:
        found = laws_of(value if isinstance(value, str) else "")
        if len(found) > 1 and not several:
            raise ValueError("it must be one law; each has a place of its own in the list")
        return written_laws(found)

    one = rf"(?:{'|'.join(NAMES)})(?::[a-z0-9_=.,-]+)?"
    pattern = rf"^{one}(?: *\+ *{one})*$" if several else f"^{one}$"
    return Kind("law", form, allowed, read, lambda value: value, {"type": "string", "pattern": pattern})


def law_of(policy: ScalingPolicy, given: Mapping[str, float | str]) -> tuple[tuple[str, float], ...]:
    """The changed constants by the names that the law has for them."""
    return tuple(
        (f"{key}_s", units.parse_duration(str(value))) if is_duration(policy, key) else (key, float(value))
        for key, value in sorted(given.items())
    )


def written_law(scaling_law: tuple[tuple[str, float], ...]) -> dict[str, Any]:
    """The same as the file has it."""
    return {
        spelled(name): units.format_duration(value) if name.endswith("_s") else CONSTANT.write(value)
        for name, value in scaling_law
    }


def constants_table() -> Iterator[tuple[str, str]]:
    """Each policy with constants, and these with their values, for the documentation."""
    for policy in CONSTANTS:
        told = [f"`{key}` {_told(policy, key, value)}" for key, value in constants_of(policy).items()]
        yield policy.value, ", ".join(told)


def _told(policy: ScalingPolicy, key: str, value: float | None) -> str:
    if value is None:
        return "none"
    return units.format_duration(value) if is_duration(policy, key) else f"{value:g}"
