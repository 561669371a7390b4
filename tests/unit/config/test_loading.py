"""What a right file becomes."""

import dataclasses
from dataclasses import replace
from pathlib import Path

import pytest

from tidegate.adapters.base import EngineSpec
from tidegate.adapters.registry import ADAPTERS
from tidegate.backends.local.model import LocalModel
from tidegate.cli.fleets import Fleets
from tidegate.config import PolicyError, differences, load, parse, render
from tidegate.config.nodes import check_here
from tidegate.config.settings import Client, GatewaySettings
from tidegate.core.fleet.scaling.schedule import week_s
from tidegate.core.nodes import Gpu, Node
from tidegate.core.scaling_settings import (
    DAY_S,
    LawSettings,
    Scaling,
    ScalingPolicy,
    ScheduledFloor,
    Thresholds,
)
from tidegate.core.settings import (
    HANDOVER_S,
    DispatchConfig,
    FleetLimits,
    FleetModel,
    QueueLimits,
    Restarts,
    Routing,
    TrafficShift,
)
from tidegate.core.types import Address

EXAMPLES = Path(__file__).parents[3] / "examples"
SHA = "ab" * 32


def model(text, **more):
    return parse(f"models: {{m: {text}}}", **more).models["m"]


@pytest.mark.parametrize(
    "keys, handover_s",
    [
        ("", HANDOVER_S),
        ("handover: 20s", 20.0),
        ("handover: 0s", 0.0),
        ("handover: 20s, routing: least_tokens", 0.0),
        ("routing: round_robin", 0.0),
    ],
)
def test_a_leave_is_announced_where_requests_go_by_what_replicas_have_cached(keys, handover_s):
    settings = parse(f"models: {{m: {{engine: vllm, weights: org/model, {keys}}}}}")
    assert settings.models["m"].fleet.handover_s == handover_s


def test_what_is_left_out_has_the_default_of_the_frozen_settings():
    settings = parse("models: {m: {engine: vllm, weights: org/model}}")

    assert settings.gateway == GatewaySettings()
    assert settings.limits == FleetLimits()
    assert settings.models["m"].dispatch == DispatchConfig(adapters=())
    fleet = replace(settings.models["m"].fleet, command_hash="")
    assert fleet == FleetModel(engine="vllm", handover_s=HANDOVER_S)
    assert settings.models["m"].spec == EngineSpec("m", "org/model", slots=8)
    assert settings.warnings == ()


def test_sections_of_which_every_line_is_commented_out_are_defaults():
    bare = parse("models: {m: {engine: vllm, weights: org/model}}")

    assert bare == parse(
        "gateway:\nfleet:\njournal:\nmodels:\n m:\n  engine: vllm\n  weights: org/model\n  queue:\n  scaling:\n"
    )


def test_every_value_reaches_its_place(tmp_path):
    settings = parse(
        f"""
gateway: {{host: '::1', port: 0, keys: [{{sha256: {SHA.upper()}, name: team-a, priority: 3}}],
          max_header_size: 32KiB, stop_deadline: 1m30s, connect_timeout: 250ms}}
fleet: {{max_replicas: 9, max_gpus: 4, max_starts_per_hour: 7, max_cost: 12.50/h, state_dir: run,
        gpus: [{{index: 2, kind: h100}}, {{index: 3, memory: 80GiB, kind: h100}}]}}
journal: {{dir: /var/log/tidegate, max_size: 1.5GiB}}
models:
  m:
    engine: sglang
    weights: org/model
    slots: 16
    context: 4096
    threads: 2
    args: [--seed, 7, --ratio, 1.0, --flag, true, --octal, 010]
    env: {{A: 1, B: 'yes', C: no, D: }}
    command: [env, '{{port}}']
    gpus: 2
    kind: h100
    memory: 24GiB
    price: 2.50/h
    routing: round_robin
    max_retries: 0
    queue: {{max_requests: 5, max_tokens: 6, max_size: 7KiB}}
    scaling: {{min_replicas: 1, max_replicas: 2, window: 5s, scale_down_delay: 0s, policy: thresholds,
              thresholds: {{max_latency_p95: 2s, max_queue_depth: 50}}}}
    restarts: {{backoff_first: 2s, backoff_max: 8s, give_up_after: 3, retry_failed: 1h, forgiven_after: 90s,
               replace_after_failures: 7}}
    silent_after: 30s
    start_deadline: 5m
    drain_deadline: 10s
    handover: 20s
    stop_grace: 3s
    expected_start: 45s
""",
        base=tmp_path,
    )
    found = settings.models["m"]

    assert settings.gateway == GatewaySettings(
        host="::1",
        port=0,
        keys={SHA: Client("team-a", 3)},
        max_header_bytes=32 * 1024,
        stop_deadline_s=90.0,
        connect_timeout_s=0.25,
    )
    assert settings.limits == FleetLimits(9, 4, 7, 12.5)
    assert settings.gpus == (Gpu(2, kind="h100"), Gpu(3, 80 * 2**30, "h100"))
    assert settings.state_dir == tmp_path / "run"
    assert settings.journal_dir == Path("/var/log/tidegate")
    assert settings.journal_max_bytes == 3 * 2**29
    assert found.dispatch == DispatchConfig(Routing.ROUND_ROBIN, QueueLimits(5, 6, 7 * 1024), 0, adapters=())
    assert replace(found.fleet, command_hash="") == FleetModel(
        engine="sglang",
        slots=16,
        scaling=Scaling(
            ScalingPolicy.THRESHOLDS, 1, 2, 5.0, 0.0, None, Thresholds(50, max_latency_p95_ms=2000.0)
        ),
        restarts=Restarts(2.0, 8.0, 3, 3600.0, 90.0, 7),
        gpus=2,
        kind="h100",
        memory_bytes=24 * 2**30,
        price_per_h=2.5,
        start_deadline_s=300.0,
        drain_deadline_s=10.0,
        handover_s=0.0,  # round_robin knows no caches
        expected_start_s=45.0,
    )
    assert found.spec == EngineSpec(
        "m",
        "org/model",
        slots=16,
        context_tokens=4096,
        threads=2,
        extra_args=("--seed", "7", "--ratio", "1.0", "--flag", "true", "--octal", "010"),
        command=("env", "{port}"),
        env={"A": "1", "B": "yes", "C": "no", "D": ""},
    )
    assert (found.memory_bytes, found.gpus_per_replica, found.stop_grace_s) == (24 * 2**30, 2, 3.0)
    assert found.silent_after_s == 30.0


@pytest.mark.parametrize(
    "changed,is_started_otherwise",
    [
        ("lora: {red: org/red}", True),
        ("slots: 9", True),
        ("args: [--x]", True),
        ("env: {A: b}", True),
        ("routing: round_robin, price: 1/h, silent_after: 1m, scaling: {max_replicas: 4}", False),
    ],
)
def test_the_hash_changes_with_what_an_engine_is_started_with(changed, is_started_otherwise):
    old = parse("models: {m: {engine: vllm, weights: a/b}}").models["m"].fleet
    new = parse(f"models: {{m: {{engine: vllm, weights: a/b, {changed}}}}}").models["m"].fleet

    assert old.command_hash
    assert (new.command_hash != old.command_hash) is is_started_otherwise


VARIANTS = """
fleet: {gpus: [{index: 0, kind: h100}, {index: 1, kind: l40s}]}
models:
  m:
    engine: vllm
    weights: a/b
    gpus: 1
    kind: h100
    price: 4.00/h
    slots: 64
    args: [--x]
    queue: {max_wait_starting: 2m}
    variants:
      small: {kind: l40s, price: 1.20/h, slots: 16, args: [], memory: 40GiB, expected_start: 60s, max_replicas: 3}
      fast: {args: [--y, 0.92, yes], env: {A: 010}}
"""


def test_a_variant_has_what_it_says_and_else_what_the_model_says():
    found = parse(VARIANTS).models["m"]
    small, fast = found.fleet.variants

    assert (small.name, small.kind, small.gpus, small.slots) == ("small", "l40s", 1, 16)
    assert (small.price_per_h, small.memory_bytes, small.expected_start_s) == (1.2, 40 * 2**30, 60.0)
    assert (small.max_replicas, fast.max_replicas) == (3, None)
    assert (fast.kind, fast.slots, fast.price_per_h) == ("h100", 64, 4.0)
    assert found.variants["small"].spec.extra_args == ()
    assert found.variants["fast"].spec.extra_args == ("--y", "0.92", "yes")
    assert found.variants["fast"].spec.env == {"A": "010"}
    assert found.variants["small"].spec.weights == found.spec.weights
    assert len({found.fleet.command_hash, small.command_hash, fast.command_hash}) == 3
    assert found.fleet.max_wait_s == 120.0
    assert parse(render(parse(VARIANTS))) == parse(VARIANTS)


def test_each_variant_has_the_hash_of_the_backend():
    settings = parse(VARIANTS)
    local = Fleets(settings)._local._models["m"]  # what it would start

    for variant in settings.models["m"].fleet.variants:
        assert local.as_variant(variant.name).command_hash() == variant.command_hash
    assert local.as_variant("").command_hash() == settings.models["m"].fleet.command_hash
    assert local.as_variant("unheard of") is None


def test_all_engines_of_all_variants_that_run_anyway_are_used():
    found = parse(
        "models: {m: {engine: vllm, static: ['http://h:1', 'http://h:2'], price: 4/h, "
        "variants: {small: {static: ['http://g:1'], price: 1/h}}}}"
    ).models["m"]

    assert (found.fleet.scaling.min_replicas, found.fleet.scaling.max_replicas) == (3, 3)
    assert (found.fleet.own_max_replicas, found.fleet.variants[0].max_replicas) == (2, 1)


def test_the_hash_is_the_one_of_the_backend():
    settings = parse("fleet: {gpus: [0]}\nmodels: {m: {engine: vllm, weights: a/b, gpus: 1}}").models["m"]
    local = LocalModel("m", ADAPTERS["vllm"], settings.spec, gpus_per_replica=1)

    assert settings.fleet.command_hash == local.command_hash()


def test_nodes_are_read_and_a_model_without_a_price_costs_its_share_of_the_dearest_it_fits_on():
    text = """
fleet:
  nodes:
    n1: {gpus: 8, kind: h100, memory: 80GiB, price: 20.00/h}
    n2: {gpus: 4, kind: l40s, price: 4.00/h}
    n3: {gpus: 1, price: 50.00/h}
models:
  two: {engine: vllm, weights: a/b, gpus: 2}
  small: {engine: vllm, weights: a/b, gpus: 1, kind: l40s}
  priced: {engine: vllm, weights: a/b, gpus: 1, price: 0.10/h}
"""
    settings = parse(text)
    eight = tuple(Gpu(index, 80 * 2**30, "h100") for index in range(8))
    four = tuple(Gpu(index, None, "l40s") for index in range(4))
    assert settings.nodes == (Node("n1", eight, 20.0), Node("n2", four, 4.0), Node("n3", (Gpu(0),), 50.0))
    prices = {name: model.fleet.price_per_h for name, model in settings.models.items()}
    assert prices == {"two": 5.0, "small": 1.0, "priced": 0.1}
    assert parse(render(settings)) == settings


def test_nodes_are_not_for_this_machine():
    here = parse("fleet: {gpus: [0]}\nmodels: {m: {engine: vllm, weights: a/b, gpus: 1}}")
    assert check_here(here, "p.yaml") is here
    away = parse("fleet: {nodes: {n1: {gpus: 1}}}\nmodels: {m: {engine: vllm, weights: a/b, gpus: 1}}")
    with pytest.raises(
        PolicyError, match=r"fleet.nodes names machines, which only `tidegate simulate` knows"
    ):
        check_here(away, "p.yaml")


def test_gpus_that_are_listed_are_where_replicas_are_placed():
    one = "models: {m: {engine: vllm, weights: a/b, gpus: 1}}"

    assert parse(f"fleet: {{gpus: [0, 1]}}\n{one}").nodes == (Node("local", (Gpu(0), Gpu(1))),)
    assert parse(f"fleet: {{gpus: [0, 1]}}\n{one}").limits.max_gpus is None
    assert parse("models: {m: {engine: vllm, weights: a/b}}").nodes == ()


@pytest.mark.parametrize(
    "devices,model,warning",
    [
        (
            "[0, {index: 1, memory: 80GiB}]",
            "gpus: 1, memory: 24GiB",
            (
                "models.m.memory is 24GiB but fleet.gpus does not say the memory of device 0, which will carry one "
                "replica at a time; write {index: 0, memory: 80GiB}"
            ),
        ),
        (
            "[]",
            "memory: 24GiB",
            "models.m.memory is 24GiB but models.m.gpus is 0: only memory of GPUs is counted",
        ),
    ],
)
def test_memory_that_does_nothing_is_a_warning(devices, model, warning):
    settings = parse(f"fleet: {{gpus: {devices}}}\nmodels: {{m: {{engine: vllm, weights: a/b, {model}}}}}")

    assert settings.warnings == (warning,)


def test_laws_constants_and_hours_reach_the_autoscaler():
    settings = parse("""
        fleet: {timezone: Europe/Berlin}
        models:
          m:
            engine: emulated
            scaling:
              max_replicas: 9
              policy: kpa
              law: {limit: 32, stable_window: 90s}
              also: [queue, slo]
              schedule:
                - {replicas: 4, days: mon-fri, from: "08:30", until: 18:00}
                - {replicas: 2, days: "sat,sun", from: "22:00", until: "06:00"}
        """)
    scaling = settings.models["m"].fleet.scaling

    assert scaling.policies == (ScalingPolicy.KPA, ScalingPolicy.QUEUE, ScalingPolicy.SLO)
    assert scaling.law == (("limit", 32.0), ("stable_window_s", 90.0))
    assert scaling.schedule.floors == (
        ScheduledFloor(4, 30_600.0, 64_800.0, (0, 1, 2, 3, 4)),
        ScheduledFloor(2, 79_200.0, 21_600.0, (5, 6)),
    )
    summer, winter = 1_782_856_800.0, 1_797_807_600.0  # 2026-07-01 and 2026-12-21, both at 00:00 in Berlin
    assert week_s(scaling.schedule, summer) == 2 * DAY_S
    assert week_s(scaling.schedule, winter) == 0.0
    assert parse(render(settings)) == settings


def test_laws_beside_others_and_in_the_shadow_bring_constants_of_their_own():
    settings = parse("""
        models:
          m:
            engine: emulated
            shadow: kpa:limit=32,stable_window=90s + forecast
            scaling:
              policy: concurrency
              also: [forecast, "ray:up_delay=5s,target=8"]
        """)
    fleet = settings.models["m"].fleet

    ray = LawSettings(ScalingPolicy.RAY, (("target", 8.0), ("up_delay_s", 5.0)))
    assert fleet.scaling.also == (LawSettings(ScalingPolicy.FORECAST), ray)
    kpa = LawSettings(ScalingPolicy.KPA, (("limit", 32.0), ("stable_window_s", 90.0)))
    assert fleet.shadow == (kpa, LawSettings(ScalingPolicy.FORECAST))
    assert parse(render(settings)) == settings


@pytest.mark.parametrize("written, risk", [("0.00001", 1e-5), ("1e-05", 1e-5), ("0.3", 0.3)])
def test_a_very_small_constant_is_read_as_it_was_written(written, risk):
    settings = parse(f"models: {{m: {{engine: emulated, shadow: 'tidal:risk={written}'}}}}")

    assert settings.models["m"].fleet.shadow == (LawSettings(ScalingPolicy.TIDAL, (("risk", risk),)),)
    assert parse(render(settings)) == settings


def test_how_requests_wait_and_are_tried_reaches_the_dispatcher(tmp_path):
    settings = parse(
        f"""
gateway:
  keys: [{{sha256: {SHA}, name: team-a, weight: 2.5}}]
  queues: {{max_requests: 50, max_size: 1MiB}}
models:
  old: &model
    engine: vllm
    weights: org/model
    resume: true
    prefill_ahead: 500ms
    reserve_share: 0.1
    max_yields: 7
    max_deaths: 4
    queue: {{class_share: 0.5, tenant_share: 0.25, ageing: 5s, aged_share: 0.2,
            max_wait_busy: 20s, max_wait_starting: 5m}}
    slow_start: {{span: 1m, tokens: 1000}}
    hedging: {{ratio: 0.05, after: 2s}}
  new: *model
shifts:
  chat: {{versions: {{old: 95, new: 5}}, max_error_ratio: 0.1, max_ttft: 2s, max_slow_ratio: 0.2, min_samples: 9}}
""",
        base=tmp_path,
    )

    assert settings.gateway.keys[SHA].weight == 2.5
    assert (settings.queues.max_requests, settings.queues.max_bytes) == (50, 2**20)
    assert settings.models["new"].dispatch == DispatchConfig(
        queue=QueueLimits(
            class_share=0.5,
            tenant_share=0.25,
            ageing_s=5.0,
            aged_share=0.2,
            max_wait_busy_s=20.0,
            max_wait_starting_s=300.0,
        ),
        slow_start_s=60.0,
        slow_start_tokens=1000,
        hedge_ratio=0.05,
        hedge_after_s=2.0,
        resume=True,
        prefill_ahead_s=0.5,
        reserve_share=0.1,
        max_yields=7,
        max_deaths=4,
        adapters=(),
    )
    assert settings.shifts["chat"] == TrafficShift((("old", 95.0), ("new", 5.0)), 0.1, 2.0, 0.2, 9)


def test_settings_cannot_be_changed():
    settings = parse("models: {m: {engine: vllm, weights: a/b, env: {A: b}}}")

    with pytest.raises(TypeError):
        settings.models["other"] = settings.models["m"]
    with pytest.raises(TypeError):
        settings.models["m"].spec.env["A"] = "c"
    with pytest.raises(TypeError):
        settings.gateway.keys[SHA] = Client("a")
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.gateway.port = 1


def test_weights_are_found_beside_the_file_in_a_package_or_left_to_the_engine(tmp_path):
    (tmp_path / "tiny.gguf").touch()
    (tmp_path / "folder").mkdir()

    def weights(written, engine="vllm"):
        return model(f"{{engine: {engine}, weights: '{written}'}}", base=tmp_path).spec.weights

    assert weights("tiny.gguf", "llamacpp") == str(tmp_path / "tiny.gguf")
    assert weights("./folder") == str(tmp_path / "folder")
    assert weights("folder") == str(tmp_path / "folder")
    assert weights("org/folder") == "org/folder"
    assert weights("gs://bucket/model") == "gs://bucket/model"
    assert weights("package:tidegate/py.typed", "llamacpp").endswith("tidegate/py.typed")


def test_sources_are_fetched_by_tidegate_and_named_as_they_are_written(monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "https://hub.example")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "https://s3.example")

    def spec(written, engine, **more):
        return model(f"{{engine: {engine}, weights: '{written}', weights_sha256: {SHA}}}", **more).spec

    for written, engine in (
        ("s3://models/tiny/", "vllm"),
        ("hf://org/tiny@v1", "sglang"),
        ("hf://org/tiny/q4.gguf", "llamacpp"),
        ("https://h.example/m.gguf?X-Amz-Signature=1", "llamacpp"),
    ):
        assert spec(written, engine).weights == written
        assert spec(written, engine).weights_sha256 == SHA


def test_weights_over_plain_http_that_nobody_checks_are_a_warning():
    text = "models: {m: {engine: llamacpp, weights: 'http://h.example/m.gguf'%s}}"

    (warning,) = parse(text % "").warnings
    assert warning == (
        "models.m.weights come over http:// and models.m.weights_sha256 does not say what must come; "
        "write it, or use https://"
    )
    assert parse(text % f", weights_sha256: {SHA}").warnings == ()


def test_a_renewed_signature_starts_no_engine_anew_but_another_checksum_does():
    def hashed(signature, digest):
        written = f"'https://h.example/m.gguf?X-Amz-Signature={signature}'"
        text = f"{{engine: llamacpp, weights: {written}, weights_sha256: {digest}}}"
        return model(text).fleet.command_hash

    assert hashed("one", SHA) == hashed("two", SHA) != hashed("one", "cd" * 32)


def adapted(engine, lora, more=""):
    return model(f"{{engine: {engine}, weights: a/b, lora: {lora}{more}}}").fleet


def test_an_engine_that_loads_adapters_while_it_runs_is_not_started_anew_for_another_list():
    one, other = adapted("vllm", "{red: org/red}"), adapted("vllm", "{red: org/red, blue: org/blue}")

    assert one.command_hash == other.command_hash
    assert [name for name, _ in other.adapters] == ["red", "blue"]
    assert (other.loads_adapters, other.adapters_at_start) == (True, False)
    assert adapted("sglang", "{red: org/red}").adapters_at_start


def test_an_adapters_mark_changes_with_its_source_and_hides_it():
    def mark(source):
        ((_, found),) = adapted("vllm", f"{{red: '{source}'}}").adapters
        return found

    assert mark("org/red") == mark("org/red") != mark("org/redder")
    signed = "https://h.example/red.gguf?X-Amz-Signature="
    assert "org" not in mark("org/red")
    assert mark(f"{signed}one") == mark(f"{signed}two")


def test_an_empty_list_of_adapters_is_room_for_some():
    assert adapted("vllm", "{}").loads_adapters
    assert adapted("vllm", "{}").command_hash == adapted("vllm", "{red: org/red}").command_hash
    assert model("{engine: vllm, weights: a/b}").fleet.adapters is None


def test_the_number_of_adapters_on_the_gpu_is_given_to_the_engine():
    found = model("{engine: vllm, weights: a/b, lora: {}, lora_slots: 3}")

    assert (found.spec.adapter_slots, found.dispatch.adapter_slots) == (3, 3)


def test_all_engines_that_run_anyway_are_used_unless_the_file_says_otherwise():
    def bounds(scaling):
        addresses = "[http://127.0.0.1:8000, 'http://[::1]:8000', http://node-2:80/]"
        found = model(f"{{engine: vllm, static: {addresses}, scaling: {scaling}}}")
        assert found.spec is None
        assert found.static == (Address("127.0.0.1", 8000), Address("::1", 8000), Address("node-2", 80))
        return found.fleet.scaling.min_replicas, found.fleet.scaling.max_replicas

    assert bounds("{}") == (3, 3)
    assert bounds("{max_replicas: 2}") == (2, 2)
    assert bounds("{min_replicas: 0}") == (0, 3)


def test_the_journal_can_be_off():
    assert parse("journal: off\nmodels: {m: {engine: vllm, weights: a/b}}").journal_dir is None
    assert parse("journal: false\nmodels: {m: {engine: vllm, weights: a/b}}").journal_dir is None


def test_state_is_kept_where_the_desktop_says(monkeypatch, tmp_path):
    text = "models: {m: {engine: vllm, weights: a/b}}"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert parse(text).state_dir == Path("/state/tidegate")
    assert parse(text).journal_dir == Path("/state/tidegate/journal")

    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert parse(text).state_dir == tmp_path / ".local/state/tidegate"


def test_a_target_that_is_not_the_batch_size_is_a_warning_with_both_numbers():
    said = "models.m.scaling.concurrency_target is 32 but models.m.slots, the engine's batch size, is 8: "
    keys = "engine: vllm, weights: a/b, slots: 8"

    settings = parse(f"models: {{m: {{{keys}, scaling: {{concurrency_target: 32}}}}}}")
    assert settings.warnings == (said + "the smaller one counts",)

    settings = parse(f"models: {{m: {{{keys}, scaling: {{policy: concurrency, concurrency_target: 32}}}}}}")
    assert settings.warnings == (said + "replicas are added only when requests already wait",)


def test_auto_leaves_the_target_to_the_law():
    found = model("{engine: vllm, weights: a/b, slots: 48, scaling: {concurrency_target: auto}}")

    assert found.fleet.scaling.concurrency_target is None


def test_arguments_that_change_the_batch_size_are_a_warning():
    settings = parse("models: {m: {engine: vllm, weights: a/b, slots: 8, args: [--max-num-seqs, 64]}}")

    assert settings.warnings == (
        "models.m.slots is 8 but the command line gives the vllm engine a batch size of 64; make them equal",
    )


def test_caps_below_the_least_are_warnings():
    settings = parse(
        "fleet: {gpus: [0, 1], max_replicas: 2, max_cost: 5/h}\n"
        "models: {m: {engine: vllm, weights: a/b, gpus: 1, price: 2.50/h, "
        "scaling: {min_replicas: 3, max_replicas: 3}}}"
    )

    assert settings.warnings == (
        "all min_replicas together are 3, but fleet.max_replicas is 2",
        "all min_replicas together need 3 GPUs, but the fleet may use 2",
        "all min_replicas together cost 7.5/h, but fleet.max_cost is 5/h",
    )


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_an_example_loads_without_problems_and_round_trips(path):
    settings = load(path)

    assert settings.warnings == ()
    assert parse(render(settings)) == settings


def test_the_default_of_make_serve_goes_from_zero_to_three():
    scaling = load(EXAMPLES / "smollm2-llamacpp.yaml").models["smollm2"].fleet.scaling

    assert scaling == Scaling(ScalingPolicy.TIDAL, 0, 3, 10.0, 60.0, None)


def refusal(path):
    with pytest.raises(PolicyError) as caught:
        load(path)
    (problem,) = caught.value.problems
    return str(problem)


def test_files_that_cannot_be_read_are_refused_in_a_sentence(tmp_path):
    binary, huge = tmp_path / "binary.yaml", tmp_path / "huge.yaml"
    binary.write_bytes(b"models: \xff")
    huge.write_text("#" * (1024 * 1024 + 1))

    assert refusal(tmp_path / "none.yaml") == "the file cannot be read: No such file or directory"
    assert refusal(tmp_path) == "the file cannot be read: Is a directory"
    assert refusal(binary) == "the file is not UTF-8 text (byte 8)"
    assert refusal(huge) == "the file is larger than 1MiB, which no policy is"


OLD = "models: {m: {engine: vllm, weights: a/b}, other: {engine: vllm, weights: c/d}}"


@pytest.mark.parametrize(
    "new",
    [
        OLD,
        "models: {m: {engine: vllm, weights: a/b}}",
        (
            f"models: {{m: {{engine: vllm, weights: a/b}}, new: {{engine: emulated}}}}\n"
            f"gateway: {{keys: [{{sha256: {SHA}, name: a}}], request_timeout: 1m}}\nfleet: {{max_replicas: 3}}"
        ),
        (
            "models: {m: {engine: vllm, weights: a/b, routing: round_robin, price: 1/h, drain_deadline: 1m, "
            "queue: {max_requests: 3}, scaling: {max_replicas: 3, window: 1m}, restarts: {give_up_after: 2}}}"
        ),
    ],
)
def test_what_brains_and_gateway_hold_may_change_while_running(new):
    assert differences(parse(OLD), parse(new)) == []


def test_another_folder_for_weights_holds_from_the_next_start_on():
    text = "models: {m: {engine: vllm, weights: a/b}}\nweights: {cache_dir: %s, cache_size: %s}"

    assert differences(parse(text % ("one", "1GiB")), parse(text % ("two", "1GiB"))) == ["weights.cache_dir"]
    assert differences(parse(text % ("one", "1GiB")), parse(text % ("one", "2GiB"))) == []


def test_what_tidegate_or_somebody_else_was_started_with_may_not():
    new = parse(
        "gateway: {port: 9000, admin_host: localhost}\nfleet: {gpus: [0], state_dir: /elsewhere}\n"
        "models: {m: {engine: sglang, weights: a/c, slots: 9, args: [-x], env: {A: b}, gpus: 1, memory: 1GiB},"
        " other: {engine: vllm, static: ['http://h:1']}}"
    )

    assert differences(parse(OLD), new) == [
        "fleet.gpus",
        "fleet.state_dir",
        "gateway.admin_host",
        "gateway.port",
        "journal.dir",
        "models.other.static",
    ]


def test_what_is_done_by_hand_is_reverted_unless_the_policy_adopts_it():
    plain = parse("models: {m: {engine: vllm, weights: org/model}}").models["m"].fleet
    assert (plain.adopts_ends, plain.by_hand_for_s) == (False, 3_600.0)
    text = "fleet: {manual: adopt, manual_for: 20m}\nmodels: {m: {engine: vllm, weights: org/model}}"
    settings = parse(text)
    fleet = settings.models["m"].fleet
    assert (fleet.adopts_ends, fleet.by_hand_for_s) == (True, 1_200.0)
    assert parse(render(settings)).models["m"].fleet == fleet
