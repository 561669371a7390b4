"""Laws of policy files: whatever loads, round-trips; whatever is refused says which key."""

import contextlib
import string
from pathlib import Path

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.config import PolicyError, load, parse, render, units
from tidegate.config.schema import SECTIONS, keys_of

BASE = Path("/nowhere")
ALL_KEYS = sorted({key for section in SECTIONS.values() for key in keys_of(section)} | {"m", "nonsense"})

seconds = st.integers(0, 10**15).map(lambda nanoseconds: nanoseconds / 10**9) | st.integers(0, 10**6).map(
    float
)


def durations(low, high):
    return st.integers(low * 1000, high * 1000).map(lambda ms: units.format_duration(ms / 1000))


def sizes(low, high):
    return st.integers(low, high).map(units.format_size)


money = st.integers(0, 10**6).map(lambda cents: units.format_money(cents / 1000))
words = st.text(string.printable.replace("\x0b", "").replace("\x0c", ""), max_size=12)
names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._/:-]{0,12}", fullmatch=True)


def some(**keys):
    return st.fixed_dictionaries({}, optional=keys)


@st.composite
def scalings(draw):
    least = draw(st.integers(0, 9))
    scaling = draw(
        some(
            window=durations(1, 3600),
            scale_down_delay=durations(0, 3600),
            concurrency_target=st.just("auto") | st.integers(1, 500) | st.floats(0.01, 500),
        )
    )
    scaling |= {"min_replicas": least, "max_replicas": draw(st.integers(max(1, least), 20))}
    if draw(st.booleans()):
        scaling["policy"] = "thresholds"
        scaling["thresholds"] = draw(
            some(
                max_latency_p95=durations(1, 3600),
                max_queue_depth=st.integers(11, 500),
                scale_up_cooldown=durations(0, 60),
            )
        )
    return scaling


@st.composite
def models(draw):
    model = draw(
        some(
            slots=st.integers(1, 512),
            price=money,
            routing=st.sampled_from(["least_tokens", "round_robin"]),
            queue=some(max_requests=st.integers(1, 10**6), max_size=sizes(1024, 2**40)),
            restarts=some(give_up_after=st.integers(1, 9), retry_failed=durations(1, 7000)),
            start_deadline=durations(1, 80_000),
            stop_grace=durations(0, 3600),
        )
    )
    model["scaling"] = draw(scalings())
    model["engine"] = draw(st.sampled_from(["vllm", "sglang", "trtllm", "emulated", "openai"]))
    if model["engine"] == "openai":
        model["command"] = ["sh", "{port}", *draw(st.lists(words.filter(lambda word: "{" not in word)))]
    else:
        model["weights"] = "llama-3.1-8b-h100x1" if model["engine"] == "emulated" else "org/model"
        model |= draw(
            some(
                context=st.integers(16, 10**6),
                args=st.lists(
                    words.filter(lambda word: not word.startswith("--")) | st.integers() | st.booleans()
                ),
                env=st.dictionaries(st.from_regex(r"[A-Z_]{1,8}", fullmatch=True), words, max_size=3),
                # TensorRT-LLM makes a path of any name.
                lora=st.just({})
                if model["engine"] == "trtllm"
                else st.dictionaries(names, st.just("org/adapter"), max_size=2),
                memory=sizes(2**20, 2**40),
            )
        )
    if units.parse_money(model.get("price", "0/h")) > 0:
        model |= draw(
            some(variants=st.dictionaries(st.sampled_from(["small", "b"]), variants(model["engine"])))
        )
    return model


def variants(engine):
    return st.fixed_dictionaries(
        {"price": st.integers(1, 10**6).map(lambda cents: units.format_money(cents / 1000))},
        optional={
            "slots": st.integers(1, 512),
            "max_replicas": st.integers(1, 99),
            "expected_start": st.just("1s"),
            "profile": st.just("llama-3.1-8b-l40sx1"),
        }
        | ({} if engine == "openai" else {"args": st.lists(st.just("x")), "env": st.just({"A": "1"})}),
    )


devices = st.dictionaries(st.integers(0, 15), st.none() | sizes(2**20, 2**40)).map(
    lambda found: [n if size is None else {"index": n, "memory": size} for n, size in sorted(found.items())]
)
policies = st.fixed_dictionaries(
    {"models": st.dictionaries(names, models(), min_size=1, max_size=3)},
    optional={
        "gateway": some(port=st.just(0), max_body_size=sizes(1024, 2**30), keepalive=durations(1, 3600)),
        "fleet": some(max_replicas=st.integers(1, 99), gpus=devices),
        "journal": st.just("off") | some(max_size=sizes(2**20, 2**40)),
    },
)


def problems_of(text):
    """Nothing else than a PolicyError may come out, and never an empty one."""
    try:
        parse(text, base=BASE)
    except PolicyError as refused:
        return refused.problems or ["refused without a reason"]
    return []


@settings(max_examples=50)  # each is loaded twice and written once: about 20 ms
@given(policies)
def test_whatever_loads_round_trips(policy):
    # A LoRA adapter may by chance be called like another model; that is refused, and not our subject.
    for name, model in policy["models"].items():
        if any(f"{name}:{adapter}" in policy["models"] for adapter in model.get("lora", {})):
            return
    loaded = parse(yaml.safe_dump(policy), base=BASE)

    assert parse(render(loaded), base=Path("/elsewhere")) == loaded


scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | words
    | st.sampled_from(["10s", "1GiB", "vllm", "1/h"])
)
trees = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(ALL_KEYS) | words, inner, max_size=4)
    ),
    max_leaves=25,
)


@given(st.dictionaries(st.sampled_from([*keys_of(SECTIONS[()]), "nonsense"]), trees, max_size=4))
def test_whatever_is_refused_says_which_key(policy):
    for problem in problems_of(yaml.safe_dump(policy, allow_unicode=True)):
        assert problem.key or not policy
        assert problem.message
        assert "\n" not in str(problem)


@given(st.text(max_size=200) | st.text("{}[]:,-&*!|>'\"%@`#? \n\tab1", max_size=60))
def test_any_text_loads_or_is_refused(text):
    for problem in problems_of(text):
        assert "\n" not in str(problem)


# Pieces of YAML and of policies, in any order: what a person, a template or a bad copy could leave in a file.
PIECES = [
    *ALL_KEYS,
    *(
        "models:",
        "gateway:",
        "fleet:",
        "journal:",
        "keys:",
        "m:",
        "static:",
        "gpus:",
        "engine: vllm",
        "weights: a/b",
    ),
    *(
        ": ",
        ":",
        "- ",
        "? ",
        ", ",
        "{",
        "}",
        "[",
        "]",
        "|",
        ">",
        "|2-",
        "&a ",
        "*a ",
        "<<: *a",
        "!!",
        "!x ",
        "!!str ",
    ),
    *(
        "!!binary ",
        "!!set ",
        "!!float ",
        "!!null ",
        "!!map ",
        "!!python/object:x ",
        "%YAML 1.1\n",
        "%TAG ! x\n",
    ),
    *("---", "...", "\n---\n", "#", "'", '"', "~", "null", "true", "yes", "off", "auto", "=", "<<"),
    *('"\\ud800"', '"\\udfff\\ud800"', '"\\U0010ffff"', '"\\UFFFFFFFF"', '"\\U00110000"', '"\\x00"', '"\\0"'),
    *(
        "0",
        "-0",
        "007",
        "1e999",
        "-1e999",
        ".5",
        ".inf",
        ".nan",
        "9" * 18,
        "9" * 5000,
        "0x10",
        "1_000",
        "1:30:00",
    ),
    *("\n", "\n  ", "\n    ", "\t", "\r", "\x85", "\u2028", "\ufeff", "\x00", "\x1b", "\ud83d", "é", "😀"),
    *(
        "http://h:1",
        "http://h:99999",
        "http://[::1]:1",
        "http://[:1",
        "127.0.0.1",
        "::",
        "2001-01-01",
        "package:x/y",
    ),
    *("10s", "80GiB", "2/h", "٣", "٣s", "²", "1٣GiB", "{port}", "{", "~user/x", "/", "..", "a" * 300),
]
yaml_ish = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=25).map("".join)


@settings(max_examples=400)
@given(yaml_ish)
def test_yaml_or_nearly_loads_or_is_refused(text):
    for problem in problems_of(text):
        assert "\n" not in str(problem)
        str(problem).encode()


@settings(max_examples=300)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["gateway", "fleet", "journal", "models.m", "models", "models.m.scaling"]),
            st.sampled_from(ALL_KEYS) | st.sampled_from(PIECES),
            st.sampled_from(PIECES),
        ),
        max_size=5,
    )
)
def test_any_value_in_any_place_loads_or_is_refused(lines):
    text = "models: {m: {engine: vllm, weights: a/b}}\n"
    for place, key, value in lines:
        *outer, last = place.split(".")
        opened = "".join(f"{word}: {{" for word in outer)
        text += f"{opened}{last}: {{{key}: {value}}}{'}' * len(outer)}\n"
    for candidate in (text, text.partition("\n")[2]):
        for problem in problems_of(candidate):
            assert "\n" not in str(problem)
            str(problem).encode()


@given(st.binary(max_size=80))
def test_any_file_loads_or_is_refused(tmp_path_factory, raw):
    path = tmp_path_factory.getbasetemp() / "policy.yaml"
    path.write_bytes(raw)
    with contextlib.suppress(PolicyError):
        load(path)


@given(seconds)
def test_a_duration_reads_back_as_it_was(value):
    assert units.parse_duration(units.format_duration(value)) == value


@given(st.integers(0, 2**50))
def test_a_size_reads_back_as_it_was(value):
    assert units.parse_size(units.format_size(value)) == value


@given(st.integers(0, 10**12).map(lambda millionths: millionths / 10**6))
def test_money_reads_back_as_it_was(value):
    assert units.parse_money(units.format_money(value)) == value
