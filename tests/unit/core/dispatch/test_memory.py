"""What a gateway has learned of engines outlives it: the next one predicts with it from its first request on."""

import msgspec
import pytest

from tidegate.core.capacity import Kind
from tidegate.core.dispatch import Dispatcher
from tidegate.core.events import CapacitiesRestored, ModelsConfigured, ReportDue, RouteTableChanged
from tidegate.core.lifecycle import State
from tidegate.core.settings import DispatchConfig
from tidegate.core.types import Address, ModelId, ModelRoute, ReplicaId, Route, RouteTable

M, N = ModelId("m"), ModelId("n")


def gateway(restored=None, models=(M,)):
    brain = Dispatcher()
    if restored is not None:
        brain.on(restored, 0.0)
    brain.on(ModelsConfigured(dict.fromkeys(models, DispatchConfig())), 0.0)
    route = Route(ReplicaId("m-1"), M, State.SERVING, Address("h", 1), 8, "vllm")
    brain.on(RouteTableChanged(RouteTable(1, (ModelRoute(M, can_serve=True),), (route,))), 0.0)
    return brain


def taught():
    """Prompts take twice as long as the prior says."""
    brain = gateway(models=(M, N))
    for model in (M, N):
        capacity = brain._floor.shared.capacities.of(Kind(model, "vllm"))
        for number in range(60):
            new = 500.0 * (1 + number % 4)
            capacity.learn_prefill(float(number), 1, new, new * new / 2, 0.02 + 0.00016 * new)
    return brain


def restored(brain):
    known = CapacitiesRestored(brain.remember())
    return msgspec.json.decode(msgspec.json.encode(known), type=CapacitiesRestored)


def test_the_next_gateway_predicts_with_what_was_learned_and_tells_the_controller_at_once():
    before = taught()
    after = gateway(restored(before))

    (report,) = after.on(ReportDue(), 1.0)
    (figures,) = [figures for figures in report.report.capacities if figures.model == M]
    capacity = after._floor.shared.capacities.of(Kind(M, "vllm"))
    assert figures.prefill_samples == 60
    assert capacity.prefill_s(1_000, 0) == pytest.approx(0.18, rel=0.1)
    assert gateway()._floor.shared.capacities.of(Kind(M, "vllm")).prefill_s(1_000, 0) < 0.12


def test_what_is_known_of_models_that_are_gone_is_not_written_down_for_ever():
    after = gateway(restored(taught()))

    assert [known.model for known in after.remember()] == [M]


def test_nothing_learned_is_nothing_to_remember():
    assert gateway().remember() == ()
