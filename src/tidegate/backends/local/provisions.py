"""What an engine needs on this disk before it starts: its weights, its adapters, a place for what it compiles."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace

from tidegate.backends.base import Report
from tidegate.backends.local.model import LocalModel
from tidegate.backends.local.pulling import Puller
from tidegate.core.events import WeightsSeen
from tidegate.core.nodes import LOCAL
from tidegate.core.types import Address, ModelId
from tidegate.weights import compiled
from tidegate.weights.compiled import CompileCaches, Compiled
from tidegate.weights.errors import WeightsError
from tidegate.weights.needs import needs, with_paths
from tidegate.weights.pins import Pin
from tidegate.weights.protocol import Done, Going
from tidegate.weights.settings import WeightsSettings
from tidegate.weights.source import Source, is_remote, parsed

log = logging.getLogger("tidegate.backends.local")

_TELL_EVERY_S = 2.0
_ANYWHERE = Address("127.0.0.1", 0)


@dataclass(slots=True)
class Provision:
    """One replica's. All of it stays on the disk until it is let go."""

    model: LocalModel
    """With paths in place of sources."""
    pins: list[Pin] = field(default_factory=list)
    compiled: Compiled | None = None
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def descriptors(self) -> list[int]:
        """To be inherited: an engine that outlives this process goes on holding what it uses."""
        pins = [*self.pins, *([self.compiled.pin] if self.compiled is not None else [])]
        return [pin.descriptor for pin in pins]

    def let_go(self) -> None:
        """Idempotent."""
        for pin in self.pins:
            pin.let_go()
        if self.compiled is not None:
            self.compiled.pin.let_go()


class Provisions:
    """Gets what engines need, and tells the controller what is here and how fast the rest comes."""

    def __init__(self, settings: WeightsSettings | None, environ: Mapping[str, str], report: Report) -> None:
        """``environ`` is what engines get of ours; without settings nothing can be fetched or compiled for later."""
        self._settings = settings
        self._environ = environ
        self._report = report
        self._puller = None if settings is None else Puller(settings, self._fetched)
        self._caches = CompileCaches()
        self._models: dict[ModelId, LocalModel] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.compiled_hits = 0
        self.compiled_misses = 0

    @property
    def puller(self) -> Puller | None:
        """Who has them fetched."""
        return self._puller

    async def configure(self, models: Mapping[ModelId, LocalModel], settings: WeightsSettings | None) -> None:
        """These models may be asked for; the controller hears what of their weights is here."""
        self._models = dict(models)
        if settings is not None and self._puller is not None:
            # Another folder holds from the next start on: what runs is in this one.
            here = self._settings.cache_dir if self._settings is not None else settings.cache_dir
            self._settings = replace(settings, cache_dir=here)
            self._puller.configure(self._settings)
        await self._tell_all()

    async def of(self, model: LocalModel, tell: Callable[[str], None]) -> Provision:
        """Everything for one replica.

        Args:
            model: With sources.
            tell: Hears how far it is, every two seconds while something is fetched.

        Raises:
            WeightsError: something cannot be had.
        """
        provision = Provision(model)
        try:
            paths = {}
            for written, source in needs(model.spec).items():
                pin = await self._pull(source, tell)
                provision.pins.append(pin)
                paths[written] = str(pin.path)
            provision.model = replace(model, spec=with_paths(model.spec, paths))
            await self._add_compiled(provision, model)
        except BaseException:
            provision.let_go()
            raise
        return provision

    async def add(self, provision: Provision, written: str) -> str:
        """The path of one more thing that a replica's engine needs; it stays on the disk as the others do.

        Raises:
            WeightsError: it cannot be had.
        """
        if not is_remote(written):
            return written
        pin = await self._pull(parsed(written), lambda _detail: None)
        provision.pins.append(pin)
        return str(pin.path)

    async def of_adopted(self, model: LocalModel) -> Provision:
        """For a replica that runs already. What it uses it holds by itself; this only knows it again."""
        provision = Provision(model)
        if self._puller is None:
            return provision
        paths = {}
        for written, source in needs(model.spec).items():
            pin = await asyncio.to_thread(self._puller.store.pin, source)
            if pin is not None:
                provision.pins.append(pin)
                paths[written] = str(pin.path)
        provision.model = replace(model, spec=with_paths(model.spec, paths))
        return provision

    def note_ready(self, provision: Provision) -> None:
        """Its engine has given its first token: what it compiled is there for the next one."""
        if provision.compiled is None:
            return
        if provision.compiled.is_hit:
            self.compiled_hits += 1
        else:
            self.compiled_misses += 1
        try:
            provision.compiled.note_ready()
        except OSError as error:
            log.warning("what an engine compiled cannot be noted: %s", error)

    def fetch_ahead(self, model: ModelId) -> None:
        """Have a model's weights here some time soon; nobody waits for them yet."""
        local = self._models.get(model)
        if local is None or self._puller is None:
            return
        for source in needs(local.spec).values():
            self._later(self._fetch_ahead(self._puller, source))

    async def _fetch_ahead(self, puller: Puller, source: Source) -> None:
        await puller.fetch_ahead(source)
        # Also when it was here before, by somebody else's hand: the controller would order it again and again.
        await self._tell_all()

    def _later(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """What is on its way stays there, to be taken up."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._puller is not None:
            await self._puller.close()

    # ---- weights ----

    async def _pull(self, source: Source, tell: Callable[[str], None]) -> Pin:
        if self._puller is None:
            raise WeightsError("no folder is configured to keep them in")
        telling = _Telling(source, tell)
        return await self._puller.pull(source, telling)

    def _fetched(self, source: Source, done: Done) -> None:
        log.info("weights from %s are here: %d bytes", source.shown, done.bytes)
        # Of all models: others' weights may have been thrown away for these.
        self._later(self._tell_all())

    async def _tell_all(self) -> None:
        for model, local in self._models.items():
            sources = list(needs(local.spec).values())
            if sources and self._puller is not None:
                seen = await asyncio.to_thread(self._seen, model, sources)
                self._report(seen)

    def _seen(self, model: ModelId, sources: list[Source]) -> WeightsSeen:
        """What is here of a model's weights, and what fetching them was like the last time."""
        assert self._puller is not None
        store = self._puller.store
        refs = [store.known(source) for source in sources]
        missing = [store.missing_bytes(source) for source in sources]
        known = [ref for ref in refs if ref is not None]
        return WeightsSeen(
            model,
            LOCAL,
            known[0].host if known else "",
            sum(ref.bytes for ref in known) if len(known) == len(sources) else None,
            sum(each or 0 for each in missing) if None not in missing else None,
            sum(ref.fetched_bytes for ref in known),
            sum(ref.fetched_in_s for ref in known),
        )

    # ---- compiled engines ----

    async def _add_compiled(self, provision: Provision, ordered: LocalModel) -> None:
        cache = ordered.adapter.compile_cache
        if (
            cache is None
            or self._puller is None
            or self._settings is None
            or not self._settings.keeps_compiled
        ):
            return
        gpus = range(ordered.gpus_per_replica)
        spec = provision.model.spec
        argv = ordered.adapter.command(spec, _ANYWHERE, gpus)
        environ = {**self._environ, **ordered.adapter.environment(spec, gpus)}
        try:
            found = await self._caches.folder(
                self._puller.store, cache, argv, environ, gpus, ordered.command_hash()
            )
        except OSError as error:
            log.warning("what the engine of %s compiles cannot be kept: %s", ordered.model, error)
            return
        if found is None:
            log.info(
                "what the engine of %s is made of cannot be read; what it compiles is not kept", ordered.model
            )
            return
        provision.compiled = found
        provision.environment = compiled.environment(cache, found.pin.path)


class _Telling:
    """Progress in words, now and then."""

    def __init__(self, source: Source, tell: Callable[[str], None]) -> None:
        self._source = source
        self._tell = tell
        self._next_s = 0.0

    def __call__(self, going: Going) -> None:
        now_s = time.monotonic()
        if now_s >= self._next_s:
            self._next_s = now_s + _TELL_EVERY_S
            self._tell(progress_in_words(going))


def progress_in_words(going: Going) -> str:
    """``3.2 GB of 15.0 GB, 410 MB/s, 29 s left``."""
    if going.is_waiting:
        return "another process fetches its weights"
    if going.total_bytes is None:
        return f"{_size(going.done_bytes)} of its weights are here"
    words = f"{_size(going.done_bytes)} of {_size(going.total_bytes)}"
    if going.bytes_per_s:
        left_s = max(0, going.total_bytes - going.done_bytes) / going.bytes_per_s
        words += f", {going.bytes_per_s / 1e6:.0f} MB/s, {left_s:.0f} s left"
    return words


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"
