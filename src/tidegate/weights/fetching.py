"""From a source to a tree in the store: list, make room, download, check, commit.

One process at a time fetches a source; others wait and find it here. What is here already is not fetched
again: contents are known by their checksum, whatever name or source they had.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from tidegate.weights.download import Download, Fetched
from tidegate.weights.errors import WeightsError, WrongChecksum
from tidegate.weights.listing import Listing, listing_of, signer_for
from tidegate.weights.pace import Pace
from tidegate.weights.partial import Partial
from tidegate.weights.refs import Ref, StoredFile, digest_of
from tidegate.weights.remote import Remote
from tidegate.weights.settings import Endpoints
from tidegate.weights.source import Source
from tidegate.weights.store import Store
from tidegate.weights.web import Patience, Web

_FILES_AT_ONCE = 4
_LOOK_AGAIN_S = 0.2
_TELL_EVERY_S = 0.5


@dataclass(frozen=True, slots=True)
class Progress:
    """How far it is."""

    done_bytes: int
    total_bytes: int | None
    """None until the source has said how much there is."""
    bytes_per_s: float | None
    """Over the time that was spent on it so far; None before the first byte."""
    is_waiting: bool = False
    """Another process fetches the same."""

    @property
    def left_s(self) -> float | None:
        """At this speed; None when it cannot be said."""
        if self.total_bytes is None or not self.bytes_per_s:
            return None
        return max(0, self.total_bytes - self.done_bytes) / self.bytes_per_s


Tell = Callable[[Progress], None]


class Fetching:
    """Fetches one source."""

    def __init__(
        self,
        store: Store,
        source: Source,
        endpoints: Endpoints,
        *,
        connections: int,
        pace: Pace,
        tell: Tell,
        spares_s: float = 0.0,
        patience: Patience | None = None,
    ) -> None:
        """``spares_s``: to make room, throw nothing away that was used within so many seconds."""
        self._store = store
        self._source = source
        self._endpoints = endpoints
        self._connections = connections
        self._pace = pace
        self._tell = tell
        self._spares_s = spares_s
        self._patience = patience or Patience()
        self._sizes: dict[str, int | None] = {}
        self._done_bytes = 0
        self._fetched_bytes = 0
        self._began_s: float | None = None
        self._was_slowed = False

    async def run(self, *, again: bool = False) -> Ref:
        """What the source is, once that is here.

        Args:
            again: Ask the source even if something of it is here; a branch may have moved.

        Raises:
            WeightsError: it cannot be had.
        """
        while True:
            if not again and (ref := self._store.ref(self._source)) is not None:
                return ref
            with self._store.fetching(self._source) as is_mine:
                if is_mine:
                    if not again and (ref := self._store.ref(self._source)) is not None:
                        return ref
                    return await self._fetch()
            self._tell(Progress(0, None, None, is_waiting=True))
            await asyncio.sleep(_LOOK_AGAIN_S)

    async def _fetch(self) -> Ref:
        self._began_s = time.monotonic()
        telling = asyncio.create_task(self._keep_telling())
        try:
            async with Web(
                signer_for(self._source, self._endpoints), self._patience, self._connections
            ) as web:
                listing = await listing_of(self._source, web, self._endpoints)
                self._sizes = {file.name: file.size for file in listing.files}
                self._make_room(listing)
                fetched = await self._download(web, listing)
        finally:
            telling.cancel()
        ref = self._ref(listing, fetched)
        self._store.commit(self._source, ref)
        self._tell(self._progress())
        return ref

    def _make_room(self, listing: Listing) -> None:
        missing = [file for file in listing.files if self._here(file) is None]
        begun = sum(
            path.stat().st_blocks * 512
            for path in self._store.partial(self._source, 0).parent.rglob("data")
            if path.is_file()
        )
        wanted = max(0, sum(file.size or 0 for file in missing) - begun)
        self._store.room.make(wanted, unused_for_s=self._spares_s)

    def _here(self, file: Remote) -> Fetched | None:
        blob = None if file.sha256 is None else self._store.blob(file.sha256)
        if blob is None or file.sha256 is None:
            return None
        return Fetched(file.sha256, blob.stat().st_size)

    async def _download(self, web: Web, listing: Listing) -> dict[str, Fetched]:
        turns = asyncio.Semaphore(self._connections)
        at_once = asyncio.Semaphore(_FILES_AT_ONCE)
        fetched: dict[str, Fetched] = {}

        async def one(number: int, file: Remote) -> None:
            async with at_once:
                fetched[file.name] = await self._one(web, number, file, turns)

        try:
            async with asyncio.TaskGroup() as group:
                for number, file in enumerate(listing.files):
                    group.create_task(one(number, file))
        except* WeightsError as errors:
            raise errors.exceptions[0] from None
        except* OSError as errors:
            raise errors.exceptions[0] from None
        return fetched

    async def _one(self, web: Web, number: int, file: Remote, turns: asyncio.Semaphore) -> Fetched:
        here = self._here(file)
        if here is not None:
            self._sizes[file.name] = here.size
            self._done_bytes += here.size
            return here
        partial = Partial(self._store.partial(self._source, number))

        def came(count: int, is_new: bool) -> None:
            self._done_bytes += count
            self._fetched_bytes += count if is_new else 0
            self._was_slowed |= self._pace.bytes_per_s is not None

        def is_long(size: int) -> None:
            if self._sizes[file.name] is None:
                self._store.room.make(size, unused_for_s=self._spares_s)
            self._sizes[file.name] = size

        download = Download(
            web,
            file,
            partial,
            turns=turns,
            connections=self._connections,
            pace=self._pace,
            on_bytes=came,
            on_size=is_long,
        )
        result = await download.run()
        self._store.keep(partial.data, result.sha256)
        return result

    def _ref(self, listing: Listing, fetched: dict[str, Fetched]) -> Ref:
        files = {name: StoredFile(each.size, each.sha256) for name, each in sorted(fetched.items())}
        digest = digest_of(files, is_folder=self._source.is_folder)
        if self._source.sha256 is not None and digest != self._source.sha256:
            raise WrongChecksum(f"{self._source.shown} has the SHA-256 {digest}, not {self._source.sha256}")
        assert self._began_s is not None
        is_measured = not self._was_slowed and self._fetched_bytes > 0
        return Ref(
            source=self._source.shown,
            digest=digest,
            is_folder=self._source.is_folder,
            files=files,
            revision=listing.revision,
            host=urlsplit(listing.files[0].url).netloc.rpartition("@")[2],
            fetched_bytes=self._fetched_bytes if is_measured else 0,
            fetched_in_s=time.monotonic() - self._began_s if is_measured else 0.0,
            fetched_at_s=time.time(),
        )

    # ---- telling ----

    async def _keep_telling(self) -> None:
        while True:
            self._tell(self._progress())
            await asyncio.sleep(_TELL_EVERY_S)

    def _progress(self) -> Progress:
        sizes = list(self._sizes.values())
        known = [size for size in sizes if size is not None]
        total = sum(known) if sizes and len(known) == len(sizes) else None
        spent_s = 0.0 if self._began_s is None else time.monotonic() - self._began_s
        speed = self._fetched_bytes / spent_s if self._fetched_bytes and spent_s > 0 else None
        return Progress(self._done_bytes, total, speed)
