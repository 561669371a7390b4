"""The worked examples of AWS: "Signature Calculations for the Authorization Header", S3 API reference."""

from datetime import UTC, datetime

import pytest

from tidegate.weights.signing import AwsKeys, canonical_query, signed_headers

KEYS = AwsKeys("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
NOW = datetime(2013, 5, 24, tzinfo=UTC)
HOST = "https://examplebucket.s3.amazonaws.com/"


@pytest.mark.parametrize(
    "query, signature",
    [
        ({"lifecycle": ""}, "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
        (
            {"max-keys": "2", "prefix": "J"},
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
        ),
    ],
)
def test_the_published_examples(query, signature):
    headers = signed_headers("GET", HOST, query, KEYS, "us-east-1", NOW)

    assert headers["authorization"].endswith(f"Signature={signature}")
    assert "SignedHeaders=host;x-amz-content-sha256;x-amz-date," in headers["authorization"]


def test_a_range_goes_along_unsigned_and_keys_are_not_shown():
    plain = signed_headers("GET", HOST, {}, KEYS, "us-east-1", NOW)
    ranged = signed_headers("GET", HOST, {}, KEYS, "us-east-1", NOW, {"range": "bytes=0-1"})

    assert ranged == {"range": "bytes=0-1", **plain}
    assert "wJalr" not in repr(KEYS)


def test_a_query_is_quoted_as_s3_does():
    assert canonical_query({"prefix": "a b/c+~", "list-type": "2"}) == "list-type=2&prefix=a%20b%2Fc%2B~"
