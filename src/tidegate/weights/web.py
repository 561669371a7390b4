"""One careful request: redirects followed with the right headers, failures sorted into "again" and "never".

Nothing that aiohttp says about a failure is repeated: its words hold whole addresses, and a signed address
is a key.
"""

from __future__ import annotations

import asyncio
import email.utils
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

import aiohttp
from yarl import URL

from tidegate.weights.errors import WeightsError
from tidegate.weights.signing import AwsKeys, canonical_query, signed_headers
from tidegate.weights.source import shown

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_HOPS_MAX = 5
_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
_AFTER_MAX_S = 300.0
"""A source that asks for more patience than this is asked again anyway."""
_LISTING_MAX_BYTES = 64 * 1024 * 1024
READ_BYTES = 1024 * 1024


class Again(Exception):
    """It did not work and may work later."""

    def __init__(self, because: str, after_s: float | None = None) -> None:
        super().__init__(because)
        self.because = because
        self.after_s = after_s


class Signer(Protocol):
    """Who says, with each request, on whose behalf it is made."""

    def headers(
        self, method: str, url: str, query: Mapping[str, str], extra: Mapping[str, str]
    ) -> dict[str, str]:
        """All headers of this request, ``extra`` among them."""


class Anonymous:
    """Says nothing."""

    def headers(
        self, method: str, url: str, query: Mapping[str, str], extra: Mapping[str, str]
    ) -> dict[str, str]:
        """Those given."""
        return dict(extra)


class Bearer:
    """A token in each request, as hubs want it."""

    def __init__(self, token: str) -> None:
        self._token = token

    def headers(
        self, method: str, url: str, query: Mapping[str, str], extra: Mapping[str, str]
    ) -> dict[str, str]:
        """Those given and the token."""
        return {**extra, "authorization": f"Bearer {self._token}"}


class AwsSigner:
    """A signature over each request, as S3 wants it."""

    def __init__(self, keys: AwsKeys, region: str) -> None:
        self._keys = keys
        self._region = region

    def headers(
        self, method: str, url: str, query: Mapping[str, str], extra: Mapping[str, str]
    ) -> dict[str, str]:
        """Those given, signed."""
        return signed_headers(method, url, query, self._keys, self._region, datetime.now(UTC), extra)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a source is put up with."""

    connect_s: float = 10.0
    stall_s: float = 30.0
    """A connection without a byte for so long is given up."""
    first_wait_s: float = 0.5
    """Before the second attempt; doubles up to ``longest_wait_s``."""
    longest_wait_s: float = 30.0
    attempts: int = 6
    """In a row without a byte."""


class Web:
    """Requests to one source. Use it in an ``async with`` block."""

    def __init__(self, signer: Signer, patience: Patience, connections: int) -> None:
        self._signer = signer
        self.patience = patience
        self._connections = connections
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Web:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._connections + 2),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=self.patience.connect_s, sock_read=self.patience.stall_s
            ),
            read_bufsize=READ_BYTES,
            # Proxies, and names and passwords in ~/.netrc, as curl does it.
            trust_env=True,
            auto_decompress=False,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    @asynccontextmanager
    async def request(
        self,
        method: str,
        url: str,
        query: Mapping[str, str] | None = None,
        extra: Mapping[str, str] | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer, any of 2xx and 416; redirects have been followed.

        Raises:
            Again: it may work later.
            WeightsError: it will not.
        """
        assert self._session is not None
        query, extra = query or {}, {"accept-encoding": "identity", **(extra or {})}
        origin = URL(url, encoded=True).origin()
        at = URL(f"{url}?{canonical_query(query)}" if query else url, encoded=True)
        try:
            for _ in range(_HOPS_MAX + 1):
                # What says who we are is for the source alone, never for where it sends us.
                is_home = at.origin() == origin
                headers = self._signer.headers(method, url, query, extra) if is_home else dict(extra)
                response = await self._session.request(method, at, headers=headers, allow_redirects=False)
                async with response:
                    if response.status in _REDIRECTS:
                        at = _next_hop(at, response)
                        url, query = str(at.with_query(None)), dict(at.query)
                        continue
                    _check(response, shown(str(at)))
                    yield response
                    return
        except TimeoutError:
            raise Again(f"{at.host} sent nothing for {self.patience.stall_s:g} s") from None
        except aiohttp.ClientConnectorError as error:
            why = error.os_error.strerror or type(error).__name__
            raise Again(f"no connection to {at.host} ({why})") from None
        except (aiohttp.ClientError, ConnectionError) as error:
            raise Again(f"the connection to {at.host} was cut ({type(error).__name__})") from None
        raise WeightsError(f"{shown(url)} redirects more than {_HOPS_MAX} times")

    async def read(
        self,
        method: str,
        url: str,
        query: Mapping[str, str] | None = None,
        extra: Mapping[str, str] | None = None,
    ) -> tuple[bytes, Mapping[str, str]]:
        """Body and headers of a small answer, after as many attempts as it is worth.

        Raises:
            WeightsError: it cannot be had.
        """
        waits = Waits(self.patience)
        while True:
            try:
                async with self.request(method, url, query, extra) as response:
                    body = await response.content.read(_LISTING_MAX_BYTES + 1)
                    while not response.content.at_eof() and len(body) <= _LISTING_MAX_BYTES:
                        body += await response.content.read(READ_BYTES)
                    if len(body) > _LISTING_MAX_BYTES:
                        raise WeightsError(f"the list at {shown(url)} has no end")
                    return body, response.headers
            except Again as again:
                await waits.after(again)


class Waits:
    """Counts failures in a row and waits longer after each."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._failures = 0

    def forget(self) -> None:
        """Something came."""
        self._failures = 0

    async def after(self, again: Again) -> None:
        """Wait before the next attempt.

        Raises:
            WeightsError: there have been enough.
        """
        self._failures += 1
        if self._failures >= self._patience.attempts:
            raise WeightsError(f"{again.because}, {self._failures} times in a row") from None
        wait_s = min(self._patience.longest_wait_s, self._patience.first_wait_s * 2 ** (self._failures - 1))
        await asyncio.sleep(max(wait_s, again.after_s or 0.0))


def _next_hop(at: URL, response: aiohttp.ClientResponse) -> URL:
    try:
        following = at.join(URL(response.headers["location"], encoded=True))
        following.origin()
    except (KeyError, ValueError):
        raise WeightsError(f"{shown(str(at))} redirects to nowhere") from None
    if following.scheme != "https" and (at.scheme == "https" or following.scheme != "http"):
        raise WeightsError(f"{shown(str(at))} redirects to {following.scheme}://, which is less safe")
    return following


def _check(response: aiohttp.ClientResponse, where: str) -> None:
    status = response.status
    if status < 300 or status == 416:
        return
    if status in _AGAIN:
        raise Again(f"{where} answers {status}", _retry_after_s(response.headers.get("retry-after")))
    if status in (401, 403):
        raise WeightsError(
            f"{where} answers {status}: it needs a key, another one, or one that is still good"
        )
    if status in (404, 410):
        raise WeightsError(f"{where} answers {status}: there is nothing there")
    raise WeightsError(f"{where} answers {status}")


def _retry_after_s(written: str | None) -> float | None:
    """Seconds, or a moment; at most five minutes."""
    if written is None:
        return None
    if written.strip().isdecimal():
        return min(float(written), _AFTER_MAX_S)
    try:
        moment = email.utils.parsedate_to_datetime(written)
    except ValueError:
        return None
    return max(0.0, min(moment.timestamp() - time.time(), _AFTER_MAX_S))
