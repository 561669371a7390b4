"""Where spilt requests go, and what their heads say."""

from types import SimpleNamespace

import pytest

from tidegate.cli.outlets import outlets_for, tell_outlets
from tidegate.config import PolicyError, parse
from tidegate.config.settings import ModelSettings, SpillUpstream
from tidegate.core.settings import DispatchConfig, FleetModel
from tidegate.core.types import Address, ModelId
from tidegate.gateway.outlet import outlets_of
from tidegate.gateway.routes import RELAYS

KEY = "sk-secret"
POLICY = """
models:
  m:
    engine: vllm
    weights: org/model
    spill: {address: https://api.example.com/v1, model: theirs, key_env: THEIR_KEY, prompt_price: 1/M, output_price: 1/M}
"""


def outlet(address, environment=None):
    spill = SpillUpstream(address, "theirs", "THEIR_KEY")
    model = ModelSettings(ModelId("m"), DispatchConfig(), FleetModel("openai"), None, spill=spill)
    found = outlets_of([model], {"THEIR_KEY": KEY} if environment is None else environment)
    return next(iter(found.values()), None)


def head(made, path="/v1/chat/completions", *, streams=False):
    call = SimpleNamespace(relay=RELAYS[path], streams=streams)
    return made.head(call, 12).decode()


@pytest.mark.parametrize(
    "address, where, line, host",
    [
        ("https://api.example.com/v1", ("api.example.com", 443), "/v1/chat/completions", "api.example.com"),
        (
            "https://api.example.com/api/v1/",
            ("api.example.com", 443),
            "/api/v1/chat/completions",
            "api.example.com",
        ),
        (
            "https://api.example.com:8443",
            ("api.example.com", 8443),
            "/chat/completions",
            "api.example.com:8443",
        ),
        ("http://127.0.0.1/v1", ("127.0.0.1", 80), "/v1/chat/completions", "127.0.0.1"),
        ("http://[::1]:9000/v1", ("::1", 9000), "/v1/chat/completions", "[::1]:9000"),
    ],
)
def test_paths_and_hosts(address, where, line, host):
    made = outlet(address)
    assert made.route.address == Address(*where)
    assert made.tls is address.startswith("https")
    assert head(made).startswith(f"POST {line} HTTP/1.1\r\nhost: {host}\r\n")


def test_every_path_that_may_be_spilt_has_its_place_there():
    made = outlet("https://api.example.com/v1")
    spills = [path for path, relay in RELAYS.items() if relay.spills]
    assert spills == ["/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses"]
    assert [head(made, path).split()[1] for path in spills] == spills


def test_a_stream_is_asked_for_as_one():
    assert "\r\naccept: text/event-stream\r\n" in head(outlet("https://a.example"), streams=True)
    assert "\r\naccept: application/json\r\n" in head(outlet("https://a.example"))


def test_the_key_is_in_the_head_alone():
    made = outlet("https://api.example.com/v1")
    assert f"\r\nauthorization: Bearer {KEY}\r\n" in head(made)
    assert KEY not in repr(made)
    assert outlet("https://api.example.com/v1", environment={}) is None


def test_what_the_log_says_of_them(monkeypatch, caplog):
    settings = parse(POLICY)
    monkeypatch.setenv("THEIR_KEY", KEY)
    assert list(outlets_for(settings, None)) == ["m+spill"]
    tell_outlets(settings)
    assert (
        "go to https://api.example.com/v1, for 1.00/h at most; their prompts leave the house" in caplog.text
    )
    assert KEY not in caplog.text
    monkeypatch.delenv("THEIR_KEY")
    with pytest.raises(PolicyError, match="THEIR_KEY"):
        outlets_for(settings, None)
