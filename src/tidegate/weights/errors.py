"""Why weights are not here. Every message may be read by clients: no signed address and no key is in it."""

from __future__ import annotations


class WeightsError(Exception):
    """They cannot be had, with the reason in our words."""

    @property
    def because(self) -> str:
        """The reason, as the end of a sentence."""
        return str(self.args[0])


class SourceChanged(WeightsError):
    """The file at the source is another one than when the download began."""


class WrongChecksum(WeightsError):
    """What came is not what was meant to come."""


class NoRoom(WeightsError):
    """The disk, or the bound of the cache, has no room for them."""
