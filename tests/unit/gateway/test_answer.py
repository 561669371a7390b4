import pytest

from tidegate.gateway.answer import read_head
from tidegate.gateway.flows import LengthFlow, OpenFlow, RechunkFlow
from tidegate.gateway.framing import ChunkFlow, Malformed


def head(*fields, status="HTTP/1.1 200 OK"):
    return ("\r\n".join((status, *fields)) + "\r\n\r\n").encode()


def for_client(raw, http10=False, keep_alive=True):
    answer, length = read_head(raw)
    return answer.for_client(b"id", length, http10=http10, keep_alive=keep_alive).decode().split("\r\n")


def test_only_end_to_end_headers_pass_and_the_request_id_is_ours():
    lines = for_client(
        head(
            "Date: today",
            "Server: uvicorn",
            "Connection: keep-alive, X-Hop",
            "Keep-Alive: timeout=5",
            "X-Hop: 1",
            "TE: trailers",
            "X-Request-Id: theirs",
            "X-Kept: a",
            "Content-Length: 3",
            "Content-Type: application/json",
        )
    )
    assert lines == [
        "HTTP/1.1 200 OK",
        "Date: today",
        "X-Kept: a",
        "Content-Type: application/json",
        "content-length: 3",
        "x-request-id: id",
        "",
        "",
    ]


def test_a_head_that_was_read_before_keeps_its_own_length():
    for length in (5, 77, 0, 123456):
        answer, told = read_head(head(f"Content-Length: {length}", "Content-Type: text/plain"))
        assert told == length
        assert isinstance(answer.flow(told), LengthFlow)
        assert f"content-length: {length}" in for_client(
            head(f"Content-Length: {length}", "Content-Type: text/plain")
        )


def test_two_lengths_are_refused_however_often_they_come():
    for first in (5, 6, 7):
        read_head(head(f"Content-Length: {first}"))
        with pytest.raises(Malformed):
            read_head(head(f"Content-Length: {first}", "Content-Length: 5"))
        with pytest.raises(Malformed):
            read_head(head("Content-Length: ", f"Content-Length: {first}"))
        with pytest.raises(Malformed):
            read_head(head("Content-Length: "))


@pytest.mark.parametrize(
    "fields, flow",
    [
        (["Transfer-Encoding: chunked"], ChunkFlow),
        (["Content-Type: text/event-stream", "Transfer-Encoding: Chunked"], ChunkFlow),
        (["Content-Type: text/event-stream", "Content-Length: 9"], RechunkFlow),
        (["Content-Type: text/event-stream"], RechunkFlow),
        (["Content-Type: application/json"], RechunkFlow),
        ([], OpenFlow),
        (["Content-Length: 9"], LengthFlow),
    ],
)
def test_how_the_body_comes(fields, flow):
    answer, length = read_head(head(*fields))
    assert type(answer.flow(length)) is flow


@pytest.mark.parametrize("status", ["HTTP/1.1 204 No Content", "HTTP/1.1 304 Not Modified"])
def test_some_statuses_have_no_body_whatever_they_say(status):
    for _ in range(2):
        answer, length = read_head(head("Content-Length: 5", status=status))
        assert answer.flow(length).ended
        assert "content-length: 5" not in for_client(head("Content-Length: 5", status=status))


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\nA: b\n\r\n\r\n",
        head("A: b", " folded"),
        head("Transfer-Encoding: gzip"),
        head("Transfer-Encoding: gzip", "Transfer-Encoding: chunked"),
        head("Transfer-Encoding: chunked", "Content-Length: 1"),
        head("Content-Length: -1"),
        head("Content-Length: 1x"),
        head("Content-Type: text/event-stream", "Content-Encoding: gzip"),
    ],
)
def test_what_is_not_clear_is_malformed(raw):
    with pytest.raises(Malformed):
        read_head(raw)


def test_a_stream_is_marked_for_the_proxies_in_between():
    stream = head("Content-Type: text/event-stream; charset=utf-8", "Transfer-Encoding: chunked")
    assert "cache-control: no-cache, no-transform" in for_client(stream)
    assert "transfer-encoding: chunked" in for_client(stream)
    assert "transfer-encoding: chunked" not in for_client(stream, http10=True)
    assert "connection: close" in for_client(stream, keep_alive=False)
    own = head("Content-Type: text/event-stream", "Cache-Control: no-store", "Transfer-Encoding: chunked")
    assert [line for line in for_client(own) if "ache-" in line] == ["Cache-Control: no-store"]
