"""Fleets that the scenarios are about: one model on engines of the catalogue, scaled by a law."""

from __future__ import annotations

from dataclasses import replace

from tidegate.core.scaling_settings import Scaling
from tidegate.core.settings import DispatchConfig, FleetLimits, FleetModel, QueueLimits
from tidegate.core.types import ModelId
from tidegate.engine.catalogue import profile
from tidegate.engine.coldstart import ColdStart
from tidegate.sim.scenario import ModelSetup, Scenario, Scraping, Slo

MODEL = ModelId("model")


def fleet(
    scaling: Scaling,
    *,
    name: str = "llama-3.1-70b-h100x4",
    slots: int = 64,
    cold_start_s: float = 100.0,
    slo: Slo | None = None,
    scraping: Scraping | None = None,
    running: int | None = None,
) -> Scenario:
    """One model on such engines. The queue is long: what a law lets wait is late, and not turned away."""
    known = profile(name)
    setup = ModelSetup(
        dispatch=DispatchConfig(queue=QueueLimits(max_requests=100_000, max_tokens=10**9)),
        fleet=FleetModel(
            "emulated",
            slots=slots,
            scaling=scaling,
            gpus=known.gpus,
            price_per_h=2.5 * known.gpus,
            expected_start_s=cold_start_s,
        ),
        limits=replace(known.limits, max_sequences=slots),
        law=known.law,
        cold_start=ColdStart(engine_start_s=cold_start_s),
        running=running,
    )
    return Scenario(
        models={MODEL: setup},
        fleet=FleetLimits(max_starts_per_hour=10_000),
        slo=slo or Slo(),
        scraping=scraping or Scraping(),
    )
