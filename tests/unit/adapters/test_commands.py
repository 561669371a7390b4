"""Start commands, and the batch size read back out of them."""

import json
from dataclasses import replace

import pytest

from tidegate.adapters.base import EngineSpec
from tidegate.adapters.commands import command_hash
from tidegate.adapters.registry import ADAPTERS
from tidegate.core.types import Address

HERE = Address("127.0.0.1", 9000)
SPEC = EngineSpec(
    model_name="m",
    weights="/weights",
    slots=8,
    context_tokens=1024,
    lora={"red": "/red", "blue": "/blue"},
    adapter_slots=3,
    extra_args=("--extra", "1"),
)


def has(argv, *words):
    return any(tuple(argv[start : start + len(words)]) == words for start in range(len(argv)))


@pytest.mark.parametrize("name", ["llamacpp", "vllm", "sglang", "trtllm"])
def test_a_command_names_address_and_batch_size_and_ends_with_the_operators_words(name):
    adapter = ADAPTERS[name]
    argv = adapter.command(SPEC, HERE, ())

    assert has(argv, "--host", "127.0.0.1")
    assert has(argv, "--port", "9000")
    assert "/weights" in argv
    assert adapter.batch_size(argv) == 8
    assert argv[-2:] == ["--extra", "1"]


def test_llamacpp_is_told_the_total_context_and_every_adapter_in_order():
    argv = ADAPTERS["llamacpp"].command(SPEC, HERE, ())

    assert has(argv, "--context", "8192")
    assert has(argv, "--lora", "/red", "--lora", "/blue")


def test_several_gpus_become_tensor_parallelism():
    assert has(ADAPTERS["vllm"].command(SPEC, HERE, (2, 3)), "--tensor-parallel-size", "2")
    assert has(ADAPTERS["sglang"].command(SPEC, HERE, (2, 3)), "--tp-size", "2")
    assert has(ADAPTERS["trtllm"].command(SPEC, HERE, (2, 3)), "--tp_size", "2")
    assert "--tensor-parallel-size" not in ADAPTERS["vllm"].command(SPEC, HERE, (2,))


def test_vllm_finishes_what_slipped_through():
    assert "--shutdown-timeout" in ADAPTERS["vllm"].command(SPEC, HERE, ())


def test_vllm_is_started_without_adapters_and_ready_to_load_them():
    """One that cannot be loaded would keep it from starting."""
    vllm = ADAPTERS["vllm"]
    argv = vllm.command(SPEC, HERE, ())

    assert has(argv, "--enable-lora", "--max-loras", "3")
    assert "red=/red" not in argv
    assert vllm.environment(SPEC, ())["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] == "True"


def test_sglang_takes_the_size_of_adapters_from_those_it_is_started_with():
    argv = ADAPTERS["sglang"].command(SPEC, HERE, ())

    assert has(argv, "--enable-lora", "--max-loras-per-batch", "3", "--lora-paths", "red=/red", "blue=/blue")


@pytest.mark.parametrize("name", ["vllm", "sglang", "emulated"])
def test_without_adapters_nothing_is_said_of_them(name):
    plain = replace(SPEC, lora=None)
    adapter = ADAPTERS[name]

    assert not any(word.startswith("--") and "lora" in word for word in adapter.command(plain, HERE, ()))
    assert "VLLM_ALLOW_RUNTIME_LORA_UPDATING" not in adapter.environment(plain, ())
    assert "--enable-lora" in adapter.command(replace(SPEC, lora={}), HERE, ())


@pytest.mark.parametrize("name,is_the_same", [("vllm", True), ("sglang", True), ("llamacpp", False)])
def test_which_adapters_it_has_tells_two_replicas_apart_only_where_that_cannot_change(name, is_the_same):
    adapter = ADAPTERS[name]
    hashes = {
        command_hash(adapter, replace(SPEC, lora=lora), 0, None)
        for lora in ({"red": "/red"}, {"blue": "/blue"})
    }

    assert (len(hashes) == 1) is is_the_same
    assert command_hash(adapter, replace(SPEC, lora=None), 0, None) not in hashes


@pytest.mark.parametrize(
    "name,load,unload",
    [
        ("vllm", "/v1/load_lora_adapter", "/v1/unload_lora_adapter"),
        ("sglang", "/load_lora_adapter", "/unload_lora_adapter"),
    ],
)
def test_the_calls_that_load_and_unload_an_adapter(name, load, unload):
    api = ADAPTERS[name].lora_api
    loads, unloads = api.load_call("red", "/a b"), api.unload_call("red")

    assert (loads.method, loads.path, unloads.path) == ("POST", load, unload)
    assert json.loads(loads.body) == {"lora_name": "red", "lora_path": "/a b"}
    assert json.loads(unloads.body) == {"lora_name": "red"}


def test_llama_cpp_loads_none_while_it_runs():
    """Its ``/lora-adapters`` changes the scales of those that it was started with."""
    assert ADAPTERS["llamacpp"].lora_api is None


@pytest.mark.parametrize("name", ADAPTERS)
def test_a_template_replaces_the_command_and_keeps_other_braces(name):
    template = (
        "run",
        "{weights}",
        "--p={port}",
        "-g{gpus}",
        "{host}",
        "{model}",
        "{slots}",
        '{"a": {"b": 1}}',
    )
    spec = EngineSpec(model_name="m", weights="/w", slots=4, command=template, extra_args=("--seed={slots}",))

    argv = ADAPTERS[name].command(spec, HERE, (0, 1))

    filled = ["run", "/w", "--p=9000", "-g0,1", "127.0.0.1", "m", "4", '{"a": {"b": 1}}']
    assert argv == [*filled, "--seed=4"]  # the operator's arguments come last here too


def test_the_openai_adapter_cannot_start_an_engine_it_does_not_know():
    with pytest.raises(ValueError, match="give a command"):
        ADAPTERS["openai"].command(EngineSpec(model_name="m", weights="", slots=1), HERE, ())


def test_process_titles_leave_the_environment_readable():
    for name in ("vllm", "sglang"):
        assert ADAPTERS[name].environment(SPEC, ())["SPT_NOENV"] == "1"


@pytest.mark.parametrize(
    "name,argv,batch",
    [
        ("vllm", ["vllm", "serve", "--max-num-seqs", "64"], 64),
        ("vllm", ["vllm", "serve", "--max-num-seqs=64"], 64),
        ("vllm", ["--max-num-seqs", "8", "--max-num-seqs", "16"], 16),
        ("vllm", ["--max-num-seqs"], None),
        ("vllm", ["vllm", "serve"], None),
        ("sglang", ["--max-running-requests", "32"], 32),
        ("trtllm", ["--max_batch_size", "128"], 128),
        ("llamacpp", ["llama-server", "-np", "4"], 4),
        ("llamacpp", ["llama-server", "--parallel", "4", "--slots", "--metrics"], 4),
        ("llamacpp", ["--slots", "8"], 8),
        ("openai", ["anything", "--max-num-seqs", "8"], 8),
    ],
)
def test_the_batch_size_is_read_from_the_command_line(name, argv, batch):
    assert ADAPTERS[name].batch_size(argv) == batch
