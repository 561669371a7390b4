"""What must hold between several keys of a policy file.

Each rule yields findings; one that rests on a key whose own value was wrong is dropped, since it
would only confuse.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tidegate.config import units
from tidegate.config.addresses import address, one_spelling
from tidegate.config.document import Document
from tidegate.config.finding import Finding
from tidegate.config.hosts import is_loopback
from tidegate.config.model_keys import ModelKeys
from tidegate.config.model_rules import model_findings
from tidegate.config.pool_rules import group_findings
from tidegate.config.problems import KeyPath, Problem, dotted
from tidegate.config.schema import Policy
from tidegate.config.weights_rules import folder_findings
from tidegate.core.types import Address


@dataclass(frozen=True, slots=True)
class _Listener:
    """Something of ours that will listen."""

    path: KeyPath
    host: str
    port: int


def broken_rules(policy: Policy, base: Path, document: Document, left_out: set[KeyPath]) -> list[Problem]:
    """Every rule that the policy breaks. ``left_out`` are places whose values were wrong by themselves."""
    problems = []
    for finding in _findings(policy, base):
        if any(_touches(path, gone) for path in finding.rests_on for gone in left_out):
            continue
        line = document.line(finding.path)
        problems.append(Problem(dotted(finding.path), finding.value, finding.message, line))
    return problems


def _touches(path: KeyPath, gone: KeyPath) -> bool:
    shared = min(len(path), len(gone))
    return path[:shared] == gone[:shared]


def _findings(policy: Policy, base: Path) -> Iterator[Finding]:
    yield from _listening(policy)
    yield from _gateway_times(policy)
    yield from folder_findings(_folders(policy), base)
    yield from _api_keys(policy)
    yield from _devices(policy)
    yield from _timezone(policy)
    yield from _shared_addresses(policy)
    yield from _own_addresses(policy)
    yield from _shared_names(policy)
    yield from _shifts(policy)
    if not policy.models:
        yield Finding(("models",), None, "is missing or empty; a policy needs at least one model")
    for name, model in policy.models.items():
        yield from model_findings(name, model, policy.fleet, policy.weights, base)
    yield from group_findings(policy.models)


def _listening(policy: Policy) -> Iterator[Finding]:
    gateway = policy.gateway
    if not gateway.keys and not is_loopback(gateway.host):
        yield Finding(
            ("gateway", "host"),
            gateway.host,
            "Tidegate refuses to bind elsewhere than loopback without a key; add gateway.keys or use 127.0.0.1",
            rests_on=(("gateway", "host"), ("gateway", "keys")),
        )
    if not is_loopback(gateway.admin_host):
        yield Finding(
            ("gateway", "admin_host"),
            gateway.admin_host,
            "the admin pages ask for no key, so they are served on loopback only; use 127.0.0.1, and a proxy with "
            "a password for anybody else",
        )
    client, admin = _listeners(policy)
    if client.port == admin.port != 0 and _overlap(client.host, admin.host):
        message = f"it must differ from gateway.port, which is {client.port} too"
        yield Finding(admin.path, str(admin.port), message, rests_on=(client.path, admin.path))


def _gateway_times(policy: Policy) -> Iterator[Finding]:
    gateway = policy.gateway
    if "first_byte_timeout_s" not in gateway.model_fields_set:
        # A short request_timeout alone is no mistake: it ends what the other would have waited for.
        return
    if gateway.first_byte_timeout_s > gateway.request_timeout_s:
        key, other = ("gateway", "first_byte_timeout"), ("gateway", "request_timeout")
        message = (
            f"it must be at most request_timeout, which is {units.format_duration(gateway.request_timeout_s)}"
        )
        yield Finding(key, units.format_duration(gateway.first_byte_timeout_s), message, (key, other))


def _folders(policy: Policy) -> dict[KeyPath, str | None]:
    journal = policy.journal
    return {
        ("fleet", "state_dir"): policy.fleet.state_dir,
        ("journal", "dir"): None if journal is None else journal.dir,
        ("weights", "cache_dir"): policy.weights.cache_dir,
    }


def _listeners(policy: Policy) -> tuple[_Listener, _Listener]:
    gateway = policy.gateway
    return (
        _Listener(("gateway", "port"), gateway.host, gateway.port),
        _Listener(("gateway", "admin_port"), gateway.admin_host, gateway.admin_port),
    )


def _overlap(one: str, other: str) -> bool:
    """Whether listening on both could clash: the same, or one of them is every address."""
    everywhere = {"0.0.0.0", "::"}  # noqa: S104
    same = one == other or (is_loopback(one) and is_loopback(other))
    return same or bool({one, other} & everywhere)


def _api_keys(policy: Policy) -> Iterator[Finding]:
    first: dict[str, int] = {}
    for place, key in enumerate(policy.gateway.keys):
        earlier = first.setdefault(key.sha256.lower(), place)
        if earlier != place:
            path = ("gateway", "keys", place, "sha256")
            yield Finding(path, "(hidden)", f"gateway.keys[{earlier}] has it already; each key stands once")


def _devices(policy: Policy) -> Iterator[Finding]:
    for number, count in Counter(device.index for device in policy.fleet.gpus).items():
        if count > 1:
            message = f"names device {number} {count} times; each stands once"
            yield Finding(("fleet", "gpus"), None, message)
    if policy.fleet.gpus and policy.fleet.nodes:
        nodes, gpus = ("fleet", "nodes"), ("fleet", "gpus")
        yield Finding(nodes, None, "cannot stand together with fleet.gpus; leave one out", (nodes, gpus))


def _timezone(policy: Policy) -> Iterator[Finding]:
    zone = policy.fleet.timezone
    try:
        ZoneInfo(zone)
    except (OSError, ValueError, ZoneInfoNotFoundError):
        yield Finding(("fleet", "timezone"), zone, "no time zone of this name is known on this machine")


def _shared_addresses(policy: Policy) -> Iterator[Finding]:
    owners: dict[Address, KeyPath] = {}
    for name, model in policy.models.items():
        for path, written in _addresses(("models", name), model):
            where = address(written)
            if where is None:
                continue
            owner = owners.setdefault(one_spelling(where), path)
            if owner != path:
                yield Finding(path, written, f"{dotted(owner)} has this address already", (path, owner))


def _own_addresses(policy: Policy) -> Iterator[Finding]:
    """What is sent to ourselves comes back for ever, engines' requests and spilt ones alike."""
    for name, model in policy.models.items():
        written_by = list(_addresses(("models", name), model))
        if model.spill is not None:
            written_by.append((("models", name, "spill", "address"), model.spill.address))
        for path, written in written_by:
            where = address(written)
            if where is None:
                continue
            for own in _listeners(policy):
                if own.port == where.port != 0 and _overlap(own.host, where.host):
                    message = f"Tidegate itself listens there ({dotted(own.path)})"
                    yield Finding(path, written, message, (path, own.path))


def _addresses(path: KeyPath, model: ModelKeys) -> Iterator[tuple[KeyPath, str]]:
    """Every address of a model, with its place in the file."""
    for place, written in enumerate(model.static or ()):
        yield (*path, "static", place), written
    for name, variant in model.variants.items():
        for place, written in enumerate(variant.static or ()):
            yield (*path, "variants", name, "static", place), written


def _shared_names(policy: Policy) -> Iterator[Finding]:
    for name, model in policy.models.items():
        for adapter in model.lora:
            if f"{name}:{adapter}" in policy.models:
                message = f"answers to {name}:{adapter}, which is another model's name"
                yield Finding(("models", name, "lora", adapter), None, message)


def _shifts(policy: Policy) -> Iterator[Finding]:
    for name, shift in policy.shifts.items():
        path: KeyPath = ("shifts", name)
        if name in policy.models:
            yield Finding(path, None, "is a model's name; clients ask for a name that the versions share")
        if not any(shift.versions.values()):
            yield Finding((*path, "versions"), None, "must give at least one model a weight above 0")
        for version in shift.versions:
            if version not in policy.models:
                message = "is not one of the models"
                yield Finding((*path, "versions", version), None, message, ((*path, "versions"), ("models",)))
