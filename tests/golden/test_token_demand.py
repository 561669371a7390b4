"""The worked case of token demand: capacity follows tokens, not requests."""

import json
from pathlib import Path

from tidegate.core.capacity import Capacity
from tidegate.core.types import CapacityFigures
from unit.core.fleet.rivals.told import law, steady

CASE = json.loads(Path(__file__).with_name("worked_cases.json").read_text())["token_demand"]
ONE_STEP = Capacity.told(CapacityFigures("m", "engine", "", (0.0, 0.0, 0.0), (0.02, 0.004, 0.0), 9, 9))
"""60 ms for a step of ten sequences, whatever they hold; prompts cost nothing."""


def replicas_for(requests, output_tokens):
    """For so many requests in ten seconds, when replicas are planned to be full."""
    traffic = steady(per_s=requests / 10.0, in_flight=1, prompt=10, output=output_tokens)
    seen = traffic.seen(1, capacity=ONE_STEP)
    return law("tokens", 1, utilization=1.0).propose(seen, traffic.now_s).asked


def test_a_hundred_long_generations_need_ten_times_the_replicas_of_a_hundred_short_ones():
    short, long = replicas_for(**CASE["short"]), replicas_for(**CASE["long"])

    assert short == 6
    assert long == CASE["ratio_of_decode_demand"] * short
