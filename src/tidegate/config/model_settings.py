"""From one model's checked keys to its frozen settings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from tidegate.adapters.base import EngineSpec
from tidegate.config import weights
from tidegate.config.addresses import address
from tidegate.config.constants import law_of, laws_of
from tidegate.config.engines import adapters_at_start, command_hash, loads_adapters
from tidegate.config.kinds import AUTO
from tidegate.config.model_keys import ModelKeys
from tidegate.config.scaling_keys import ScalingKeys
from tidegate.config.schedule_keys import schedule_of
from tidegate.config.section import values_of
from tidegate.config.settings import ModelSettings, SpillUpstream
from tidegate.config.shell_keys import Fleet
from tidegate.config.variant_keys import VariantKeys
from tidegate.config.variant_rules import addresses_of, as_variant
from tidegate.core.scaling_settings import Promise, Scaling, ScalingPolicy, Thresholds
from tidegate.core.settings import (
    DispatchConfig,
    FleetModel,
    Pool,
    Prefetching,
    QueueLimits,
    Restarts,
    Routing,
    SpillBounds,
    Variant,
)
from tidegate.core.types import ModelId
from tidegate.weights.needs import adapter_marks


def model_settings(name: str, model: ModelKeys, base: Path, shared: Fleet) -> ModelSettings:
    """What a model's keys mean, in a fleet with these."""
    spec = _spec(name, model, base) if model.static is None else None
    variants = {
        key: model_settings(name, as_variant(model, each), base, shared)
        for key, each in model.variants.items()
    }
    parsed = tuple(where for where in map(address, model.static or ()) if where is not None)
    return ModelSettings(
        model=ModelId(name),
        dispatch=_dispatch(model),
        fleet=replace(
            _fleet(model, shared, spec),
            variants=tuple(_variant(key, each, model.variants[key]) for key, each in variants.items()),
            own_max_replicas=len(parsed) if variants and parsed else None,
        ),
        spec=spec,
        static=parsed,
        gpus_per_replica=model.gpus,
        memory_bytes=model.memory_bytes,
        stop_grace_s=model.stop_grace_s,
        silent_after_s=model.silent_after_s,
        kv_events_port=model.kv_events_port,
        spill=_spill_upstream(model),
        variants=MappingProxyType(variants),
        profile=model.profile,
    )


def _dispatch(model: ModelKeys) -> DispatchConfig:
    return DispatchConfig(
        Routing(model.routing),
        QueueLimits(**values_of(model.queue)),
        model.max_retries,
        adapter_slots=model.adapter_slots,
        adapters=tuple(model.lora),
        resume=model.resume,
        prefill_ahead_s=model.prefill_ahead_s,
        reserve_share=model.reserve_share,
        max_deaths=model.max_deaths,
        max_yields=model.max_yields,
        spill=_spill_bounds(model),
        **values_of(model.slow_start),
        **values_of(model.hedging),
    )


def _fleet(model: ModelKeys, shared: Fleet, spec: EngineSpec | None) -> FleetModel:
    return FleetModel(
        engine=model.engine,
        slots=model.slots,
        scaling=_scaling(model.scaling, model, shared.timezone),
        restarts=Restarts(**values_of(model.restarts)),
        gpus=model.gpus,
        kind=model.kind or "",
        memory_bytes=model.memory_bytes,
        is_elsewhere=model.static is not None,
        price_per_h=model.price_per_h,
        start_deadline_s=model.start_deadline_s,
        drain_deadline_s=model.drain_deadline_s,
        handover_s=model.handover_s if Routing(model.routing) is Routing.LEAST_SECONDS else 0.0,
        expected_start_s=model.expected_start_s,
        pool=Pool(**values_of(model.pool)),
        prefetch=Prefetching(model.prefetch),
        adopts_ends=shared.manual == "adopt",
        by_hand_for_s=shared.manual_for_s,
        spill_cost_per_h=0.0 if model.spill is None else model.spill.max_cost_per_h,
        shadow=None if model.shadow is None else laws_of(model.shadow),
        adapters=None if spec is None or spec.lora is None else tuple(adapter_marks(spec).items()),
        loads_adapters=spec is not None and spec.lora is not None and loads_adapters(model.engine),
        adapters_at_start=spec is None or spec.lora is None or adapters_at_start(model.engine),
        command_hash=""
        if spec is None
        else command_hash(spec, model.engine, model.gpus, model.memory_bytes, model.kind or ""),
        max_wait_s=model.queue.max_wait_starting_s,
    )


def _variant(name: str, model: ModelSettings, keys: VariantKeys) -> Variant:
    fleet = model.fleet
    return Variant(
        name=name,
        slots=fleet.slots,
        gpus=fleet.gpus,
        kind=fleet.kind,
        memory_bytes=fleet.memory_bytes,
        price_per_h=fleet.price_per_h,
        expected_start_s=fleet.expected_start_s,
        command_hash=fleet.command_hash,
        max_replicas=len(model.static) or keys.max_replicas,
    )


_SPILL_PLACE = ("address", "model", "key_env")


def _spill_bounds(model: ModelKeys) -> SpillBounds | None:
    return None if model.spill is None else SpillBounds(**values_of(model.spill, *_SPILL_PLACE))


def _spill_upstream(model: ModelKeys) -> SpillUpstream | None:
    if model.spill is None:
        return None
    return SpillUpstream(model.spill.address, model.spill.model, model.spill.key_env)


def _scaling(section: ScalingKeys, model: ModelKeys, timezone: str) -> Scaling:
    """Engines that run anyway are all used unless the policy says otherwise."""
    target, least, most = section.concurrency_target, section.min_replicas, section.max_replicas
    if model.static is not None:
        if "max_replicas" not in section.model_fields_set:
            most = addresses_of(model)
        if "min_replicas" not in section.model_fields_set:
            least = most
    policy = ScalingPolicy(section.policy)
    return Scaling(
        policy=policy,
        min_replicas=least,
        max_replicas=most,
        window_s=section.window_s,
        scale_down_delay_s=section.scale_down_delay_s,
        concurrency_target=None if target == AUTO else float(target),
        thresholds=Thresholds(**values_of(section.thresholds)),
        promise=Promise(**values_of(section.promise)),
        also=tuple(law for text in section.also for law in laws_of(text)),
        law=law_of(policy, section.law),
        schedule=schedule_of(section.schedule, timezone),
    )


def _spec(name: str, model: ModelKeys, base: Path) -> EngineSpec:
    lora = {adapter: weights.found_adapter(path, model.engine, base) for adapter, path in model.lora.items()}
    return EngineSpec(
        model_name=name,
        weights="" if model.weights is None else weights.found(model.weights, model.engine, base),
        weights_sha256=model.weights_sha256,
        slots=model.slots,
        context_tokens=model.context_tokens,
        threads=model.threads,
        extra_args=tuple(model.extra_args),
        # Empty, but there: adapters are to come.
        lora=MappingProxyType(lora) if "lora" in model.model_fields_set else None,
        adapter_slots=model.adapter_slots,
        command=None if model.command is None else tuple(model.command),
        env=MappingProxyType(dict(model.env)) if model.env else None,
        sleeps=model.pool.max_sleeping > 0,
    )
