"""``tidegate weights``, as somebody types it."""

import asyncio
import json

import pytest
from click.testing import CliRunner

from integration.weights_world import MIB, Sources, noise, serving, sha256
from tidegate.cli.main import cli
from tidegate.weights.source import parsed
from tidegate.weights.store import Store

DATA = noise(3 * MIB)


@pytest.fixture
async def server():
    async with serving(Sources()) as sources:
        sources.put("/m.gguf", DATA)
        yield sources


async def tidegate(*words):
    """Exit code, standard output and standard error; in a thread, since the command has a loop of its own."""
    done = await asyncio.to_thread(CliRunner().invoke, cli, ["weights", *map(str, words)])
    return done.exit_code, done.stdout, done.stderr


async def test_fetch_list_and_prune(server, tmp_path):
    cache, url = tmp_path / "cache", f"{server.url}/m.gguf"
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        f"weights: {{cache_dir: cache}}\n"
        f"models: {{m: {{engine: llamacpp, weights: '{url}', weights_sha256: {sha256(DATA)}}}}}\n"
    )

    code, out, _ = await tidegate("fetch", "--policy", policy, "--json")
    (fetched,) = json.loads(out)["fetched"]
    assert code == 0
    assert fetched["sha256"] == sha256(DATA)
    assert fetched["bytes"] == fetched["fetched_bytes"] == len(DATA)
    assert fetched["path"] == str(cache / "trees" / sha256(DATA) / "m.gguf")

    pin = Store(cache).pin(parsed(url, sha256(DATA)))
    code, out, _ = await tidegate("list", "--cache-dir", cache, "--json")
    (kept,) = json.loads(out)["kept"]
    assert (kept["sources"], kept["in_use"], kept["kind"]) == ([url], True, "weights")
    code, out, _ = await tidegate("prune", "--cache-dir", cache, "--json")
    assert json.loads(out)["gone"] == []

    pin.let_go()
    code, out, _ = await tidegate("prune", "--policy", policy)
    assert code == 0
    assert f"{sha256(DATA)}     3.1 MB" in out
    assert "freed 3.1 MB" in out


async def test_what_cannot_be_fetched_is_said_in_a_line_without_the_signature(server, tmp_path):
    code, out, err = await tidegate(
        "fetch", f"{server.url}/gone?X-Amz-Signature=secret", "--cache-dir", tmp_path / "cache"
    )

    assert (code, out) == (1, "")
    assert f"{server.url}/gone answers 404: there is nothing there" in err
    assert "secret" not in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "words, said",
    [
        (["fetch"], "name a SOURCE, or a --policy whose models need some"),
        (["fetch", "ftp://x/y"], "SOURCE cannot be fetched; it must begin with one of https://"),
        (["prune", "--older-than", "soon"], "--older-than is soon; it must be a duration such as 12h or 7d"),
    ],
)
async def test_wrong_usage(words, said):
    code, _, err = await tidegate(*words)

    assert code == 2
    assert said in err
