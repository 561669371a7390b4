"""The pay-per-token upstreams of a policy, with their keys from the environment, and what the log says of them."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from tidegate.config.settings import Settings
from tidegate.config.spill_rules import require_keys
from tidegate.gateway.outlet import Outlets, outlets_of

log = logging.getLogger("tidegate")


def outlets_for(settings: Settings, policy: Path | None) -> Outlets:
    """Where spilt requests go.

    Raises:
        PolicyError: a key is not there.
    """
    require_keys(settings.models.values(), os.environ, str(policy or "policy"))
    return outlets_of(settings.models.values(), os.environ)


def tell_outlets(settings: Settings) -> None:
    """Whoever reads the log is to know that prompts may leave the house, and where they go."""
    for model in settings.models.values():
        if model.spill is not None and model.dispatch.spill is not None:
            log.warning(
                "%s: requests that find no room here go to %s, for %.2f/h at most; their prompts leave the house",
                model.model,
                model.spill.address,
                model.dispatch.spill.max_cost_per_h,
            )
