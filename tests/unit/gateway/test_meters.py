from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tidegate.core.effects import Record
from tidegate.core.outcomes import Outcome
from tidegate.core.types import DEFAULT_FLOW, ModelId, ReplicaId, RequestId
from tidegate.gateway.meters import Meters


def record(model="m", outcome=Outcome.COMPLETED, ttft_s=0.02, output_tokens=5):
    return Record(
        RequestId("r"),
        ModelId(model),
        DEFAULT_FLOW,
        outcome,
        ReplicaId("x"),
        1,
        0.0,
        ttft_s,
        0.3,
        7,
        output_tokens,
    )


def samples(meters):
    registry = CollectorRegistry()
    registry.register(meters)
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return {(s.name, *sorted(s.labels.items())): s.value for family in families for s in family.samples}


def test_requests_are_counted_by_how_they_ended():
    meters = Meters(lambda: ["m"])
    for outcome in (Outcome.COMPLETED, Outcome.COMPLETED, Outcome.CLIENT_GONE):
        meters.record(record(outcome=outcome))
    page = samples(meters)
    assert page["tidegate_requests_total", ("model", "m"), ("outcome", "completed")] == 2
    assert page["tidegate_requests_total", ("model", "m"), ("outcome", "client_gone")] == 1
    assert page["tidegate_output_tokens_total", ("model", "m")] == 10
    assert page["tidegate_prompt_tokens_total", ("model", "m")] == 14
    assert page["tidegate_ttft_seconds_count", ("model", "m")] == 3
    assert page["tidegate_e2e_seconds_sum", ("model", "m")] == pytest.approx(0.6)
    assert meters.requests("m", Outcome.COMPLETED) == 2


def test_how_often_requests_gave_way_is_counted_however_they_ended():
    meters = Meters(lambda: ["m"])
    for outcome, yields in ((Outcome.COMPLETED, 2), (Outcome.CLIENT_GONE, 1), (Outcome.COMPLETED, 0)):
        meters.record(replace(record(outcome=outcome), yields=yields))

    assert samples(meters)["tidegate_yields_total", ("model", "m")] == 3


def test_what_engines_said_is_counted():
    meters = Meters(lambda: ["m"])
    meters.record(replace(record(), status=200, cached_tokens=4))
    meters.record(replace(record(), status=200, cached_tokens=2))
    meters.record(replace(record(outcome=Outcome.FAILED_ENGINE), status=503))
    meters.record(record(outcome=Outcome.FAILED_ENGINE))
    page = samples(meters)
    assert page["tidegate_cached_tokens_total", ("model", "m")] == 6
    assert page["tidegate_engine_statuses_total", ("model", "m"), ("status", "200")] == 2
    assert page["tidegate_engine_statuses_total", ("model", "m"), ("status", "503")] == 1


def test_names_that_are_not_configured_share_one_series():
    meters = Meters(lambda: ["m"])
    for number in range(1000):
        meters.record(record(model=f"random-{number}", outcome=Outcome.REJECTED_UNKNOWN_MODEL, ttft_s=None))
    page = samples(meters)
    assert page["tidegate_requests_total", ("model", "other"), ("outcome", "rejected_unknown_model")] == 1000
    assert len(page) < 200


def test_a_model_that_is_added_later_gets_its_series():
    names = []
    meters = Meters(lambda: names)
    meters.record(record("late"))
    names.append("late")
    meters.record(record("late"))
    assert meters.requests("late", Outcome.COMPLETED) == meters.requests("other", Outcome.COMPLETED) == 1


def test_refusals_are_counted_by_reason():
    meters = Meters(list)
    meters.refused(Outcome.REJECTED_INVALID, "malformed_http")
    meters.open_connections = lambda: 3
    page = samples(meters)
    assert page["tidegate_refusals_total", ("reason", "malformed_http")] == 1
    assert page["tidegate_open_connections",] == 3
    assert meters.refusals("malformed_http") == 1
