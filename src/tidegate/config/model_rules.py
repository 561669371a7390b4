"""What must hold between the keys of one model."""

from __future__ import annotations

import ipaddress
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from tidegate.config import units
from tidegate.config.engines import EMULATED, OPENAI, sleeps
from tidegate.config.finding import Finding
from tidegate.config.model_keys import ModelKeys
from tidegate.config.nodes import fitting, nodes_of
from tidegate.config.problems import KeyPath
from tidegate.config.scaling_rules import scaling_findings
from tidegate.config.shell_keys import Fleet
from tidegate.config.spill_rules import spill_findings
from tidegate.config.variant_rules import addresses_of, variant_findings
from tidegate.config.weights_keys import Weights
from tidegate.config.weights_rules import weights_findings
from tidegate.core.settings import ScalingPolicy
from tidegate.core.types import Address

PLACEHOLDERS = ("host", "port", "model", "weights", "slots", "gpus")
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
_OUR_FLAGS = frozenset({"--host", "--port"})

_ONLY_WHEN_STARTED = (
    "weights",
    "weights_sha256",
    "prefetch",
    "command",
    "extra_args",
    "env",
    "lora",
    "gpus",
    "memory_bytes",
    "context_tokens",
    "threads",
)
"""Keys without a meaning for engines that someone else runs."""


def model_findings(
    name: str, model: ModelKeys, fleet: Fleet, keeping: Weights, base: Path
) -> Iterator[Finding]:
    """Every rule that this model breaks."""
    path: KeyPath = ("models", name)
    yield from _source(path, model)
    yield from weights_findings(path, model, keeping, base)
    yield from _command(path, model)
    yield from _static(path, model)
    yield from variant_findings(path, model, lambda where, one: _of_each_variant(where, one, fleet))
    yield from _kv_events(path, model)
    yield from _scaling(path, model)
    yield from _thresholds(path, model)
    yield from scaling_findings(path, model)
    yield from _times(path, model)
    yield from spill_findings(path, model)
    yield from _pool(path, model)
    yield from _caps(path, model, fleet)


def _of_each_variant(path: KeyPath, model: ModelKeys, fleet: Fleet) -> Iterator[Finding]:
    yield from _command(path, model)
    yield from _addresses(path, model)
    yield from _only_when_started(path, model)
    yield from _times(path, model)
    yield from _caps(path, model, fleet)


_LOOPBACK_NAMES = frozenset({"localhost", "localhost.localdomain", "ip6-localhost"})


def address(written: str) -> Address | None:
    """The host and port of ``http://HOST:PORT``; None when they cannot be."""
    try:
        parts = urlsplit(written)
        host, port = parts.hostname, parts.port
        if host is not None and ":" in host:
            ipaddress.IPv6Address(host)
    except ValueError:
        return None
    return Address(host, port) if host and port else None


def one_spelling(where: Address) -> Address:
    """The address as every spelling of it comes out: this machine has several names, and IPv6 several forms. Two engines may
    listen at one port of IPv4 and of IPv6, so the two loopback addresses are not one."""
    host = where.host.rstrip(".").lower()
    try:
        parsed = ipaddress.ip_address(host)
    except ValueError:
        return Address("127.0.0.1" if host in _LOOPBACK_NAMES else host, where.port)
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return Address(str(parsed if mapped is None else mapped), where.port)


def _source(path: KeyPath, model: ModelKeys) -> Iterator[Finding]:
    if model.static is not None:
        yield from _only_when_started(path, model)
        return
    rests_on = tuple((*path, key) for key in ("engine", "weights", "command", "static"))
    if model.engine == OPENAI and model.command is None:
        message = (
            "needs static (addresses of running engines) or command (how to start one) for engine openai"
        )
        yield Finding(path, None, message, rests_on)
    elif model.engine != EMULATED and model.weights is None and model.command is None:
        message = f"needs weights, or static (addresses of running engines), for engine {model.engine}"
        yield Finding(path, None, message, rests_on)


def _only_when_started(path: KeyPath, model: ModelKeys) -> Iterator[Finding]:
    for attribute in _ONLY_WHEN_STARTED if model.static is not None else ():
        if attribute in model.model_fields_set and getattr(model, attribute):
            key = (*path, ModelKeys.model_fields[attribute].alias or attribute)
            message = "cannot stand together with static, an engine that someone else runs; leave one out"
            yield Finding(key, None, message, (key, (*path, "static")))


def _command(path: KeyPath, model: ModelKeys) -> Iterator[Finding]:
    for place, word in enumerate(model.extra_args):
        flag = word.partition("=")[0]
        if flag in _OUR_FLAGS:
            yield Finding(
                (*path, "args", place), None, f"must not be {flag}; Tidegate chooses where engines listen"
            )
    if model.command is None:
        return
    where = (*path, "command")
    if not model.command:
        yield Finding(where, None, "is an empty list; it must begin with a program")
        return
    used = {name for word in model.command for name in _PLACEHOLDER.findall(word)}
    for unknown in sorted(used.difference(PLACEHOLDERS)):
        names = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
        yield Finding(where, None, f"has the unknown placeholder {{{unknown}}}; it must be one of {names}")
    if "port" not in used:
        yield Finding(where, None, "must contain {port}, or the engine cannot be told where to listen")
    if "weights" in used and model.weights is None:
        message = "contains {weights}, but the model has none"
        yield Finding(where, None, message, (where, (*path, "weights")))
    elif used.issubset(PLACEHOLDERS) and "port" in used and not _is_program(model.command[0], model.env):
        message = "begins with a program that is not there; it must be a path, or a name on the engine's PATH"
        yield Finding(where, None, message, (where, (*path, "env")))


def _is_program(written: str, env: Mapping[str, str]) -> bool:
    """Whether it could be started; what is filled in later is believed."""
    if _PLACEHOLDER.search(written):
        return True
    return shutil.which(written, path=env.get("PATH") or os.environ.get("PATH")) is not None


def _static(path: KeyPath, model: ModelKeys) -> Iterator[Finding]:
    if model.static is None:
        return
    yield from _addresses(path, model)
    where, most = (*path, "static"), addresses_of(model)
    for bound in ("min_replicas", "max_replicas") if model.static else ():
        key, count = (*path, "scaling", bound), getattr(model.scaling, bound)
        if bound in model.scaling.model_fields_set and count > most:
            message = f"it must be at most {most}, the number of addresses in static"
            yield Finding(key, str(count), message, (key, where))


def _addresses(path: KeyPath, model: ModelKeys) -> Iterator[Finding]:
    where = (*path, "static")
    if model.static is not None and not model.static:
        yield Finding(where, None, "is an empty list; it must hold at least one address")
    for place, written in enumerate(model.static or ()):
        if address(written) is None:
            message = "it must be http://HOST:PORT with a port from 1 to 65535"
            yield Finding((*where, place), written, message)


def _kv_events(path: KeyPath, model: ModelKeys) -> Iterator[Finding]:
    """One port for all: whose events they are is told by the host alone."""
    port = model.kv_events_port
    if port is None:
        return
    key, static = (*path, "kv_events_port"), (*path, "static")
    hosts = [where.host for where in map(address, model.static or ()) if where is not None]
    if not hosts:
        yield Finding(
            key, str(port), "it needs static, the addresses of engines that publish there", (key, static)
        )
    elif len(set(hosts)) < len(hosts):
        message = "every address in static must then have a host of its own, for all publish at this port"
        yield Finding(key, str(port), message, (key, static))


def _scaling(path: KeyPath, model: ModelKeys) -> Iterator[Finding]:
    scaling = model.scaling
    least, most = (*path, "scaling", "min_replicas"), (*path, "scaling", "max_replicas")
    top = scaling.max_replicas
    if model.static is not None and "max_replicas" not in scaling.model_fields_set:
        return
    if scaling.min_replicas > top:
        message = f"it must be at most max_replicas, which is {top}"
        yield Finding(least, str(scaling.min_replicas), message, (least, most))


def _thresholds(path: KeyPath, model: ModelKeys) -> Iterator[Finding]:
    where, law = (*path, "scaling", "thresholds"), model.scaling.thresholds
    policy = (*path, "scaling", "policy")
    if model.scaling.policy != ScalingPolicy.THRESHOLDS.value:
        if law.model_fields_set:
            message = (
                f"has no meaning with policy {model.scaling.policy}; set policy: thresholds or leave it out"
            )
            yield Finding(where, None, message, (policy,))
        return
    for what in ("queue_depth", "gpu_utilization"):
        low, high = getattr(law, f"min_{what}"), getattr(law, f"max_{what}")
        if low >= high:
            key, other = (*where, f"min_{what}"), (*where, f"max_{what}")
            message = f"it must be below max_{what}, which is {high:g}"
            yield Finding(key, f"{low:g}", message, (key, other))


def _times(path: KeyPath, model: ModelKeys) -> Iterator[Finding]:
    first, longest = model.restarts.backoff_first_s, model.restarts.backoff_max_s
    if first > longest:
        key, other = (*path, "restarts", "backoff_first"), (*path, "restarts", "backoff_max")
        message = f"it must be at most backoff_max, which is {units.format_duration(longest)}"
        yield Finding(key, units.format_duration(first), message, (key, other))
    expected, deadline = model.expected_start_s, model.start_deadline_s
    if expected is not None and expected > deadline:
        key, other = (*path, "expected_start"), (*path, "start_deadline")
        message = f"it must be at most start_deadline, which is {units.format_duration(deadline)}"
        yield Finding(key, units.format_duration(expected), message, (key, other))


def _pool(path: KeyPath, model: ModelKeys) -> Iterator[Finding]:
    pool = model.pool
    least, most = (*path, "pool", "min_warm"), (*path, "pool", "max_warm")
    if pool.min_warm > pool.max_warm:
        message = f"it must be at most max_warm, which is {pool.max_warm}"
        yield Finding(least, str(pool.min_warm), message, (least, most))
    if pool.max_sleeping and not sleeps(model.engine):
        key, engine = (*path, "pool", "max_sleeping"), (*path, "engine")
        message = f"it must be 0 with engine {model.engine}, which cannot sleep"
        yield Finding(key, str(pool.max_sleeping), message, (key, engine))
    if model.static is not None and (pool.max_warm or pool.max_sleeping):
        where = (*path, "pool")
        message = "cannot stand together with static, an engine that someone else runs; leave one out"
        yield Finding(where, None, message, (where, (*path, "static")))


_SAME_IN_A_GROUP = (
    "engine",
    "weights",
    "slots",
    "context_tokens",
    "extra_args",
    "env",
    "command",
    "lora",
    "gpus",
    "kind",
    "memory_bytes",
)


def group_findings(models: Mapping[str, ModelKeys]) -> Iterator[Finding]:
    """Models that share a pool but are not started alike."""
    first: dict[str, str] = {}
    for name, model in models.items():
        group = model.pool.group
        if not group:
            continue
        other = first.setdefault(group, name)
        for attribute in _SAME_IN_A_GROUP:
            if getattr(model, attribute) != getattr(models[other], attribute):
                key = ModelKeys.model_fields[attribute].alias or attribute
                where = ("models", name, "pool", "group")
                message = f"{key} must be the same as that of {other}, with which it shares its replicas"
                yield Finding(where, group, message, (where, ("models", name, key), ("models", other, key)))


def _caps(path: KeyPath, model: ModelKeys, fleet: Fleet) -> Iterator[Finding]:
    """A model of which not even one replica could ever be started."""
    gpus, price, cap = (*path, "gpus"), (*path, "price"), ("fleet", "max_gpus")
    listed = ("fleet", "nodes" if fleet.nodes else "gpus")
    most = max((len(node.gpus) for node in nodes_of(fleet)), default=0)
    if model.static is None and model.gpus > most:
        what = "GPUs of the largest of fleet.nodes" if fleet.nodes else "devices in fleet.gpus"
        yield Finding(
            gpus, str(model.gpus), f"it must be at most {most}, the number of {what}", (gpus, listed)
        )
    elif model.static is None:
        yield from _misfits(path, model, fleet, listed)
    if fleet.max_gpus is not None and model.gpus > fleet.max_gpus:
        message = f"it must be at most fleet.max_gpus, which is {fleet.max_gpus}"
        yield Finding(gpus, str(model.gpus), message, (gpus, cap))
    if fleet.max_cost_per_h is not None and model.price_per_h > fleet.max_cost_per_h:
        message = f"it must be at most fleet.max_cost, which is {units.format_money(fleet.max_cost_per_h)}"
        yield Finding(price, units.format_money(model.price_per_h), message, (price, ("fleet", "max_cost")))


def _misfits(path: KeyPath, model: ModelKeys, fleet: Fleet, listed: KeyPath) -> Iterator[Finding]:
    """There are GPUs enough, but too few of the kind, or with the memory, that one replica needs."""
    gpus, kind, memory = (*path, "gpus"), (*path, "kind"), (*path, "memory")
    where = "on one of fleet.nodes" if fleet.nodes else "in fleet.gpus"
    anyway = model.model_copy(update={"memory_bytes": None})
    alike = max((fitting(node, anyway) for node in nodes_of(fleet)), default=0)
    roomy = max((fitting(node, model) for node in nodes_of(fleet)), default=0)
    if model.kind is not None and alike < max(1, model.gpus):
        message = f"{alike} devices {where} are of that kind, and a replica needs {model.gpus}"
        yield Finding(kind, model.kind, message, (kind, gpus, listed))
    elif model.memory_bytes is not None and roomy < model.gpus:
        message = f"{roomy} devices {where} have so much memory, and a replica needs {model.gpus}"
        yield Finding(memory, units.format_size(model.memory_bytes), message, (memory, gpus, kind, listed))
