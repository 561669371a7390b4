"""From a checked policy to the frozen settings."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from tidegate.config import weights
from tidegate.config.dispatch_keys import ShiftKeys
from tidegate.config.model_settings import model_settings
from tidegate.config.nodes import nodes_of, priced
from tidegate.config.schema import Policy
from tidegate.config.section import values_of
from tidegate.config.settings import Client, GatewaySettings, Settings
from tidegate.config.shell_keys import JOURNAL_MAX_BYTES, Gateway
from tidegate.config.weights_keys import Weights
from tidegate.core.settings import ALL_QUEUES, FleetLimits, TrafficShift
from tidegate.core.types import FlowId, ModelId
from tidegate.weights.settings import WeightsSettings


def built(policy: Policy, base: Path) -> Settings:
    """The settings that a policy without problems means. Relative paths start at ``base``."""
    fleet, journal = policy.fleet, policy.journal
    state_dir = (
        weights.resolved(fleet.state_dir, base)
        if fleet.state_dir
        else _user_dir("XDG_STATE_HOME", ".local/state")
    )
    journal_dir = None
    if journal is not None:
        journal_dir = weights.resolved(journal.dir, base) if journal.dir else state_dir / "journal"
    models = {
        ModelId(name): model_settings(name, priced(fleet, model), base, fleet)
        for name, model in policy.models.items()
    }
    limits = FleetLimits(
        **values_of(fleet, "gpus", "nodes", "state_dir", "timezone", "manual", "manual_for_s")
    )
    return Settings(
        gateway=_gateway(policy.gateway),
        models=MappingProxyType(models),
        limits=limits,
        state_dir=state_dir,
        weights=_weights(policy.weights, base),
        journal_dir=journal_dir,
        journal_max_bytes=JOURNAL_MAX_BYTES if journal is None else journal.max_bytes,
        gpus=tuple(fleet.gpus),
        nodes=nodes_of(fleet),
        queues=replace(ALL_QUEUES, **values_of(policy.gateway.queues)),
        timezone=fleet.timezone,
        manual=fleet.manual,
        manual_for_s=fleet.manual_for_s,
        shifts=MappingProxyType({ModelId(name): _shift(shift) for name, shift in policy.shifts.items()}),
    )


def _weights(section: Weights, base: Path) -> WeightsSettings:
    folder = default_weights().cache_dir
    if section.cache_dir:
        folder = weights.resolved(section.cache_dir, base)
    return WeightsSettings(cache_dir=folder, **values_of(section, "cache_dir"))


def default_weights() -> WeightsSettings:
    """How weights are kept where no policy says it."""
    return WeightsSettings(_user_dir("XDG_CACHE_HOME", ".cache") / "weights")


def _user_dir(variable: str, otherwise: str) -> Path:
    """Where programs keep what must outlive them, or can be had again, by the desktop's convention."""
    configured = os.environ.get(variable, "")
    # The convention: a relative path there is invalid and to be ignored.
    return (Path(configured) if configured.startswith("/") else Path.home() / otherwise) / "tidegate"


def _gateway(section: Gateway) -> GatewaySettings:
    keys = {
        key.sha256.lower(): Client(FlowId(key.name), key.priority, key.weight, key.may_spill)
        for key in section.keys
    }
    return GatewaySettings(keys=MappingProxyType(keys), **values_of(section, "keys", "queues"))


def _shift(section: ShiftKeys) -> TrafficShift:
    return TrafficShift(versions=tuple(section.versions.items()), **values_of(section, "versions"))
