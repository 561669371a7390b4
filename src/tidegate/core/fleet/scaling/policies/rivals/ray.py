"""Ray Serve's default policy: ongoing requests by replica, with delays by consecutive ticks of 0.1 s.

Source: ray-project/ray, python/ray/serve/autoscaling_policy.py, _private/constants.py and config.py (2026). With
``n`` running replicas and the mean of 30 s of what is queued in handles or runs:

    ceil(n + gain * (ongoing / 2 - n)), one less when that is stuck on the way down

A direction is obeyed when every tick of 30 s (up) or 600 s (down) said so; any other tick begins anew, and so does
acting. More than one never goes to zero directly. From zero the first replica comes at once. A metric of 10 s
(the push interval) is not modelled: the gateways' reports come each second.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from tidegate.core.fleet.scaling.policies.base import Situation
from tidegate.core.fleet.scaling.policies.paced import Answer
from tidegate.core.fleet.scaling.policies.rivals.constants import with_changes
from tidegate.core.scaling_settings import Scaling


@dataclass(frozen=True, slots=True)
class RayConstants:
    """``AutoscalingConfig``'s defaults."""

    target: float = 2.0
    """``target_ongoing_requests``."""
    look_back_window_s: float = 30.0
    up_gain: float = 1.0
    down_gain: float = 1.0
    up_delay_s: float = 30.0
    down_delay_s: float = 600.0
    zero_delay_s: float | None = None
    """From one to none; None: as down."""
    every_s: float = 0.1
    """Between two reports nothing changes, so it is evaluated at each of them; delays are exact to a tick."""


class Ray:
    """The law for one model, with the direction that its ticks agree on."""

    def __init__(self, constants: RayConstants) -> None:
        self._law = constants
        self._way = 0
        self._since_s = 0.0

    def __repr__(self) -> str:
        return f"<Ray way={self._way} since_s={self._since_s:g}>"

    def evaluate(self, seen: Situation, now_s: float) -> Answer:
        """The policy, its bounds, its delays."""
        law, standing = self._law, seen.standing
        ongoing = seen.demand.past.mean_concurrency(law.look_back_window_s, now_s)
        if ongoing is None:
            return Answer(standing, standing, "nothing is known of the demand", "no data")
        if seen.live == 0:
            first = ceil(law.up_gain) if seen.demand.concurrency > 0 else 0
            wanted = max(first, standing)
            return Answer(wanted, wanted, f"{seen.demand.concurrency:g} wait at no replica")
        asked = self._scaled(ongoing, seen.serving)
        because = f"{ongoing:.1f} ongoing over {law.look_back_window_s:g} s at {law.target:g} ask for {asked}"
        wanted = self._delayed(seen.within(asked), standing, now_s)
        return Answer(wanted, asked, because, None if wanted == seen.within(asked) else "delay")

    def _scaled(self, ongoing: float, running: int) -> int:
        desired = ongoing / self._law.target
        gain = self._law.up_gain if desired > running else self._law.down_gain
        scaled = ceil(running + gain * (desired - running) - 1e-9)
        if ceil(desired - 1e-9) < running and scaled == running:
            scaled -= 1
        return scaled

    def _delayed(self, bounded: int, standing: int, now_s: float) -> int:
        law = self._law
        way = (bounded > standing) - (bounded < standing)
        if way != self._way:
            self._way, self._since_s = way, now_s
        if not way:
            return standing
        delay_s = law.up_delay_s
        if way < 0:
            to_zero = standing == 1 and law.zero_delay_s is not None
            delay_s = law.zero_delay_s if to_zero and law.zero_delay_s is not None else law.down_delay_s
        if now_s - self._since_s < delay_s:
            return standing
        self._way = 0
        return bounded if way > 0 or standing == 1 else max(1, bounded)


def ray(scaling: Scaling, standing: int, now_s: float) -> tuple[Ray, float]:
    """The law with this model's settings, and how often it is evaluated."""
    del standing, now_s
    constants = with_changes(RayConstants(), scaling.law)
    return Ray(constants), constants.every_s
