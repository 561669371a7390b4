"""The laws that compete, each with its own defaults and a few settings of its main knob to be tuned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tidegate.core.settings import Promise, Scaling, ScalingPolicy, SloKeda
from tidegate.sim.needs import Full
from tidegate.sim.scenario import Slo

OURS = "tidal"
SIMPLE = ("concurrency", "thresholds", "tokens", "queue", "slo", "cron")
"""Laws of ours that are no rivals and not the default."""

KNOBS: dict[str, tuple[str, Sequence[float]]] = {
    "hpa": ("target", (0.4, 0.6, 0.8)),
    "aibrix-apa": ("target", (0.3, 0.5, 0.7)),
    "fireworks": ("load_target", (0.5, 0.65, 0.8)),
    "kpa": ("utilization", (0.5, 0.7, 0.9)),
    "tokens": ("utilization", (0.5, 0.6, 0.7)),
    "baseten": ("utilization", (0.5, 0.7, 0.9)),
    "slo": ("up_ratio", (0.5, 0.65, 0.8)),
    "dynamo-sla": ("sensitivity", (0.6, 0.7, 0.8)),
    "dynamo-easy": ("up_queue", (0.5, 1.0, 2.0)),
    "token-keda": ("backlog_target_s", (0.5, 1.0, 1.5)),
    "wva1": ("kv_spare", (0.1, 0.2, 0.3)),
    "wva2": ("up_ratio", (0.6, 0.75, 0.85)),
    "queue": ("drain_s", (5.0, 15.0, 30.0)),
}
"""The constant of a law that decides how full replicas become, with values around its default."""

PER_REPLICA = {"ray": "target", "keda-http": "target", "baseten": "target", "sky": "target"}
"""Targets in requests a replica, for which a default says nothing: in shares of what a full one carries."""

FILL = (0.4, 0.6, 0.8)
"""Of a replica that is as full as the promise allows."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A law with one setting."""

    law: str
    setting: str
    scaling: Scaling


def entries(slo: Slo, full: Full, most: int, least: int = 1) -> list[Entry]:
    """Every law that there is, with its settings; ``full`` is a replica as full as the promise allows."""
    promise = Promise(slo.ttft_s, slo.tpot_s)
    found: list[Entry] = []
    for policy in ScalingPolicy:
        base = Scaling(
            policy,
            min_replicas=least,
            max_replicas=most,
            window_s=30.0,
            scale_down_delay_s=300.0,
            concurrency_target=0.6 * full.batch,
            slo_keda=SloKeda(ttft_s=slo.ttft_s, tpot_s=slo.tpot_s),
            promise=promise,
        )
        found += [
            Entry(policy.value, setting, scaling) for setting, scaling in _settings(policy.value, base, full)
        ]
    return found


def _settings(law: str, base: Scaling, full: Full) -> list[tuple[str, Scaling]]:
    if law == OURS:
        # It finds for itself how full a replica may be; what is tuned is how long a lower number must have stood.
        return [
            (f"delay {delay_s:g} s", replace(base, concurrency_target=None, scale_down_delay_s=delay_s))
            for delay_s in (60.0, 150.0, 300.0)
        ]
    if law in ("concurrency", "kpa"):
        return [
            (
                f"concurrency_target {fill * full.batch:.0f}",
                replace(base, concurrency_target=fill * full.batch),
            )
            for fill in FILL
        ]
    if law == "slo-keda":
        return [
            (f"up_ratio {up:g}", replace(base, slo_keda=replace(base.slo_keda, up_ratio=up)))
            for up in (0.4, 0.55, 0.7)
        ]
    if law in PER_REPLICA:
        most = full.requests_per_s if law == "sky" else float(full.batch)
        name = PER_REPLICA[law]
        return [(f"{name} {fill * most:.3g}", replace(base, law=((name, fill * most),))) for fill in FILL]
    if law in KNOBS:
        name, values = KNOBS[law]
        return [(f"{name} {value:g}", replace(base, law=((name, value),))) for value in values]
    return [("its defaults", base)]


def ours(laws: Sequence[str]) -> str:
    """The law of ours that competes: the default one if it is there."""
    return OURS if OURS in laws else "concurrency"


def rivals(laws: Sequence[str]) -> list[str]:
    """All laws of other systems."""
    return [law for law in laws if law != OURS and law not in SIMPLE]
