"""Bytes that are not plainly a request: each is refused with its status, and the connection is closed."""

import hashlib
import json
import logging
import re

import pytest

from integration.gateway_world import CHAT, DONE, Engine, chat, post, wait_until, world
from tidegate.config.settings import Client, GatewaySettings
from tidegate.core.types import FlowId

HOST = b"Host: localhost\r\n"
JSON = b"Content-Type: application/json\r\n"
BODY = chat()
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
LINE = b"POST /v1/chat/completions HTTP/1.1\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
HIDDEN = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n"


def request(*fields, line=LINE, body=BODY):
    return line + b"".join(fields) + b"\r\n" + body


def chunked(body, *fields):
    return request(HOST, JSON, CHUNKED, *fields, body=body)


GOOD_CHUNK = b"%x\r\n%b\r\n" % (len(BODY), BODY)

MALFORMED = {
    "both lengths": (400, request(HOST, JSON, LENGTH, CHUNKED, body=b"0\r\n\r\n" + HIDDEN)),
    "both lengths, other order": (400, request(HOST, JSON, CHUNKED, LENGTH)),
    "two lengths": (400, request(HOST, JSON, LENGTH, b"Content-Length: 0\r\n")),
    "two equal lengths": (400, request(HOST, JSON, LENGTH, LENGTH)),
    "a list of lengths": (400, request(HOST, JSON, b"Content-Length: 5, 5\r\n")),
    "a negative length": (400, request(HOST, JSON, b"Content-Length: -1\r\n")),
    "a signed length": (400, request(HOST, JSON, b"Content-Length: +5\r\n")),
    "a hexadecimal length": (400, request(HOST, JSON, b"Content-Length: 0x5\r\n")),
    "an empty length": (400, request(HOST, JSON, b"Content-Length:\r\n")),
    "a length with an underscore": (400, request(HOST, JSON, b"Content-Length: 1_0\r\n")),
    "an endless length": (400, request(HOST, JSON, b"Content-Length: %b\r\n" % (b"9" * 40))),
    "digits that are not ASCII": (400, request(HOST, JSON, b"Content-Length: \xb2\r\n")),
    "two codings": (400, request(HOST, JSON, CHUNKED, CHUNKED)),
    "gzip, chunked": (400, request(HOST, JSON, b"Transfer-Encoding: gzip, chunked\r\n")),
    "identity": (400, request(HOST, JSON, b"Transfer-Encoding: identity\r\n")),
    "xchunked": (400, request(HOST, JSON, b"Transfer-Encoding: xchunked\r\n")),
    "quoted chunked": (400, request(HOST, JSON, b'Transfer-Encoding: "chunked"\r\n')),
    "chunked with a vertical tab": (400, request(HOST, JSON, b"Transfer-Encoding: \x0bchunked\r\n")),
    "chunked in capitals": (400, request(HOST, JSON, b"Transfer-Encoding: CHUNKED\r\n")),
    "a coding in HTTP/1.0": (400, request(HOST, JSON, CHUNKED, line=LINE.replace(b"1.1", b"1.0"))),
    "underscored length": (400, request(HOST, JSON, b"Content_Length: 5\r\n")),
    "underscored coding": (400, request(HOST, JSON, LENGTH, b"Transfer_Encoding: chunked\r\n")),
    "any underscore": (400, request(HOST, JSON, LENGTH, b"X_Y: 1\r\n")),
    "a space before the colon": (400, request(HOST, JSON, b"Content-Length : 5\r\n")),
    "a tab before the colon": (400, request(HOST, JSON, b"Transfer-Encoding\t: chunked\r\n")),
    "a space before a name": (400, request(HOST, JSON, b" Content-Length: 5\r\n")),
    "a folded line": (400, request(HOST, JSON, LENGTH, b"X: a\r\n b\r\n")),
    "a folded coding": (400, request(HOST, JSON, b"Transfer-Encoding:\r\n chunked\r\n")),
    "no colon": (400, request(HOST, JSON, LENGTH, b"nonsense\r\n")),
    "an empty name": (400, request(HOST, JSON, LENGTH, b": x\r\n")),
    "a bare LF after the line": (400, request(HOST, JSON, LENGTH, line=LINE[:-2] + b"\n")),
    "a bare LF after a field": (400, request(HOST, JSON, b"X: y\n", LENGTH)),
    "only LF": (400, request(HOST, JSON, LENGTH).replace(b"\r\n", b"\n")),
    "a bare CR in a field": (400, request(HOST, JSON, LENGTH, b"X: a\rb\r\n")),
    "CR CR LF": (400, request(HOST, JSON, LENGTH, b"X: a\r\r\n")),
    "a NUL in a value": (400, request(HOST, JSON, LENGTH, b"X: a\x00b\r\n")),
    "a NUL in a name": (400, request(HOST, JSON, LENGTH, b"X\x00: a\r\n")),
    "a control character": (400, request(HOST, JSON, LENGTH, b"X: a\x08\r\n")),
    "DEL": (400, request(HOST, JSON, LENGTH, b"X: a\x7f\r\n")),
    "a C1 control": (400, request(HOST, JSON, LENGTH, b"X: a\x85\r\n")),
    "no Host": (400, request(JSON, LENGTH)),
    "an empty Host": (400, request(b"Host: \r\n", JSON, LENGTH)),
    "two Hosts": (400, request(HOST, b"Host: other\r\n", JSON, LENGTH)),
    "two equal Hosts": (400, request(HOST, HOST, JSON, LENGTH)),
    "a user in Host": (400, request(b"Host: a@b\r\n", JSON, LENGTH)),
    "a slash in Host": (400, request(b"Host: a/b\r\n", JSON, LENGTH)),
    "a space in Host": (400, request(b"Host: a b\r\n", JSON, LENGTH)),
    "a list of Hosts": (400, request(b"Host: a, b\r\n", JSON, LENGTH)),
    "a strange port": (400, request(b"Host: a:b\r\n", JSON, LENGTH)),
    "a query in Host": (400, request(b"Host: a?b\r\n", JSON, LENGTH)),
    "half an IPv6 Host": (400, request(b"Host: [::1\r\n", JSON, LENGTH)),
    "another host in the target": (
        400,
        request(HOST, JSON, LENGTH, line=b"POST http://evil/v1/chat/completions HTTP/1.1\r\n"),
    ),
    "a user in the target": (
        400,
        request(HOST, JSON, LENGTH, line=b"POST http://a@localhost/v1/chat/completions HTTP/1.1\r\n"),
    ),
    "another scheme": (400, request(HOST, JSON, LENGTH, line=b"POST file:///etc/passwd HTTP/1.1\r\n")),
    "a broken IPv6 target": (400, request(HOST, JSON, LENGTH, line=b"POST http://[/ HTTP/1.1\r\n")),
    "a relative target": (400, request(HOST, JSON, LENGTH, line=b"POST v1/chat/completions HTTP/1.1\r\n")),
    "a fragment": (400, request(HOST, JSON, LENGTH, line=b"POST /v1/chat/completions#a HTTP/1.1\r\n")),
    "two spaces": (400, request(HOST, JSON, LENGTH, line=b"POST  /v1/chat/completions HTTP/1.1\r\n")),
    "a tab for a space": (400, request(HOST, JSON, LENGTH, line=b"POST\t/v1/chat/completions HTTP/1.1\r\n")),
    "a space in the target": (
        400,
        request(HOST, JSON, LENGTH, line=b"POST /v1/chat completions HTTP/1.1\r\n"),
    ),
    "no target": (400, request(HOST, JSON, LENGTH, line=b"POST HTTP/1.1\r\n")),
    "no version": (400, request(HOST, JSON, LENGTH, line=b"POST /v1/chat/completions\r\n")),
    "a lower-case version": (
        400,
        request(HOST, JSON, LENGTH, line=b"POST /v1/chat/completions http/1.1\r\n"),
    ),
    "a lower-case method": (400, request(HOST, JSON, LENGTH, line=LINE.replace(b"POST", b"post"))),
    "a method that nobody knows": (400, request(HOST, JSON, LENGTH, line=LINE.replace(b"POST", b"BREW"))),
    "HTTP/2.0": (505, request(HOST, JSON, LENGTH, line=LINE.replace(b"1.1", b"2.0"))),
    "HTTP/1.2": (505, request(HOST, JSON, LENGTH, line=LINE.replace(b"1.1", b"1.2"))),
    "HTTP/0.9": (505, request(HOST, JSON, LENGTH, line=LINE.replace(b"1.1", b"0.9"))),
    "HTTP/2's preface": (505, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    "a blank line first": (400, b"\r\n" + request(HOST, JSON, LENGTH)),
    "TLS": (400, bytes.fromhex("16030100a5010000a10303")),
    "CONNECT": (400, b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n"),
    "a body on GET": (400, b"GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc"),
    "chunks on GET": (
        400,
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    "an unknown expectation": (417, request(HOST, JSON, LENGTH, b"Expect: 200-ok\r\n")),
    "too many fields": (431, request(HOST, JSON, LENGTH, b"X: y\r\n" * 200)),
    "too large a head": (431, request(HOST, JSON, LENGTH, b"X: %b\r\n" % (b"y" * 20_000))),
    "a head without an end": (431, LINE + b"X: " + b"y" * 20_000),
    "a chunk size with an extension": (400, chunked(b"5;a=b\r\nabcde\r\n0\r\n\r\n")),
    "a chunk size with a space": (400, chunked(b"5 \r\nabcde\r\n0\r\n\r\n")),
    "a chunk size with a sign": (400, chunked(b"+5\r\nabcde\r\n0\r\n\r\n")),
    "a negative chunk": (400, chunked(b"-5\r\nabcde\r\n0\r\n\r\n")),
    "a chunk size with 0x": (400, chunked(b"0x5\r\nabcde\r\n0\r\n\r\n")),
    "an empty chunk size": (400, chunked(b"\r\nabcde\r\n0\r\n\r\n")),
    "a chunk size that overflows": (400, chunked(b"fffffffffffffffff\r\nabc")),
    "a chunk size line in LF": (400, chunked(b"5\nabcde\r\n0\r\n\r\n")),
    "a chunk that is longer": (400, chunked(b"5\r\nabcdefg\r\n0\r\n\r\n")),
    "a chunk that is shorter": (400, chunked(b"5\r\nabc\r\n0\r\n\r\n")),
    "a chunk that ends in LF": (400, chunked(b"5\r\nabcde\n0\r\n\r\n")),
    "a trailer": (400, chunked(GOOD_CHUNK + b"0\r\nX: y\r\n\r\n")),
    "a trailer with a length": (400, chunked(GOOD_CHUNK + b"0\r\nContent-Length: 5\r\n\r\n")),
    "a chunked body that is too large": (413, chunked(b"fffffff\r\nabc")),
    "too large a body": (413, request(HOST, JSON, b"Content-Length: 999999999\r\n")),
    "too many chunks": (400, chunked(b"1\r\nx\r\n" * 20_001)),
    "two content types": (400, request(HOST, JSON, JSON, LENGTH)),
    "two keys": (400, request(HOST, JSON, LENGTH, b"Authorization: Bearer a\r\n" * 2)),
    "a form": (415, request(HOST, LENGTH, b"Content-Type: application/x-www-form-urlencoded\r\n")),
    "no content type": (415, request(HOST, LENGTH)),
    "another character set": (
        415,
        request(HOST, LENGTH, b"Content-Type: application/json; charset=utf-16\r\n"),
    ),
    "a compressed body": (415, request(HOST, JSON, LENGTH, b"Content-Encoding: gzip\r\n")),
    "an upload without a boundary": (
        415,
        request(
            HOST,
            LENGTH,
            b"Content-Type: multipart/form-data\r\n",
            line=b"POST /v1/audio/translations HTTP/1.1\r\n",
        ),
    ),
    "another path with a body": (404, request(HOST, JSON, LENGTH, line=b"POST /v1/files HTTP/1.1\r\n")),
    "a dotted path": (404, request(HOST, JSON, LENGTH, line=b"POST /v1/../v1/chat/completions HTTP/1.1\r\n")),
    "a doubled slash": (404, request(HOST, JSON, LENGTH, line=b"POST //v1/chat/completions HTTP/1.1\r\n")),
    "an encoded path": (404, request(HOST, JSON, LENGTH, line=b"POST /v1/chat%2fcompletions HTTP/1.1\r\n")),
    "DELETE with a body": (405, request(HOST, JSON, LENGTH, line=LINE.replace(b"POST", b"DELETE"))),
}


@pytest.mark.parametrize("name", MALFORMED)
async def test_refused_and_closed(name):
    status, data = MALFORMED[name]
    engine = Engine()
    async with world(engine) as w:
        client = await w.connect()
        await client.send(data)
        answer = await client.read()
        assert answer.status == status
        assert set(answer.error) == {"message", "type", "param", "code"}
        assert answer.fields["connection"] == "close"
        assert answer.fields["x-should-retry"] == "false"
        # One answer and then the end: what was hidden behind the request is never looked at.
        assert await client.at_end()
        assert engine.asked == []
        assert not w.turns[2:] or all(type(turn[0]).__name__ == "Tick" for turn in w.turns[2:])


@pytest.mark.parametrize(
    "name", ["a trailer", "two Hosts", "a bare LF after a field", "a chunk that is longer"]
)
async def test_byte_by_byte_it_is_the_same(name):
    status, data = MALFORMED[name]
    async with world() as w:
        client = await w.connect()
        for at in range(len(data)):
            client.writer.write(data[at : at + 1])
            if at % 8 == 0:
                await wait_until(lambda: True)
        assert (await client.read()).status == status


@pytest.mark.parametrize(
    "good",
    [
        request(HOST, JSON, LENGTH, line=b"POST http://localhost/v1/chat/completions HTTP/1.1\r\n"),
        request(b"Host: [::1]:8400\r\n", JSON, LENGTH),
        request(b"hOsT: LocalHost:80\r\n", JSON, LENGTH),
        request(b"Host: 127.9.8.7:1\r\n", JSON, LENGTH),
        request(JSON, LENGTH, line=LINE.replace(b"1.1", b"1.0")),
        request(HOST, b"Content-Type: application/json; charset=utf-8\r\n", LENGTH),
        request(HOST, JSON, LENGTH, line=b"POST /v1/chat/completions?api-version=1 HTTP/1.1\r\n"),
        request(
            HOST,
            JSON,
            LENGTH,
            b"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: x\r\n",
        ),
        request(HOST, JSON, LENGTH, b"X: \t spaced  \t\r\n"),
        request(HOST, JSON, b"content-length:%d\r\n" % len(BODY)),
        chunked(b"000" + GOOD_CHUNK + b"0\r\n\r\n"),
    ],
)
async def test_what_is_unusual_and_clear_is_accepted(good):
    async with world() as w:
        assert (await w.ask(good)).status == 200


async def test_trace_is_refused():
    async with world() as w:
        client = await w.connect()
        await client.send(b"TRACE /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (await client.read()).status == 405


# ---- bodies ----

JSON_ABUSE = {
    "empty": (b"", None),
    "not JSON": (b"secret words", None),
    "half": (b'{"model":"m"', None),
    "more than one": (b'{"model":"m"}{"model":"secret"}', None),
    "a list": (b"[]", None),
    "a string": (b'"secret"', None),
    "null": (b"null", None),
    "a BOM": (b'\xef\xbb\xbf{"model":"m"}', None),
    "UTF-16": ('{"model":"m"}'.encode("utf-16"), None),
    "bad UTF-8 in the model": (b'{"model":"\xff"}', None),
    "bad UTF-8 elsewhere": (b'{"model":"m","messages":[{"content":"secret\xc0\xaf"}]}', None),
    "a raw NUL": (b'{"model":"m","x":"\x00"}', None),
    "NaN": (b'{"model":"m","temperature":NaN}', None),
    "Infinity": (b'{"model":"m","temperature":-Infinity}', None),
    "a comment": (b'{"model":"m"} // secret', None),
    "single quotes": (b"{'model':'m'}", None),
    "a trailing comma": (b'{"model":"m",}', None),
    "100,000 levels": (b'{"model":"m","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}", None),
    "100,000 levels of objects": (b'{"model":"m","x":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_001, None),
    "no model": (b"{}", "model"),
    "model null": (b'{"model":null}', "model"),
    "model empty": (b'{"model":""}', "model"),
    "model a number": (b'{"model":7}', "model"),
    "model an object": (b'{"model":{"a":"secret"}}', "model"),
    "model endless": (b'{"model":"%b"}' % (b"x" * 300), "model"),
    "stream a string": (b'{"model":"m","stream":"secret"}', "stream"),
    "stream a number": (b'{"model":"m","stream":1}', "stream"),
    "max_tokens negative": (b'{"model":"m","max_tokens":-1}', "max_tokens"),
    "max_tokens huge": (b'{"model":"m","max_tokens":99999999999}', "max_tokens"),
    "max_tokens endless": (b'{"model":"m","max_tokens":%b}' % (b"9" * 5000), "max_tokens"),
    "max_tokens broken": (b'{"model":"m","max_tokens":1.5}', "max_tokens"),
    "max_tokens a string": (b'{"model":"m","max_tokens":"secret"}', "max_tokens"),
    "max_tokens a boolean": (b'{"model":"m","max_tokens":true}', "max_tokens"),
    "max_completion_tokens negative": (b'{"model":"m","max_completion_tokens":-5}', "max_completion_tokens"),
    "max_output_tokens huge": (b'{"model":"m","max_output_tokens":1e30}', "max_output_tokens"),
    "n huge": (b'{"model":"m","n":100000}', "n"),
    "n zero": (b'{"model":"m","n":0}', "n"),
    "n a list": (b'{"model":"m","n":[1]}', "n"),
    "best_of huge": (b'{"model":"m","best_of":100000}', "best_of"),
    "n_discard negative": (b'{"model":"m","n_discard":-1}', "n_discard"),
    "top_logprobs negative": (b'{"model":"m","top_logprobs":-1}', "top_logprobs"),
    "stream_options a list": (b'{"model":"m","stream_options":[]}', "stream_options"),
    "include_usage a string": (
        b'{"model":"m","stream_options":{"include_usage":"secret"}}',
        "stream_options.include_usage",
    ),
}


@pytest.mark.parametrize("name", JSON_ABUSE)
async def test_a_bad_body_is_named_and_not_repeated(name, caplog):
    caplog.set_level(logging.DEBUG)
    body, param = JSON_ABUSE[name]
    async with world() as w:
        client = await w.connect()
        await client.send(post(body))
        answer = await client.read()
        assert answer.status == 400
        assert answer.error["param"] == param
        assert "secret" not in answer.body.decode()
        assert "secret" not in caplog.text
        # The HTTP was good, so the connection is too.
        await client.send(post(chat(stream=True)))
        assert (await client.read()).body.endswith(DONE)


@pytest.mark.parametrize(
    "form",
    [
        b"",
        b"--XX--\r\n",
        b'--XX\r\nContent-Disposition: form-data; name="file"\r\n\r\nx\r\n--XX--\r\n',
        b'--XX\r\nContent-Disposition: form-data; name="model"\r\n\r\n\r\n--XX--\r\n',
        b'--XX\r\nContent-Disposition: form-data; name="model"\r\n\r\nm\r\n',
        b'--XX\r\nContent-Disposition: form-data; name="model"\r\n\r\nm\r\n--XX\r\nContent-Disposition: form-data; name="model"\r\n\r\nm\r\n--XX--\r\n',
        b'--XX\nContent-Disposition: form-data; name="model"\n\nm\n--XX--\n',
        b"--XX\r\nContent-Type: text/plain\r\n\r\nm\r\n--XX--\r\n",
        b'preamble\r\n--XX\r\nContent-Disposition: form-data; name="model"\r\n\r\nm\r\n--XX--\r\n',
        b'--XX\r\nContent-Disposition: form-data; name="model"\r\n\r\n' + b"m" * 300 + b"\r\n--XX--\r\n",
        b'--XX\r\nContent-Disposition: form-data; name="model"\r\n\r\n\xff\r\n--XX--\r\n',
        b'--XX\r\nContent-Disposition: form-data; name="a"\r\n\r\n' * 150,
    ],
)
async def test_a_bad_form_is_refused(form):
    head = f"POST /v1/audio/transcriptions HTTP/1.1\r\nhost: localhost\r\ncontent-type: multipart/form-data; boundary=XX\r\ncontent-length: {len(form)}\r\n\r\n"
    async with world() as w:
        assert (await w.ask(head.encode() + form)).status == 400


@pytest.mark.parametrize("value", ["0", "-1", "x", "1e3", "nan", "inf", "9" * 40])
async def test_a_bad_time_limit_is_refused(value):
    async with world() as w:
        answer = await w.ask(post(chat(), fields=[f"x-request-timeout-s: {value}"]))
        assert (answer.status, answer.error["param"]) == (400, "x-request-timeout-s")


@pytest.mark.parametrize("sent", ["x" * 129, "a b", "a\tb", ""])
async def test_an_id_that_cannot_be_echoed_is_replaced(sent):
    async with world() as w:
        answer = await w.ask(post(chat(), fields=[f"x-request-id: {sent}"]))
        assert answer.fields["x-request-id"].startswith("req-")


@pytest.mark.parametrize(
    "data",
    [
        post(b"{"),
        post(chat(), path="/nowhere"),
        b"GET / HTTP/1.1\r\nhost: evil.example\r\n\r\n",
        b"no HTTP at all\r\n\r\n",
        post(json.dumps({"model": "nobody"}).encode()),
    ],
    ids=["body", "path", "host", "no head", "model"],
)
async def test_every_refusal_carries_an_id_of_ours_when_the_client_sent_none(data):
    async with world() as w:
        first, second = await w.ask(data), await w.ask(data)
        assert first.status >= 400
        assert first.fields["x-request-id"].startswith("req-")
        assert first.fields["x-request-id"] != second.fields["x-request-id"]


async def test_a_name_that_is_no_model_is_told_to_nobody_but_the_client():
    secret = "sk-" + "s3cr3t" * 20
    async with world() as w:
        answer = await w.ask(post(json.dumps({"model": secret}).encode()))
        assert (answer.status, answer.error["code"], answer.error["param"]) == (
            404,
            "model_not_found",
            "model",
        )
        assert answer.error["message"] == f"the model '{secret[:64]}...' is not configured here"
        assert w.outcomes() == ["rejected_unknown_model"]
        assert "s3cr3t" not in repr((w.turns, w.records))


async def test_an_id_that_is_used_twice_at_once_stays_apart_in_the_books():
    async with world() as w:
        w.publish(engines=[])
        clients = [await w.connect() for _ in range(3)]
        for client in clients:
            await client.send(post(chat(), fields=["x-request-id: same"]))
        await wait_until(lambda: w.owner.open_requests == 3)
        w.publish()
        for client in clients:
            assert (await client.read()).fields["x-request-id"] == "same"
        await wait_until(lambda: len(w.records) == 3)
        assert len({record.request_id for record in w.records}) == 3


async def test_413_is_readable_while_the_body_is_still_being_sent():
    settings = GatewaySettings(max_body_bytes=1000)
    async with world(settings=settings) as w:
        client = await w.connect()
        await client.send(post(b"x" * 3_000_000))
        answer = await client.read()
        assert (answer.status, answer.error["code"]) == (413, "request_too_large")


# ---- hosts and keys ----

FOREIGN = [
    "g",
    "evil.example",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "10.0.0.7:8400",
    "[2001:db8::1]",
]
PATHS = ["/v1/models", "/metrics", "/health", "/ready", "/nowhere"]


@pytest.mark.parametrize("host", FOREIGN)
async def test_without_keys_nothing_answers_to_a_name_that_a_web_page_could_have(host):
    engine = Engine()
    async with world(engine) as w:
        asked = [post(chat()), *(f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode() for path in PATHS)]
        for data in asked:
            name = b"\r\nhost: %b\r\n" % host.encode()
            answer = await w.ask(re.sub(rb"\r\nhost: [^\r]*\r\n", name, data))
            assert (answer.status, answer.error["code"]) == (421, "misdirected_request")
            assert set(answer.error) == {"message", "type", "param", "code"}
        assert engine.asked == []
        assert w.meters.refusals("unknown_host") == len(asked)


@pytest.mark.parametrize("host", [*FOREIGN, "G.example.com.:80"])
async def test_with_keys_any_well_formed_name_will_do(host):
    async with world(settings=GatewaySettings(keys=KEYS)) as w:
        good = post(chat(), fields=["authorization: Bearer sk-good"])
        assert (await w.ask(good.replace(b"host: localhost", b"host: " + host.encode()))).status == 200


KEYS = {hashlib.sha256(b"sk-good").hexdigest(): Client(FlowId("team-a"), 3)}


@pytest.mark.parametrize(
    "field",
    [
        None,
        "Bearer sk-bad",
        "sk-good",
        "Basic sk-good",
        "Bearer",
        "Bearer ",
        "Bearer  sk-good",
        "Bearer " + "x" * 600,
    ],
)
async def test_without_a_good_key_nothing_is_reached(field, caplog):
    caplog.set_level(logging.DEBUG)
    engine = Engine()
    async with world(engine, settings=GatewaySettings(keys=KEYS)) as w:
        fields = [] if field is None else [f"authorization: {field}"]
        answer = await w.ask(post(chat(), fields=fields))
        assert (answer.status, answer.error["code"]) == (401, "invalid_api_key")
        assert engine.asked == []
        assert "sk-" not in answer.body.decode() + caplog.text
        for path in ("/v1/models", "/metrics"):
            client = await w.connect()
            await client.send(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
            assert (await client.read()).status == 401
        client = await w.connect()
        await client.send(b"GET /ready HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert (await client.read()).status == 200


async def test_a_good_key_says_whose_the_request_is():
    async with world(settings=GatewaySettings(keys=KEYS)) as w:
        for scheme in ("Bearer", "bearer", "Bearer"):
            assert (await w.ask(post(chat(), fields=[f"authorization: {scheme} sk-good"]))).status == 200
        await wait_until(lambda: len(w.records) == 3)
        assert {record.flow for record in w.records} == {"team-a"}
        assert "sk-good" not in json.dumps([str(turn) for turn in w.turns])


async def test_every_path_but_the_probes_asks_for_a_key():
    from tidegate.gateway import routes

    async with world(settings=GatewaySettings(keys=KEYS)) as w:
        for path in routes.RELAYS:
            assert (await w.ask(post(chat(), path))).status == 401
        assert CHAT in routes.RELAYS
