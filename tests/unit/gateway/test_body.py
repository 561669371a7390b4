import json

import pytest

from tidegate.adapters import lora
from tidegate.gateway.body import HEADROOM, read_json
from tidegate.gateway.errors import Refusal
from tidegate.gateway.multipart import boundary_of, read_form


def asked(**fields):
    return read_json(json.dumps({"model": "m"} | fields).encode())


@pytest.mark.parametrize(
    "fields, limit",
    [
        ({}, None),
        ({"max_tokens": 5}, 5),
        ({"max_tokens": 5, "max_completion_tokens": 7}, 7),
        ({"max_output_tokens": 9}, 9),
        ({"max_tokens": 5, "n": 3}, 15),
        ({"max_tokens": 5, "n": 1, "best_of": 4}, 20),
        ({"max_tokens": None, "n": None}, None),
        ({"max_tokens": 4.0, "n": 2e0}, 8),
    ],
)
def test_the_most_tokens_that_an_answer_may_have(fields, limit):
    assert asked(**fields).output_tokens_limit == limit


def test_what_is_not_needed_may_be_anything():
    assert (
        asked(messages=[{"role": "user", "content": "é\U0001f600"}], temperature=1e300, user=None).model
        == "m"
    )


def test_a_form_is_searched_for_two_fields_only():
    form = (
        b'--b-b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n'
        b'Content-Disposition: form-data; name="model"\r\n\r\nfake\r\n--b\r\n'
        b'\r\n--b-b\r\ncontent-disposition:form-data;name="stream"\r\n\r\ntrue'
        b'\r\n--b-b\r\nContent-Type: text/plain\r\nContent-Disposition: form-data; name="model"\r\n\r\nm-1\r\n--b-b--\r\n'
    )
    found = read_form(form, b"b-b")
    assert (found.model, found.stream) == ("m-1", True)


@pytest.mark.parametrize(
    "value, boundary",
    [
        (b"multipart/form-data; boundary=abc", b"abc"),
        (b'Multipart/Form-Data;boundary="a b"', b"a b"),
        (b"multipart/form-data", None),
        (b"multipart/form-data; boundary=", None),
        (b"multipart/form-data; boundary=" + b"a" * 71, None),
        (b"multipart/form-data; boundary=a\r\nX: y", None),
        (b"multipart/form-data; boundary=a; charset=x", None),
        (b"multipart/mixed; boundary=a", None),
    ],
)
def test_a_boundary(value, boundary):
    assert boundary_of(value) == boundary


def nested(levels, opening, closing):
    return b'{"model":"m","x":' + opening * levels + b"1" + closing * levels + b"}"


def deeper(calls, function, *arguments):
    """The same call from so many calls further down."""
    return deeper(calls - 1, function, *arguments) if calls else function(*arguments)


def or_refusal(calls, body):
    try:
        return deeper(calls, read_json, body)
    except Refusal as refusal:
        return refusal


@pytest.mark.parametrize("opening, closing", [(b"[", b"]"), (b'{"a":', b"}"), (b'[{"a":', b"}]")])
def test_whatever_the_depth_a_body_is_read_or_refused_and_what_was_read_can_be_read_again(opening, closing):
    read, refused = 0, 0
    for levels in (*range(300, 1100, 7), 5_000, 100_000):
        body = nested(levels, opening, closing)
        for calls in (0, 50, 200):
            asked = or_refusal(calls, body)
            if isinstance(asked, Refusal):
                refused += 1
                assert asked.status == 400
            else:
                read += 1
                # A body is rewritten for its engine from elsewhere in the stack.
                assert deeper(calls + HEADROOM // 2, lora.fields_of, body) is not None
        lora.fields_of(body)
    assert read
    assert refused


@pytest.mark.parametrize("value", ["4.5", "1e300", "-1.0", '"4"', "true"])
def test_a_number_of_tokens_is_a_whole_number_within_its_range_however_it_is_written(value):
    with pytest.raises(Refusal) as refused:
        read_json(b'{"model": "m", "max_tokens": %b}' % value.encode())
    assert (refused.value.status, refused.value.param) == (400, "max_tokens")
