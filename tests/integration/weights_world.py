"""A local server of weights in all their layouts, with faults on order, and fetching from it."""

import asyncio
import base64
import contextlib
import hashlib
import random
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import unquote, urlsplit

from aiohttp import web
from multidict import CIMultiDict

from tidegate.weights.fetching import Fetching
from tidegate.weights.pace import Pace
from tidegate.weights.settings import Endpoints
from tidegate.weights.signing import AwsKeys, signed_headers
from tidegate.weights.source import parsed
from tidegate.weights.store import Store
from tidegate.weights.web import Patience

MIB = 1024 * 1024
QUICK = Patience(connect_s=1.0, stall_s=0.4, first_wait_s=0.01, longest_wait_s=0.02, attempts=4)
KEYS = AwsKeys("AKIDTEST", "not-a-real-secret")
REGION = "eu-test-1"
TOKEN = "hub-token-of-the-test"
COMMIT = "c0ffee" * 6 + "c0ff"


def noise(size, seed=1):
    return random.Random(seed).randbytes(size)


def sha256(data):
    return hashlib.sha256(data).hexdigest()


@dataclass
class Asked:
    """One request, as it came."""

    method: str
    path: str
    range: tuple[int, int] | None
    headers: dict
    query: dict


@dataclass
class Sources:
    """What the server has and how it behaves. ``faults`` may answer in place of it; None lets it answer."""

    files: dict = field(default_factory=dict)
    etags: dict = field(default_factory=dict)
    faults: list = field(default_factory=list)
    asked: list = field(default_factory=list)
    knows_ranges: bool = True
    has_etags: bool = True
    sent_bytes: int = 0
    at_once: int = 0
    most_at_once: int = 0
    url: str = ""

    def put(self, path, data, etag=None):
        self.files[path] = data
        self.etags[path] = etag or f'"{sha256(data[:4096])[:16]}-{len(data)}"'
        return data

    def fault(self, answer):
        """Have ``answer(asked)`` a say in each answer from now on."""
        self.faults.append(answer)

    def fault_once(self, answer, times=1):
        left = Counter(times=times)

        async def once(asked, request):
            if left["times"] == 0:
                return None
            left["times"] -= 1
            given = await answer(asked, request)
            left["times"] += given is None
            return given

        self.faults.append(once)

    def ranges(self, path):
        """Spans of more than the first byte that were asked for."""
        return [a.range for a in self.asked if a.path == path and a.range not in (None, (0, 1))]

    async def handle(self, request):
        path = unquote(request.rel_url.raw_path)
        asked = Asked(request.method, path, _span(request), CIMultiDict(request.headers), dict(request.query))
        self.asked.append(asked)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            for fault in self.faults:
                given = await fault(asked, request)
                if given is not None:
                    return given
            return await self.answer(asked, request)
        finally:
            self.at_once -= 1

    async def answer(self, asked, request):
        if asked.path not in self.files:
            return web.Response(status=404, text="nothing here")
        return await self.send(request, asked, self.files[asked.path])

    async def send(self, request, asked, data, *, cut_after=None, pause_s=0.0, headers=None):
        """The file or the range of it, whole or cut off, at once or slowly."""
        headers = dict(headers or {})
        if self.has_etags:
            headers.setdefault("ETag", self.etags[asked.path])
        status, part = 200, data
        if asked.range is not None and self.knows_ranges:
            start, end = asked.range
            if start >= len(data):
                headers["Content-Range"] = f"bytes */{len(data)}"
                return web.Response(status=416, headers=headers)
            status, part = 206, data[start:end]
            headers["Content-Range"] = f"bytes {start}-{start + len(part) - 1}/{len(data)}"
        headers["Content-Length"] = str(len(part))
        response = web.StreamResponse(status=status, headers=headers)
        await response.prepare(request)
        if request.method == "HEAD":
            return response
        with contextlib.suppress(ConnectionError):
            for at in range(0, len(part), 64 * 1024):
                piece = part[at : at + 64 * 1024]
                if cut_after is not None and at + len(piece) > cut_after:
                    await response.write(piece[: cut_after - at])
                    request.transport.close()
                    return response
                await response.write(piece)
                self.sent_bytes += len(piece)
                if pause_s:
                    await asyncio.sleep(pause_s)
        return response


def _span(request):
    found = re.fullmatch(r"bytes=(\d+)-(\d+)", request.headers.get("Range", ""))
    return (int(found[1]), int(found[2]) + 1) if found else None


class Bucket(Sources):
    """Speaks like S3 and refuses what is not signed."""

    page_size = 2
    region = REGION

    async def answer(self, asked, request):
        if not self.is_signed(asked, request):
            return web.Response(status=403, text="<Error><Code>SignatureDoesNotMatch</Code></Error>")
        if asked.query.get("list-type") == "2":
            return self.list(asked)
        if asked.path not in self.files:
            return web.Response(status=404)
        headers = {}
        if asked.headers.get("x-amz-checksum-mode") == "ENABLED":
            digest = hashlib.sha256(self.files[asked.path]).digest()
            headers = {
                "x-amz-checksum-sha256": base64.b64encode(digest).decode(),
                "x-amz-checksum-type": "FULL_OBJECT",
            }
        return await self.send(request, asked, self.files[asked.path], headers=headers)

    def is_signed(self, asked, request):
        lower = {name.lower(): value for name, value in asked.headers.items()}
        stamp = lower.get("x-amz-date", "20000101T000000Z")
        when = datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        if abs(time.time() - when.timestamp()) > 900:
            return False
        extra = {"x-amz-checksum-mode": "ENABLED"} if "x-amz-checksum-mode" in lower else {}
        url = f"http://{lower['host']}{request.rel_url.raw_path}"
        expected = signed_headers(asked.method, url, asked.query, KEYS, self.region, when, extra)
        return lower.get("authorization") == expected["authorization"]

    def list(self, asked):
        prefix, bucket = asked.query["prefix"], asked.path
        keys = sorted(p.removeprefix(f"{bucket}/") for p in self.files if p.startswith(f"{bucket}/{prefix}"))
        start = int(asked.query.get("continuation-token", "0"))
        page = keys[start : start + self.page_size]
        rest = start + self.page_size < len(keys)
        following = f"<NextContinuationToken>{start + self.page_size}</NextContinuationToken>" if rest else ""
        entries = "".join(
            f"<Contents><Key>{key}</Key><Size>{len(self.files[f'{bucket}/{key}'])}</Size></Contents>"
            for key in page
        )
        body = (
            '<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<IsTruncated>{str(rest).lower()}</IsTruncated>{entries}{following}</ListBucketResult>"
        )
        return web.Response(text=body, content_type="application/xml")


class Hub(Sources):
    """Speaks like a hub: a list of files at a commit; large ones are redirected to another host."""

    repo = "org/tiny"
    storage = ""
    is_gated = False

    def add(self, name, data, *, lfs):
        self.put(f"/{self.repo}/resolve/{COMMIT}/{name}", data)
        self.listed = [*getattr(self, "listed", []), (name, data, lfs)]
        return data

    async def answer(self, asked, request):
        if self.is_gated and asked.headers.get("Authorization") != f"Bearer {TOKEN}":
            return web.Response(status=401)
        if asked.path == f"/api/models/{self.repo}/revision/main":
            return web.json_response({"id": self.repo, "sha": COMMIT, "siblings": self.siblings()})
        lfs = {f"/{self.repo}/resolve/{COMMIT}/{name}" for name, _, is_lfs in self.listed if is_lfs}
        if self.storage and asked.path in lfs:
            where = f"{self.storage}{asked.path}?X-Amz-Signature=secret-signature"
            return web.Response(status=302, headers={"Location": where})
        return await super().answer(asked, request)

    def siblings(self):
        found = []
        for name, data, lfs in self.listed:
            git = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
            entry = {"rfilename": name, "size": len(data), "blobId": git}
            if lfs:
                entry["lfs"] = {"sha256": sha256(data), "size": len(data), "pointerSize": 130}
            found.append(entry)
        return found


@contextlib.asynccontextmanager
async def serving(sources):
    """The server, at a free port."""
    runner = web.ServerRunner(web.Server(sources.handle), handle_signals=False, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    sources.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield sources
    finally:
        await runner.cleanup()


@dataclass
class Node:
    """A machine with a cache."""

    store: Store
    endpoints: Endpoints = Endpoints()
    told: list = field(default_factory=list)
    connections: int = 4
    patience: Patience = QUICK

    async def fetch(self, written, sha256=None, *, again=False, bytes_per_s=None):
        """What the source was found to be; the tree is in the store."""
        fetching = Fetching(
            self.store,
            parsed(written, sha256),
            self.endpoints,
            connections=self.connections,
            pace=Pace(bytes_per_s, time.monotonic),
            tell=self.told.append,
            patience=self.patience,
        )
        return await fetching.run(again=again)

    def read(self, written, sha256=None):
        """The bytes of a source of one file."""
        pin = self.store.pin(parsed(written, sha256))
        assert pin is not None
        try:
            return pin.path.read_bytes()
        finally:
            pin.let_go()


def host_of(url):
    return urlsplit(url).netloc
