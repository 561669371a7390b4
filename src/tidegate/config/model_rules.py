"""What must hold between the keys of one model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tidegate.config import units
from tidegate.config.addresses import address
from tidegate.config.command_rules import command_findings
from tidegate.config.engines import EMULATED, OPENAI
from tidegate.config.finding import Finding
from tidegate.config.model_keys import ModelKeys
from tidegate.config.pool_rules import pool_findings, pool_price_findings
from tidegate.config.problems import KeyPath
from tidegate.config.scaling_rules import scaling_findings
from tidegate.config.shell_keys import Fleet
from tidegate.config.size_rules import size_findings
from tidegate.config.spill_rules import spill_findings
from tidegate.config.variant_rules import addresses_of, variant_findings
from tidegate.config.weights_keys import Weights
from tidegate.config.weights_rules import weights_findings

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
    yield from command_findings(path, model)
    yield from _static(path, model)
    yield from variant_findings(path, model, lambda where, one: _of_each_variant(where, one, fleet))
    yield from _kv_events(path, model)
    yield from scaling_findings(path, model)
    yield from _times(path, model)
    yield from spill_findings(path, model)
    yield from pool_findings(path, model)
    yield from pool_price_findings(path, model)
    yield from size_findings(path, model, fleet)


def _of_each_variant(path: KeyPath, model: ModelKeys, fleet: Fleet) -> Iterator[Finding]:
    yield from command_findings(path, model)
    yield from _addresses(path, model)
    yield from _only_when_started(path, model)
    yield from _times(path, model)
    yield from pool_price_findings(path, model)
    yield from size_findings(path, model, fleet)


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
