"""The worked case of routing by tokens comes out exactly."""

import json
from pathlib import Path

import pytest

from tidegate.core.dispatch import Dispatcher
from tidegate.core.events import ModelsConfigured, ReportDue, RequestArrived, RouteTableChanged
from tidegate.core.lifecycle import State
from tidegate.core.settings import DispatchConfig, Routing
from tidegate.core.types import Address, ModelRoute, Route, RouteTable

CASE = json.loads(Path(__file__).with_name("worked_cases.json").read_text())["routing_by_tokens"]


@pytest.mark.parametrize(
    "routing", [routing for routing in Routing if routing.value in CASE], ids=lambda routing: routing.value
)
def test_loads_after_one_long_and_eleven_short_requests(routing):
    dispatcher = Dispatcher()
    dispatcher.on(ModelsConfigured({"m": DispatchConfig(routing=routing)}), 0.0)
    routes = tuple(
        Route(f"m-{n}", "m", State.SERVING, Address("h", n), slots=100, engine="openai")
        for n in range(CASE["replicas"])
    )
    dispatcher.on(RouteTableChanged(RouteTable(1, (ModelRoute("m", True),), routes)), 0.0)

    for n, tokens in enumerate(CASE["prompt_tokens"]):
        dispatcher.on(RequestArrived(f"r{n}", "m", tokens, None, 4 * tokens, 600.0), float(n))

    (report,) = dispatcher.on(ReportDue(), 20.0)
    assert [load.tokens for load in report.report.replicas] == CASE[routing.value]["loads"]
