"""What somebody asks for through the admin address, checked against the policy and told to the controller."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite

from tidegate.config import units
from tidegate.config.settings import Settings
from tidegate.core.events import ScaledByHand
from tidegate.core.types import ModelId
from tidegate.dashboard.scaling import NotYet, Scaled, ScaleOrder
from tidegate.runtime.clock import Clock
from tidegate.runtime.controlling import ControlOwner
from tidegate.runtime.hands import HandFile

LEAST_S, MOST_S = 1.0, 30 * 86_400.0


class ByHand:
    """Carries numbers set by hand to the controller, and keeps them."""

    def __init__(
        self, control: ControlOwner, file: HandFile, clock: Clock, settings: Callable[[], Settings]
    ) -> None:
        self._control = control
        self._clock = clock
        self._file = file
        self._settings = settings
        self._is_restored = False
        """Before that, keeping numbers would forget those of the former run."""

    def __repr__(self) -> str:
        return f"<ByHand {self._file!r}>"

    def restore(self) -> None:
        """Tell the controller what a former run was told; before its policy."""
        for event in self._file.read():
            self._control.handle(event)
        self._is_restored = True

    def scale(self, order: ScaleOrder) -> Scaled:
        """Set a model's number.

        Raises:
            NotYet: the numbers of the former run have not been read.
            ValueError: there is no such model, or a figure is out of its range.
        """
        if not self._is_restored:
            raise NotYet("Tidegate is still starting; ask again in some seconds")
        model = ModelId(order.model)
        self._check(order, model)
        self._control.handle(ScaledByHand(model, order.replicas, order.for_s, order.at_least))
        self.keep()
        found = next(one for one in self._control.view().models if one.model == model)
        because = found.decision.because if found.decision else ""
        if found.hand is not None and not found.is_by_hand:
            # Where demand asks for the same number, no decision names the hand.
            because += f"; {found.hand.said(self._settings().models[model].fleet.scaling.schedule)}"
        return Scaled(model, found.desired, because, found.hand.until_s if found.hand else None)

    def keep(self) -> None:
        """Keep what has changed by itself: a number that is over, or one that came of an engine's end."""
        self._file.keep(self._control.hands, self._clock.now_s())

    def _check(self, order: ScaleOrder, model: ModelId) -> None:
        known = self._settings().models
        if model not in known:
            raise ValueError(f"there is no such model; known are {', '.join(sorted(known))}")
        scaling = known[model].fleet.scaling
        least, most = scaling.min_replicas, scaling.max_replicas
        if order.replicas is not None and not least <= order.replicas <= most:
            message = (
                f"replicas is {order.replicas}; it must be from {least} to {most}, the model's own bounds"
            )
            raise ValueError(message)
        if not isfinite(order.for_s) or not LEAST_S <= order.for_s <= MOST_S:
            span = f"{units.format_duration(LEAST_S)} to {units.format_duration(MOST_S)}"
            raise ValueError(f"for_s is {order.for_s:g}; it must be {span}, in seconds")
