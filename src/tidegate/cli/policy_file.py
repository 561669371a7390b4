"""The policy file of a running Tidegate: looked at each second, read again when it has changed."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tidegate.config import PolicyError, load
from tidegate.config.settings import Settings

log = logging.getLogger("tidegate")


class PolicyFile:
    """Hands over what the file says now, whole, or says why not and changes nothing."""

    def __init__(
        self, path: Path | None, overrides: Mapping[str, Any], take_over: Callable[[Settings], None]
    ) -> None:
        """``overrides`` of its ``gateway`` keys outlive a change; ``take_over`` may raise PolicyError."""
        self.path = path
        self._overrides = dict(overrides)
        self._take_over = take_over
        self._stamp = _stamp(path)
        self._reading: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<PolicyFile {self.path}>"

    def look(self) -> None:
        """Read it again if it has changed."""
        if _stamp(self.path) != self._stamp:
            self.reload()

    def reload(self) -> None:
        """Begin to read it again, unless that is under way."""
        if self.path is None or (self._reading is not None and not self._reading.done()):
            return
        self._stamp = _stamp(self.path)
        self._reading = asyncio.create_task(self._read(self.path), name="reload")

    async def _read(self, path: Path) -> None:
        try:
            # In a thread: a file of a hundred models takes 85 ms to read, a hostile one seconds.
            new = await asyncio.to_thread(load, path)
            gateway = dataclasses.replace(new.gateway, **self._overrides)
            self._take_over(dataclasses.replace(new, gateway=gateway))
        except (PolicyError, OSError) as error:
            log.warning("the policy file was changed and is not usable; nothing changes:\n%s", error)
        except Exception:
            log.exception("the policy file was changed and could not be taken over")


def _stamp(path: Path | None) -> tuple[int, int] | None:
    """Changes when the file does. None while it is being replaced."""
    try:
        return None if path is None else (path.stat().st_mtime_ns, path.stat().st_ino)
    except OSError:
        return None
