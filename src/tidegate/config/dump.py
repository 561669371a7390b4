"""Settings back to the text of a policy file, with every key written out."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import yaml

from tidegate.config.constants import written_law, written_laws
from tidegate.config.dispatch_keys import Hedging, Queue, Queues, ShiftKeys, SlowStart
from tidegate.config.model_keys import ModelKeys
from tidegate.config.node_keys import NodeKeys
from tidegate.config.pool_keys import PoolKeys
from tidegate.config.restart_keys import RestartKeys
from tidegate.config.scaling_keys import PromiseKeys, ScalingKeys, ThresholdLaw
from tidegate.config.schedule_keys import FloorKeys
from tidegate.config.schema import OFF, Keys, kind_of
from tidegate.config.settings import ModelSettings, Settings
from tidegate.config.shell_keys import DEVICE, Fleet, Gateway, Journal
from tidegate.config.spill_keys import SpillKeys
from tidegate.config.variant_keys import VariantKeys
from tidegate.config.weights_keys import Weights
from tidegate.core.scaling_settings import Scaling, ScalingPolicy
from tidegate.core.settings import TrafficShift
from tidegate.core.types import Address


def render(settings: Settings) -> str:
    """A policy file that loads as these very settings. Hashes of keys and environments are in it."""
    gateway = {
        name: getattr(settings.gateway, name)
        for name in Gateway.model_fields
        if name not in ("keys", "queues")
    }
    keys = [
        {
            "sha256": digest,
            "name": str(client.flow),
            "priority": client.priority,
            "weight": client.weight,
            "may_spill": client.may_spill,
        }
        for digest, client in settings.gateway.keys.items()
    ]
    fleet = (
        asdict(settings.limits)
        | {"state_dir": str(settings.state_dir), "timezone": settings.timezone}
        | {"manual": settings.manual, "manual_for_s": settings.manual_for_s}
    )
    journal = {"dir": str(settings.journal_dir), "max_bytes": settings.journal_max_bytes}
    whole = {
        "gateway": _written(Gateway, gateway)
        | {"keys": keys, "queues": _written(Queues, asdict(settings.queues))},
        "fleet": _written(Fleet, fleet)
        | {"gpus": [DEVICE.write(device) for device in settings.gpus]}
        | {"nodes": _nodes(settings)},
        "weights": _written(
            Weights, asdict(settings.weights) | {"cache_dir": str(settings.weights.cache_dir)}
        ),
        "journal": OFF if settings.journal_dir is None else _written(Journal, journal),
        "models": {str(name): _model(model) for name, model in settings.models.items()},
        "shifts": {str(name): _shift(shift) for name, shift in settings.shifts.items()},
    }
    return yaml.safe_dump(whole, sort_keys=False, allow_unicode=True, width=110)


def _written(section: Keys, values: dict[str, Any]) -> dict[str, Any]:
    """The single values of a section, as the file has them; what is not known is left out."""
    written = {}
    for name, field in section.model_fields.items():
        kind, value = kind_of(field), values.get(name)
        if kind is not None and value is not None:
            written[field.alias or name] = kind.write(value)
    return written


def _nodes(settings: Settings) -> dict[str, Any]:
    """Other machines than this one."""
    if settings.gpus:
        return {}
    return {
        node.name: _written(
            NodeKeys,
            {
                "gpus": len(node.gpus),
                "kind": node.gpus[0].kind or None,
                "memory_bytes": node.gpus[0].memory_bytes,
                "price_per_h": node.price_per_h,
            },
        )
        for node in settings.nodes
    }


def _model(model: ModelSettings) -> dict[str, Any]:
    fleet, spec = model.fleet, model.spec
    values: dict[str, Any] = {name: getattr(fleet, name, None) for name in ModelKeys.model_fields}
    dispatch = asdict(model.dispatch)
    values |= {name: dispatch[name] for name in ModelKeys.model_fields if name in dispatch}
    values |= {
        "prefetch": None if spec is None else fleet.prefetch.value,
        "shadow": written_laws(fleet.shadow) if fleet.shadow else None,
        "routing": model.dispatch.routing.value,
        "adapter_slots": model.dispatch.adapter_slots,
        "kind": fleet.kind or None,
        "memory_bytes": model.memory_bytes,
        "stop_grace_s": model.stop_grace_s,
        "silent_after_s": model.silent_after_s,
        "kv_events_port": model.kv_events_port,
        "profile": model.profile,
    }
    many: dict[str, Any] = {"static": [_url(address) for address in model.static]}
    if spec is not None:
        values |= {"weights": spec.weights or None, "weights_sha256": spec.weights_sha256}
        values |= {"context_tokens": spec.context_tokens, "threads": spec.threads}
        many = {
            "args": list(spec.extra_args),
            "env": dict(spec.env or {}),
            "command": None if spec.command is None else list(spec.command),
        }
    sections = {
        "queue": _written(Queue, dispatch["queue"]),
        "slow_start": _written(SlowStart, dispatch),
        "hedging": _written(Hedging, dispatch),
        "scaling": _scaling(fleet.scaling),
        "pool": _written(PoolKeys, asdict(fleet.pool)),
        "restarts": _written(RestartKeys, asdict(fleet.restarts)),
    }
    if model.spill is not None:
        sections["spill"] = _written(SpillKeys, asdict(model.spill) | dispatch["spill"])
    if model.variants:
        most = {variant.name: variant.max_replicas for variant in fleet.variants}
        sections["variants"] = {name: _variant(each, most[name]) for name, each in model.variants.items()}
    kept = {key: value for key, value in many.items() if value}
    if spec is not None and spec.lora is not None:
        kept["lora"] = dict(spec.lora)  # an empty one is not the same as none
    return _written(ModelKeys, values) | kept | sections


def _variant(variant: ModelSettings, most: int | None) -> dict[str, Any]:
    fleet, spec = variant.fleet, variant.spec
    values: dict[str, Any] = {name: getattr(fleet, name, None) for name in VariantKeys.model_fields}
    values |= {"kind": fleet.kind or None, "profile": variant.profile}
    if spec is None:
        return _written(VariantKeys, values) | {"static": [_url(address) for address in variant.static]}
    values |= {"context_tokens": spec.context_tokens, "threads": spec.threads, "max_replicas": most}
    many = {"args": list(spec.extra_args), "env": dict(spec.env or {})}
    if spec.command is not None:
        many["command"] = list(spec.command)
    return _written(VariantKeys, values) | many


def _shift(shift: TrafficShift) -> dict[str, Any]:
    return {"versions": dict(shift.versions)} | _written(ShiftKeys, asdict(shift))


def _scaling(scaling: Scaling) -> dict[str, Any]:
    values = asdict(scaling) | {"policy": scaling.policy.value}
    written = _written(ScalingKeys, values) | {"promise": _written(PromiseKeys, values["promise"])}
    if scaling.also:
        written["also"] = [written_laws([law]) for law in scaling.also]
    if scaling.law:
        written["law"] = written_law(scaling.law)
    if scaling.schedule.floors:
        written["schedule"] = [_written(FloorKeys, asdict(floor)) for floor in scaling.schedule.floors]
    if scaling.policy is ScalingPolicy.THRESHOLDS:
        written["thresholds"] = _written(ThresholdLaw, values["thresholds"])
    return written


def _url(address: Address) -> str:
    return f"http://{address.url_host}:{address.port}"
