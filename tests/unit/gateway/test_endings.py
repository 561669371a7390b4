import pytest

from tidegate.gateway.endings import is_whole_json


@pytest.mark.parametrize(
    "document, whole",
    [
        (b'{"choices":[{"index":0}]}', True),
        (b" [1, 2]\r\n", True),
        (b'"text"', True),
        (b'{"choices":[{"index":0}', False),
        (b'{"choices":[{"index":0}]', False),
        (b'{"text":"}', False),
        (b'{"a":1}}', False),
        (b"", False),
        (b"[" * 100_000 + b"]" * 100_000, False),
    ],
)
def test_a_document_is_whole_when_it_decodes(document, whole):
    assert is_whole_json(document) == whole
