"""What is changed in a request before an engine gets it, and what an engine's answers mean."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.adapters.base import EngineSpec, Readiness
from tidegate.adapters.lora import names_answered
from tidegate.adapters.registry import ADAPTERS

LLAMACPP, VLLM, SGLANG, TRTLLM = (ADAPTERS[name] for name in ("llamacpp", "vllm", "sglang", "trtllm"))
PLAIN = EngineSpec(model_name="base", weights="w", slots=4)
WITH_ADAPTERS = EngineSpec(model_name="base", weights="w", slots=4, lora={"red": "/red", "blue": "/blue"})

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


def scales(body):
    return [(entry["id"], entry["scale"]) for entry in json.loads(body)["lora"]]


@pytest.mark.parametrize(
    "model,expected",
    [
        ("base", [(0, 0.0), (1, 0.0)]),
        ("base:red", [(0, 1.0), (1, 0.0)]),
        ("base:blue", [(0, 0.0), (1, 1.0)]),
        ("blue", [(0, 0.0), (1, 1.0)]),
        ("base:green", [(0, 0.0), (1, 0.0)]),
        ("other:red", [(0, 0.0), (1, 0.0)]),
    ],
)
def test_llamacpp_is_told_the_scale_of_every_adapter_in_every_request(model, expected):
    body = json.dumps({"model": model, "prompt": "x"}).encode()

    assert scales(LLAMACPP.rewrite(body, WITH_ADAPTERS)) == expected


@pytest.mark.parametrize("key", ['"lora"', '"l\\u006fra"'])
def test_a_clients_own_lora_field_does_not_get_through(key):
    body = b'{"model":"base",' + key.encode() + b':[{"id":1,"scale":9.5}],"prompt":"x"}'

    sent = LLAMACPP.rewrite(body, WITH_ADAPTERS)

    assert scales(sent) == [(0, 0.0), (1, 0.0)]
    assert sent.count(b"scale") == 2


def test_the_probe_too_says_which_adapters_apply():
    probe = LLAMACPP.probe("base")

    assert scales(LLAMACPP.rewrite(probe.body, WITH_ADAPTERS)) == [(0, 0.0), (1, 0.0)]


@given(fields=st.dictionaries(st.text().filter(lambda key: key != "lora"), JSON, max_size=5))
def test_every_other_field_stays_as_it_was(fields):
    body = json.dumps(fields).encode()

    sent = json.loads(LLAMACPP.rewrite(body, WITH_ADAPTERS))

    assert sent.pop("lora")
    assert sent == fields


def test_numbers_beyond_floating_point_are_not_touched():
    body = b'{"model":"base","seed":123456789012345678901234567890,"temperature":1.0000000000000000001}'

    sent = LLAMACPP.rewrite(body, WITH_ADAPTERS)

    assert b"123456789012345678901234567890" in sent
    assert b"1.0000000000000000001" in sent


@pytest.mark.parametrize("name", ADAPTERS)
@pytest.mark.parametrize("spec", [None, PLAIN])
def test_without_adapters_the_very_same_bytes_are_passed_on(name, spec):
    body = b'{ "model" : "base", "prompt": "x" }'

    assert ADAPTERS[name].rewrite(body, spec) is body


@pytest.mark.parametrize("name", ADAPTERS)
@pytest.mark.parametrize("body", [b"", b"[1]", b"{", b"\xff\xfe", b'"text"', b"--boundary\r\n"])
def test_what_is_no_json_object_is_the_engines_to_refuse(name, body):
    assert ADAPTERS[name].rewrite(body, WITH_ADAPTERS) == body


def test_vllm_knows_an_adapter_as_a_model_of_its_own():
    assert json.loads(VLLM.rewrite(b'{"model":"base:red"}', WITH_ADAPTERS)) == {"model": "red"}
    assert VLLM.rewrite(b'{"model":"red"}', WITH_ADAPTERS) == b'{"model":"red"}'
    assert VLLM.rewrite(b'{"model":"base"}', WITH_ADAPTERS) == b'{"model":"base"}'


def test_sglang_wants_base_and_adapter():
    assert json.loads(SGLANG.rewrite(b'{"model":"red"}', WITH_ADAPTERS)) == {"model": "base:red"}
    assert SGLANG.rewrite(b'{"model":"base:red"}', WITH_ADAPTERS) == b'{"model":"base:red"}'


def test_trtllm_gets_the_folder_from_the_operator_and_never_from_a_client():
    hostile = b'{"model":"base","lora_request":{"lora_path":"/etc"}}'

    assert json.loads(TRTLLM.rewrite(hostile, PLAIN)) == {"model": "base"}
    assert json.loads(TRTLLM.rewrite(hostile, WITH_ADAPTERS)) == {"model": "base"}
    asked = json.loads(TRTLLM.rewrite(b'{"model":"base:blue"}', WITH_ADAPTERS))
    assert asked["lora_request"] == {"lora_name": "blue", "lora_int_id": 2, "lora_path": "/blue"}


def test_a_model_with_adapters_answers_to_their_names():
    assert names_answered(WITH_ADAPTERS) == ("base", "base:red", "base:blue")


@pytest.mark.parametrize("name", ADAPTERS)
@pytest.mark.parametrize(
    "status,body,means",
    [
        (200, b'{"choices":[{"text":"a"}]}', Readiness.READY),
        (200, b'{"choices":[]}', Readiness.BROKEN),
        (200, b"ok", Readiness.BROKEN),
        (503, b'{"error":{"message":"Loading model"}}', Readiness.LOADING),
        (429, b"", Readiness.LOADING),
        (404, b"", Readiness.BROKEN),
        (500, b"", Readiness.BROKEN),
    ],
)
def test_only_a_generated_token_is_readiness(name, status, body, means):
    assert ADAPTERS[name].readiness(status, body) is means


@pytest.mark.parametrize("name", ADAPTERS)
def test_a_probe_asks_for_one_token_of_the_model(name):
    asked = json.loads(ADAPTERS[name].probe("base").body)

    assert (asked["model"], asked["max_tokens"]) == ("base", 1)


def test_a_sleeping_llamacpp_is_known_without_waking_it():
    assert LLAMACPP.is_sleeping(b'{"is_sleeping":true,"total_slots":4}')
    assert not LLAMACPP.is_sleeping(b'{"total_slots":4}')
    assert not LLAMACPP.is_sleeping(b"<html>")


def test_vllms_manners():
    event = b'data: {"choices":[{"delta":{},"finish_reason":"abort"}]}\n\n'
    spaced = b'data: {"choices": [{"delta": {}, "finish_reason": "abort"}]}\n\n'

    assert any(mark in event for mark in VLLM.manners.abort_marks)
    assert any(mark in spaced for mark in VLLM.manners.abort_marks)
    dying = b'{"error":{"message":"cannot schedule new futures after shutdown","code":500}}'
    assert any(mark in dying for mark in VLLM.manners.busy_marks)
