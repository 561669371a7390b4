"""The laws that compete, each with its own defaults and a few settings of its main knob to be tuned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tidegate.core.scaling_settings import Promise, Scaling, ScalingPolicy, SloKeda
from tidegate.sim.needs import Full, full_replica, prefill_s
from tidegate.sim.scenario import ModelSetup, Slo

OURS = "tidal"
SIMPLE = ("concurrency", "thresholds", "tokens", "queue", "slo", "cron", "forecast")
"""Laws of ours that are no rivals and not the default."""

FILL = (0.5, 0.65, 0.8, 0.9)
"""Of a replica that is as full as the promise allows."""

KNOBS: dict[str, tuple[str, Sequence[float]]] = {
    "tokens": ("utilization", (0.5, 0.6, 0.7)),
    "slo": ("up_ratio", (0.5, 0.65, 0.8)),
    "dynamo-sla": ("sensitivity", (0.6, 0.7, 0.8, 0.9)),
    "dynamo-easy": ("up_queue", (0.5, 1.0, 2.0)),
    "wva1": ("kv_spare", (0.1, 0.2, 0.3)),
    "wva2": ("up_ratio", (0.6, 0.75, 0.85)),
    "queue": ("drain_s", (5.0, 15.0, 30.0)),
}
"""The constant of a law that decides how full replicas become, with values around its default."""


@dataclass(frozen=True, slots=True)
class Known:
    """What whoever sets a law up has measured of a replica."""

    full: Full
    slots: int
    prompt_tokens_per_s: float
    kv_ratio: float
    """Of its engine's memory, what a full replica holds."""


def known(setup: ModelSetup, slo: Slo, prompt_tokens: float, output_tokens: float) -> Known:
    """Of requests of such lengths."""
    prompt_s = prefill_s(setup.law, 1, round(prompt_tokens), round(prompt_tokens))
    full = full_replica(setup, slo, prompt_tokens, output_tokens)
    memory = setup.limits.kv_blocks * setup.limits.block_tokens
    return Known(
        full,
        min(setup.fleet.slots, setup.limits.max_sequences),
        prompt_tokens / max(1e-6, prompt_s),
        full.batch * (prompt_tokens + output_tokens / 2) / memory,
    )


# A default says nothing of an engine that its authors did not know: these constants are set to so much of what one
# replica carries, with what else the law multiplies by taken out again.
PER_REPLICA: dict[str, Callable[[Known, float], tuple[tuple[str, float], ...]]] = {
    "ray": lambda each, fill: (("target", fill * each.full.batch),),
    "keda-http": lambda each, fill: (("target", fill * each.full.batch),),
    "kpa": lambda each, fill: (("limit", fill * each.full.batch / 0.7),),
    "baseten": lambda each, fill: (("target", fill * each.full.batch / 0.7),),
    "hpa": lambda each, fill: (("target", fill * each.full.batch / each.slots),),
    "fireworks": lambda each, fill: (("load_target", fill * each.full.batch / each.slots),),
    "aibrix-apa": lambda each, fill: (("target", fill * each.kv_ratio),),
    "sky": lambda each, fill: (("target", fill * each.full.requests_per_s),),
    "token-keda": lambda each, fill: (
        ("prefill_rate", each.prompt_tokens_per_s),
        ("backlog_target_s", 2.0 * fill),
    ),
}


@dataclass(frozen=True, slots=True)
class Entry:
    """A law with one setting."""

    law: str
    setting: str
    scaling: Scaling


def entries(slo: Slo, each: Known, most: int, least: int = 1) -> list[Entry]:
    """Every law that there is, with its settings."""
    promise = Promise(slo.ttft_s, slo.tpot_s)
    found: list[Entry] = []
    for policy in ScalingPolicy:
        base = Scaling(
            policy,
            min_replicas=least,
            max_replicas=most,
            window_s=30.0,
            scale_down_delay_s=300.0,
            concurrency_target=0.6 * each.full.batch,
            slo_keda=SloKeda(ttft_s=slo.ttft_s, tpot_s=slo.tpot_s),
            promise=promise,
        )
        found += [
            Entry(policy.value, setting, scaling) for setting, scaling in _settings(policy.value, base, each)
        ]
    return found


def _settings(law: str, base: Scaling, each: Known) -> list[tuple[str, Scaling]]:
    if law == OURS:
        # It finds for itself how full a replica may be; what is tuned is how long a lower number must have stood, and how
        # often demand may grow by more than what is held for it.
        return [
            (
                f"delay {delay_s:g} s, risk {risk:g}",
                replace(base, concurrency_target=None, scale_down_delay_s=delay_s, law=(("risk", risk),)),
            )
            for risk in (0.03, 0.2)
            for delay_s in (60.0, 150.0, 300.0)
        ]
    if law == "concurrency":
        return [
            (
                f"concurrency_target {fill * each.full.batch:.0f}",
                replace(base, concurrency_target=fill * each.full.batch),
            )
            for fill in FILL
        ]
    if law == "slo-keda":
        return [
            (f"up_ratio {up:g}", replace(base, slo_keda=replace(base.slo_keda, up_ratio=up)))
            for up in (0.4, 0.55, 0.7)
        ]
    if law in PER_REPLICA:
        changes = [PER_REPLICA[law](each, fill) for fill in FILL]
        return [
            (", ".join(f"{name} {value:.3g}" for name, value in change), replace(base, law=change))
            for change in changes
        ]
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
