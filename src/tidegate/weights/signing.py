"""AWS Signature Version 4 for reading from S3 and what speaks like it.

docs.aws.amazon.com, "Create a signed AWS API request" (2012-2026): HMAC-SHA256 over a canonical form of the
request, with a key derived from day, region and service.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote, urlsplit

NO_BODY = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True, slots=True, repr=False)
class AwsKeys:
    """Who asks. Never shown."""

    access_key: str
    secret_key: str
    session_token: str | None = None


def signed_headers(
    method: str,
    url: str,
    query: Mapping[str, str],
    keys: AwsKeys,
    region: str,
    now: datetime,
    extra: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The headers with which S3 answers this request without a body.

    Args:
        method: ``GET`` or ``HEAD``.
        url: Scheme, host and quoted path; no query.
        query: Names and values, not quoted.
        keys: Who asks.
        region: Of the bucket.
        now: In UTC; S3 refuses what is more than 15 minutes off.
        extra: Further headers, in lower case. Only S3's own are signed: a proxy may change the others.
    """
    parts = urlsplit(url)
    stamp = now.strftime("%Y%m%dT%H%M%SZ")
    headers = {"host": parts.netloc, "x-amz-content-sha256": NO_BODY, "x-amz-date": stamp}
    headers |= {name: value for name, value in (extra or {}).items() if name.startswith("x-amz-")}
    if keys.session_token is not None:
        headers["x-amz-security-token"] = keys.session_token
    names = ";".join(sorted(headers))
    canonical = "\n".join(
        [
            method,
            parts.path or "/",
            canonical_query(query),
            *(f"{name}:{headers[name].strip()}" for name in sorted(headers)),
            "",
            names,
            NO_BODY,
        ]
    )
    scope = f"{stamp[:8]}/{region}/s3/aws4_request"
    told = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = f"AWS4{keys.secret_key}".encode()
    for part in (stamp[:8], region, "s3", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, told.encode(), "sha256").hex()
    headers["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={keys.access_key}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    return {**(extra or {}), **headers}


def canonical_query(query: Mapping[str, str]) -> str:
    """Sorted and quoted as S3 does before it checks the signature; to be sent just so."""
    pairs = sorted((quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in query.items())
    return "&".join(f"{name}={value}" for name, value in pairs)
