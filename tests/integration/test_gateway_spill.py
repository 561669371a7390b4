"""Requests that find no room here and are answered by a pay-per-token upstream."""

import asyncio
import json
import logging
import shutil
import ssl
import subprocess
from hashlib import sha256

import pytest

from integration.gateway_world import (
    ANSWER,
    MODEL,
    STREAM_HEAD,
    Engine,
    chat,
    chunk,
    event,
    post,
    wait_until,
    whole_json,
    world,
)
from tidegate.config.settings import Client, GatewaySettings, ModelSettings, SpillUpstream
from tidegate.core.settings import DispatchConfig, FleetModel, QueueLimits, SpillBounds
from tidegate.core.types import FlowId, ModelId
from tidegate.gateway.outlet import outlets_of

KEY = "sk-not-for-logs"
PRICED = SpillBounds(prompt_price=0.001, output_price=0.01, max_cost_per_h=100.0)
CONFIG = DispatchConfig(queue=QueueLimits(max_requests=1), spill=PRICED)


def outlets(port, scheme="http", host="127.0.0.1"):
    spill = SpillUpstream(f"{scheme}://{host}:{port}/api/v1", "provider/model", "SPILL_KEY")
    model = ModelSettings(ModelId(MODEL), CONFIG, FleetModel("openai"), None, spill=spill)
    return outlets_of([model], {"SPILL_KEY": KEY})


class Full:
    """A world whose one replica is taken, with an upstream beside it."""

    def __init__(self, script=None, fields=(), **options):
        self.upstream = Engine(script)
        self._fields = fields
        self._options = options

    async def __aenter__(self):
        if not hasattr(self.upstream, "port"):
            await self.upstream.start()
        options = {"config": CONFIG, "outlets": outlets(self.upstream.port)} | self._options
        self._world = world(Engine(self._hold), slots=1, **options)
        made = await self._world.__aenter__()
        for _ in range(2):
            client = await made.connect()
            await client.send(post(chat(), fields=self._fields))
        await wait_until(lambda: made.owner.open_requests == 2)
        return made

    async def __aexit__(self, *error):
        await self._world.__aexit__(*error)
        await self.upstream.stop()

    @staticmethod
    async def _hold(asked):
        await asyncio.sleep(60)


async def test_who_finds_no_room_is_answered_from_there_and_told_so():
    full = Full()
    async with full as w:
        answer = await w.ask(post(chat(temperature=0.5)))
        assert answer.status == 200
        assert json.loads(answer.body) == ANSWER
        assert answer.fields["x-tidegate-spilt"] == "true"
    (asked,) = full.upstream.asked
    assert asked.head.startswith(b"POST /api/v1/chat/completions HTTP/1.1\r\n")
    assert json.loads(asked.body) == {
        "model": "provider/model",
        "messages": [],
        "stream": False,
        "temperature": 0.5,
    }
    (record,) = [record for record in w.records if record.spilt_cost is not None]
    assert record.spilt_cost == pytest.approx(7 * 0.001 + 2 * 0.01), "by the upstream's own count"


async def test_a_stream_passes_through_as_from_an_engine():
    full = Full()
    async with full as w:
        answer = await w.ask(post(chat(stream=True)))
        assert answer.body.count(b"data: ") == 4
        assert answer.body.endswith(b"data: [DONE]\n\n")
        assert answer.fields["x-tidegate-spilt"] == "true"
        record = w.records[-1]
        assert (record.output_tokens, record.ttft_s is not None) == (1, True)
        await wait_until(lambda: len(w.records) == 1)


async def test_of_the_client_s_head_nothing_leaves_and_of_theirs_little_comes_back():
    async def answers(asked):
        fields = (
            "set-cookie: a=b\r\nopenai-organization: us\r\nx-ratelimit-limit: 5\r\nx-request-id: theirs\r\n"
        )
        await asked.send(whole_json(fields=fields))

    full = Full(answers)
    async with full as w:
        mine = (
            "authorization: Bearer client-key",
            "x-request-id: mine",
            "traceparent: 00-aa-bb-01",
            "cookie: c=d",
        )
        answer = await w.ask(post(chat(), fields=mine))
    (asked,) = full.upstream.asked
    assert asked.fields.keys() == {
        "host",
        "authorization",
        "content-type",
        "accept",
        "accept-encoding",
        "content-length",
    }
    assert asked.fields["authorization"] == f"Bearer {KEY}"
    assert answer.fields.keys() == {"content-type", "content-length", "x-request-id", "x-tidegate-spilt"}
    assert answer.fields["x-request-id"] == "mine"


async def test_who_has_a_place_here_is_not_spilt():
    upstream = await Engine().start()
    async with world(Engine(), config=CONFIG, outlets=outlets(upstream.port)) as w:
        answer = await w.ask(post(chat()))
        assert answer.status == 200
        assert "x-tidegate-spilt" not in answer.fields
    assert upstream.asked == []
    await upstream.stop()


async def test_a_client_may_keep_its_request_in_the_house():
    full = Full()
    async with full as w:
        answer = await w.ask(post(chat(), fields=("x-tidegate-spill: never",)))
        assert answer.status == 429
    assert full.upstream.asked == []


async def test_a_tenant_s_requests_may_be_kept_in_the_house():
    keys = {
        sha256(b"house").hexdigest(): Client(FlowId("house"), may_spill=False),
        sha256(b"other").hexdigest(): Client(FlowId("other")),
    }
    full = Full(settings=GatewaySettings(keys=keys), fields=("authorization: Bearer other",))
    async with full as w:
        stays = await w.ask(post(chat(), fields=("authorization: Bearer house",)))
        goes = await w.ask(post(chat(), fields=("authorization: Bearer other",)))
    assert (stays.status, goes.status) == (429, 200)
    assert len(full.upstream.asked) == 1


async def test_speech_has_no_price_per_token_and_stays():
    full = Full()
    async with full as w:
        answer = await w.ask(post(json.dumps({"model": MODEL, "input": "x"}).encode(), "/v1/audio/speech"))
        assert answer.status == 429
    assert full.upstream.asked == []


@pytest.mark.parametrize(
    "status", ["401 Unauthorized", "402 Payment Required", "404 Not Found", "429 Too Many", "500 Oh"]
)
async def test_their_trouble_with_us_is_our_refusal_and_no_word_of_theirs_comes_through(status, caplog):
    async def answers(asked):
        await asked.send(whole_json({"error": {"message": f"your key {KEY} is wrong"}}, status=status))

    full = Full(answers)
    with caplog.at_level(logging.DEBUG, "tidegate"):
        async with full as w:
            answer = await w.ask(post(chat()))
            assert answer.status == 429
            assert "the queue is full" in answer.error["message"]
            assert "it was spilt, and the upstream failed" in answer.error["message"]
            assert "retry-after" in answer.fields
            assert w.records[-1].spilt_cost == 0.0
    assert len(full.upstream.asked) == 1, "nobody goes there twice"
    assert f"HTTP status {status[:3]}" in caplog.text
    assert KEY not in caplog.text + answer.raw.decode() + repr(w.turns) + repr(w.gateway)


async def test_a_client_s_own_mistake_is_said_as_they_say_it():
    async def answers(asked):
        await asked.send(
            whole_json({"error": {"message": "temperature is too high"}}, status="400 Bad Request")
        )

    async with Full(answers) as w:
        answer = await w.ask(post(chat(temperature=9)))
        assert (answer.status, answer.error["message"]) == (400, "temperature is too high")


async def test_a_client_that_leaves_ends_the_answer_there():
    async def endless(asked):
        await asked.send(STREAM_HEAD)
        while True:
            await asked.send(chunk(event("x")))
            await asyncio.sleep(0.005)

    full = Full(endless)
    async with full as w:
        client = await w.connect()
        await client.send(post(chat(stream=True)))
        await client.reader.readuntil(b"x-tidegate-spilt: true\r\n")
        await asyncio.sleep(0.1)
        client.cut()
        await asyncio.wait_for(full.upstream.asked[0].gone.wait(), 5.0)
        await wait_until(lambda: w.records)
        (record,) = w.records
        assert record.outcome.value == "client_gone"
        assert record.spilt_cost > 5 * 0.01, "what came until then is paid for"


async def test_a_stream_that_breaks_off_ends_with_an_error_event():
    async def breaks(asked):
        await asked.send(STREAM_HEAD + chunk(event("half")))
        await asyncio.sleep(0.05)
        asked.cut()

    async with Full(breaks) as w:
        answer = await w.ask(post(chat(stream=True)))
        assert b"the upstream for spilt requests failed in the middle" in answer.body
        assert w.records[-1].outcome.value == "failed_midstream"


async def test_what_came_before_it_broke_off_is_paid_for():
    async def breaks(asked):
        await asked.send(STREAM_HEAD)
        for _ in range(10):
            await asked.send(chunk(event("x")))
        await asyncio.sleep(0.02)
        asked.cut()

    async with Full(breaks) as w:
        await w.ask(post(chat(stream=True)))
        assert w.records[-1].outcome.value == "failed_midstream"
        assert w.records[-1].spilt_cost > 10 * 0.01, (
            "ten tokens and the prompt, though no sweep has counted them"
        )


async def test_an_upstream_that_nobody_hears_is_given_up_for_a_while(caplog):
    gone = await Engine().start()
    await gone.stop()
    async with Full(outlets=outlets(gone.port)) as w:
        first = await w.ask(post(chat()))
        second = await w.ask(post(chat()))
    assert "the upstream failed: connection refused" in first.error["message"]
    assert "spilt" not in second.error["message"], "it was not asked again"
    assert "cannot be reached" in caplog.text


async def test_a_connection_to_it_is_used_again():
    full = Full()
    async with full as w:
        for _ in range(3):
            assert (await w.ask(post(chat()))).status == 200
            await asyncio.sleep(0.05)  # sweeps look at what rests
    assert (len(full.upstream.asked), full.upstream.connections) == (3, 1)


async def test_after_a_change_of_the_policy_nothing_goes_to_the_former_address():
    """Nor over a connection that still rests there, with the key for the new one."""
    other = await Engine().start()
    full = Full()
    async with full as w:
        assert (await w.ask(post(chat()))).status == 200
        w.gateway.configure(w.settings, outlets(other.port))
        assert (await w.ask(post(chat()))).status == 200
        assert (len(full.upstream.asked), len(other.asked)) == (1, 1)
        w.gateway.configure(w.settings)
        gone = await w.ask(post(chat()))
        assert gone.status == 429
        assert "the upstream failed: connection refused" in gone.error["message"]
    await other.stop()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate for localhost that nobody trusts yet."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("there is no openssl to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    made, key = folder / "cert.pem", folder / "key.pem"
    words = f"req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost -keyout {key} -out {made}"
    subprocess.run([openssl, *words.split()], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made, key)
    return made, context


async def test_over_tls_to_whom_the_machine_trusts(certificate, monkeypatch):
    trusted, tls = certificate
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    full = Full(outlets=None)
    await full.upstream.start(tls=tls)
    full._options["outlets"] = outlets(full.upstream.port, "https", "localhost")
    async with full as w:
        assert json.loads((await w.ask(post(chat()))).body) == ANSWER
        stream = await w.ask(post(chat(stream=True)))
        assert stream.body.endswith(b"data: [DONE]\n\n")
        large = await w.ask(post(chat(padding="x" * 300_000)))
        assert large.status == 200
    assert len(full.upstream.asked[2].body) > 300_000


async def test_not_to_whom_nobody_vouches_for(certificate, caplog):
    _, tls = certificate
    full = Full(outlets=None)
    await full.upstream.start(tls=tls)
    full._options["outlets"] = outlets(full.upstream.port, "https", "localhost")
    async with full as w:
        answer = await w.ask(post(chat()))
        assert answer.status == 429
    assert full.upstream.asked == []
    assert "CERTIFICATE_VERIFY_FAILED" in caplog.text
