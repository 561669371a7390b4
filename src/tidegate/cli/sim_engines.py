"""What simulated engines are like: whose speed they have, what fits into them, how long their starts take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import click

from tidegate.config.settings import ModelSettings
from tidegate.core.settings import FleetModel
from tidegate.core.types import ModelId
from tidegate.engine.catalogue import PROFILES, Profile
from tidegate.engine.coldstart import ColdStart
from tidegate.engine.sequence import Limits
from tidegate.sim.scenario import ModelSetup
from tidegate.workload.traces import Trace

DEFAULT_PROFILE = "llama-3.1-8b-h100x1"
DEFAULT_COLD_START_S = 100.0
"""What llm-d measures for an ordinary start of a pod, with the compilation cached."""


def setup_of(
    found: ModelSettings, fleet: FleetModel, asked: str | None, start: ColdStart | None, trace: Trace
) -> ModelSetup:
    """One model and its variants. ``asked`` is the profile that was named for all models, ``start`` the cold start.

    Raises:
        click.UsageError: a profile is not known, or a variant has none.
    """
    profile = profile_for(found.model, asked or found.profile)

    def made(own: FleetModel, its: Profile) -> ModelSetup:
        return ModelSetup(
            dispatch=found.dispatch,
            fleet=own,
            limits=limits_for(its, own.slots, trace),
            law=its.law,
            cold_start=_cold_start(found.model, its, own, start),
            silent_after_s=found.silent_after_s,
        )

    variants = {
        variant.name: made(
            fleet.as_variant(variant),
            _profile_of_variant(variant.name, found.variants[variant.name], profile),
        )
        for variant in fleet.variants
    }
    return replace(made(fleet, profile), variants=variants)


def _profile_of_variant(name: str, found: ModelSettings, own: Profile) -> Profile:
    """The one that the file says; else the catalogue's for the same model on such GPUs."""
    if found.profile is not None:
        return PROFILES[found.profile]
    fleet = found.fleet
    for each in PROFILES.values():
        if (each.model, each.gpu, each.gpus) == (own.model, fleet.kind, fleet.gpus):
            return each
    message = (
        f"models.{found.model}.variants.{name} needs profile: the catalogue has no {own.model} on "
        f"{fleet.gpus} GPUs of kind {fleet.kind or '?'}"
    )
    raise click.UsageError(message)


def _cold_start(model: ModelId, profile: Profile, fleet: FleetModel, start: ColdStart | None) -> ColdStart:
    """As wished; else as long as the policy expects. What is compiled is compiled for this model and GPU."""
    if start is None:
        expected_s = fleet.expected_start_s
        start = ColdStart.lasting(DEFAULT_COLD_START_S if expected_s is None else expected_s)
    build = None if start.build is None else replace(start.build, gpu=profile.gpu, model=model)
    return replace(start, build=build)


def limits_for(profile: Profile, slots: int, trace: Trace) -> Limits:
    """The engine as it would be started with so many slots.

    When the trace says which prompts share prefixes, blocks are as large as those that it names.
    """
    limits = replace(profile.limits, max_sequences=slots)
    if limits.max_step_tokens < slots:
        limits = replace(limits, max_step_tokens=slots)
    if trace.prefixes is None:
        return limits
    blocks = limits.kv_blocks * limits.block_tokens // trace.block_tokens
    return replace(limits, kv_blocks=max(1, blocks), block_tokens=trace.block_tokens)


def profile_for(model: ModelId, asked: str | None, known: Mapping[str, Profile] = PROFILES) -> Profile:
    """The one that was asked for; else the catalogue's first for a model of this name; else the default."""
    if asked is not None:
        if asked not in known:
            message = f"--profile {asked}: known are {', '.join(sorted(known))}"
            raise click.UsageError(message)
        return known[asked]
    fitting = [profile for profile in known.values() if profile.model == model.lower()]
    return fitting[0] if fitting else known[DEFAULT_PROFILE]
