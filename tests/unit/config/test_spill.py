"""A model's pay-per-token upstream in a policy file, and its key in the environment."""

import pytest

from tidegate.config import PolicyError, parse, render
from tidegate.config.settings import SpillUpstream
from tidegate.config.spill_rules import require_keys
from tidegate.core.settings import SpillBounds

POLICY = """
models:
  m:
    engine: vllm
    weights: org/model
    spill:
      address: https://api.example.com/v1
      model: provider/model
      key_env: SPILL_API_KEY
      prompt_price: 0.10/M
      output_price: 0.40/M
"""
MORE = (
    POLICY
    + """
      max_cost: 5/h
      max_in_flight: 8
      from_priority: 2
      max_wait: 20s
      output_tokens: 500
      ttft: 700ms
      tpot: 15ms
"""
)


def test_what_is_left_out_has_the_default_of_the_frozen_settings():
    model = parse(POLICY).models["m"]
    assert model.spill == SpillUpstream("https://api.example.com/v1", "provider/model", "SPILL_API_KEY")
    assert model.dispatch.spill == SpillBounds(prompt_price=1e-7, output_price=4e-7)
    assert parse("models: {m: {engine: vllm, weights: org/model}}").models["m"].dispatch.spill is None


def test_every_value_reaches_its_place_and_is_written_back():
    settings = parse(MORE)
    assert settings.models["m"].dispatch.spill == SpillBounds(
        prompt_price=1e-7,
        output_price=4e-7,
        max_cost_per_h=5.0,
        max_in_flight=8,
        from_priority=2,
        max_wait_s=20.0,
        output_tokens=500,
        ttft_s=0.7,
        tpot_s=0.015,
    )
    assert parse(render(settings)) == settings


def test_plain_http_may_go_to_this_machine_alone():
    local = POLICY.replace("https://api.example.com/v1", "http://127.0.0.1:9000/v1")
    assert parse(local).models["m"].spill.address == "http://127.0.0.1:9000/v1"


def test_the_key_is_needed_by_whoever_serves_and_the_error_names_its_variable():
    models = parse(POLICY).models.values()
    require_keys(models, {"SPILL_API_KEY": "sk-1"}, "f.yaml")
    with pytest.raises(PolicyError) as found:
        require_keys(models, {"SPILL_API_KEY": ""}, "f.yaml")
    (problem,) = found.value.problems
    assert str(problem) == (
        "models.m.spill.key_env is SPILL_API_KEY; that variable is not set in the environment; set it, or leave "
        "spill out"
    )


def test_neither_the_key_nor_what_may_be_one_is_said():
    with pytest.raises(PolicyError) as found:
        require_keys(parse(POLICY).models.values(), {"SPILL_API_KEY": "sk-secret\r\nx: y"}, "f.yaml")
    assert "secret" not in str(found.value)
    pasted = parse(POLICY.replace("SPILL_API_KEY", "sk_live_secret")).models.values()
    with pytest.raises(PolicyError) as found:
        require_keys(pasted, {}, "f.yaml")
    assert "secret" not in str(found.value)


def test_a_day_s_money_that_cannot_bear_an_hour_of_it_is_warned_of():
    assert parse("fleet: {max_cost_per_day: 5/d}" + MORE).warnings == ()
    (warning,) = parse("fleet: {max_cost_per_day: 4/d}" + MORE).warnings
    assert "spill.max_cost together are 5/h" in warning
    assert "nothing will be spilt" in warning
