"""Small worlds to simulate: a few settings in the words of the stories, the rest as in the product.

All but the law: unless a story names another, replicas follow concurrency, whose numbers are plain to see.
"""

from array import array
from dataclasses import replace

from tidegate.core.scaling_settings import Scaling, ScalingPolicy
from tidegate.core.settings import NO_POOL, DispatchConfig, FleetLimits, FleetModel, QueueLimits, Variant
from tidegate.core.types import ModelId
from tidegate.engine.catalogue import profile
from tidegate.engine.coldstart import ColdStart
from tidegate.engine.latency import LinearLaw
from tidegate.engine.sequence import Limits
from tidegate.sim.faults import Fault
from tidegate.sim.scenario import Machines, ModelSetup, Scenario, Scraping, Slo
from tidegate.sim.summary import summarize
from tidegate.sim.world import simulate
from tidegate.workload.traces import Trace

M = ModelId("m")

CLOCKWORK = LinearLaw(a=1, b=0, c=0, d=1, e=0, f=0)
"""Every step takes a millisecond, so an answer takes as many as it has tokens."""

GPU = LinearLaw(a=6.37, b=0.0110, c=0.0415, d=5.47, e=15.6, f=0.78)
"""Llama 3.1 8B on an H100."""


def trace_of(rows):
    """Rows of (moment, prompt tokens, output tokens), in order."""
    trace = Trace()
    trace.arrived_s = array("d", [row[0] for row in rows])
    trace.prompt_tokens = array("i", [row[1] for row in rows])
    trace.output_tokens = array("i", [row[2] for row in rows])
    return trace


def steady(rate, span_s, prompt=500, output=100, from_s=0.0):
    """Requests at equal distances."""
    return [(from_s + number / rate, prompt, output) for number in range(round(rate * span_s))]


def world(
    *,
    law=GPU,
    slots=16,
    cold_s=30.0,
    expected_s=None,
    sigma=0.0,
    faults=(),
    limits=None,
    fleet=None,
    queue=None,
    machines=None,
    scraping=None,
    settle_s=0.0,
    running=None,
    timeout_s=600.0,
    gpus=0,
    price=0.0,
    start_deadline_s=600.0,
    drain_deadline_s=120.0,
    slo=None,
    resume=False,
    spill=None,
    **scaling,
):
    scaling.setdefault("max_replicas", 4)
    scaling.setdefault("policy", ScalingPolicy.CONCURRENCY)
    if (target := scaling.setdefault("concurrency_target", 8)) is not None:
        scaling["concurrency_target"] = float(target)
    setup = ModelSetup(
        dispatch=DispatchConfig(queue=queue or QueueLimits(), resume=resume, spill=spill),
        fleet=FleetModel(
            "emulated",
            slots=slots,
            scaling=Scaling(**scaling),
            gpus=gpus,
            price_per_h=price,
            start_deadline_s=start_deadline_s,
            drain_deadline_s=drain_deadline_s,
            expected_start_s=expected_s,
        ),
        limits=limits or Limits(max_sequences=slots, max_step_tokens=2048, kv_blocks=16_384),
        law=law,
        cold_start=ColdStart(engine_start_s=cold_s, sigma=sigma),
        running=running,
    )
    return Scenario(
        models={M: setup},
        fleet=fleet or FleetLimits(),
        slo=slo or Slo(),
        machines=machines or Machines(),
        scraping=scraping or Scraping(),
        faults=tuple(Fault.parse(text) for text in faults),
        settle_s=settle_s,
        request_timeout_s=timeout_s,
    )


LARGE, SMALL = "llama-3.1-8b-h100x1", "llama-3.1-8b-l40sx1"


def mixed(
    *,
    large=None,
    small=None,
    slots=(64, 16),
    price=(4.0, 1.2),
    cold_s=60.0,
    pool=NO_POOL,
    wake_s=4.0,
    slo=None,
    **scaling,
):
    """One model on large GPUs and on small ones, of which none runs. ``large`` and ``small``: at most so many of each."""
    variant = Variant(
        "small", slots[1], 1, "l40s", price_per_h=price[1], expected_start_s=cold_s, max_replicas=small
    )
    own = FleetModel(
        "emulated",
        slots=slots[0],
        gpus=1,
        kind="h100",
        price_per_h=price[0],
        expected_start_s=cold_s,
        scaling=Scaling(**scaling),
        variants=(variant,),
        own_max_replicas=large,
        pool=pool,
    )

    def setup_of(fleet, name):
        known = profile(name)
        return ModelSetup(
            dispatch=DispatchConfig(queue=QueueLimits(max_requests=100_000, max_tokens=10**9)),
            fleet=fleet,
            limits=replace(known.limits, max_sequences=fleet.slots),
            law=known.law,
            cold_start=ColdStart(engine_start_s=cold_s, wake_s=wake_s, sleep_s=1.0),
            running=0,
        )

    setup = replace(setup_of(own, LARGE), variants={variant.name: setup_of(own.as_variant(variant), SMALL)})
    return Scenario(models={M: setup}, fleet=FleetLimits(max_starts_per_hour=10_000), slo=slo or Slo())


def run(rows, scenario, seed=1, journal=None):
    """The run and its figures."""
    done = simulate(trace_of(rows), scenario, seed, journal)
    return done, summarize(done)


class Notes:
    """A journal that is kept in memory."""

    def __init__(self):
        self.turns = []

    def turn(self, brain, now_s, event, effects):
        self.turns.append((brain, now_s, event, list(effects)))
