"""The keys under ``weights``: how weights are fetched and kept on this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from pydantic import Field

from tidegate.config import kinds
from tidegate.config.section import PATH, Section
from tidegate.weights.settings import HUB_VARIABLES, S3_VARIABLES, WeightsSettings, first_of

_DEFAULTS = WeightsSettings(Path())

_ENDPOINT = kinds.text(
    "address",
    r"https?://[A-Za-z0-9.\[\]:-]{1,300}(/[A-Za-z0-9._~/-]{0,300})?",
    "https://HOST, with a port and a path where they are needed, and without a key",
)
_REGION = kinds.text("text", r"[A-Za-z0-9-]{1,64}", "the name of a region, such as eu-central-1")


class Weights(Section):
    """Where weights are fetched from and kept. Keys are read from the environment alone: `HF_TOKEN`,
    `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`."""

    cache_dir: Annotated[str, PATH] | None = Field(
        default=None,
        description="Where they are kept, on one file system; without it `tidegate/weights` in the user's cache folder",
    )
    max_bytes: Annotated[int, kinds.size("1MiB", "1024TiB")] | None = Field(
        default=None,
        alias="cache_size",
        description="Weights and compiled engines together; what was used longest ago goes first, never what is in "
        "use. Left out, as much as the disk has",
    )
    connections: Annotated[int, kinds.whole(1, 64)] = Field(
        default=_DEFAULTS.connections, description="Requests at once to one source"
    )
    prefetch_bytes_per_s: Annotated[int, kinds.size("64KiB", "100GiB", rate=True)] = Field(
        default=_DEFAULTS.prefetch_bytes_per_s,
        alias="prefetch_rate",
        description="Bytes a second for weights that nobody waits for yet",
    )
    hub_endpoint: Annotated[str, _ENDPOINT] | None = Field(
        default=None, description="Where `hf://` is; without it what `HF_ENDPOINT` says"
    )
    s3_endpoint: Annotated[str, _ENDPOINT] | None = Field(
        default=None,
        description="Where `s3://` is; without it what `AWS_ENDPOINT_URL_S3` or `AWS_ENDPOINT_URL` says",
    )
    s3_region: Annotated[str, _REGION] | None = Field(
        default=None, description="Without it what `AWS_REGION` says, else `us-east-1`"
    )

    keeps_compiled: Annotated[bool, kinds.switch()] = Field(
        default=_DEFAULTS.keeps_compiled,
        alias="keep_compiled",
        description="What engines compile is kept for the next start on the same kind of GPU, CUDA and packages",
    )

    def lacks(self, scheme: str) -> str | None:
        """What has to be said before this scheme can be fetched from; None when nothing has."""
        if scheme == "hf" and self.hub_endpoint is None and first_of(os.environ, *HUB_VARIABLES) is None:
            return "weights.hub_endpoint, or HF_ENDPOINT in the environment, must say where hf:// is"
        if scheme == "s3" and self.s3_endpoint is None and first_of(os.environ, *S3_VARIABLES) is None:
            return "weights.s3_endpoint, or AWS_ENDPOINT_URL_S3 in the environment, must say where s3:// is"
        return None
