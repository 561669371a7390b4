"""How weights are fetched and kept here. Keys and tokens come from the environment alone, never from a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tidegate.weights.errors import WeightsError
from tidegate.weights.signing import AwsKeys

HUB_VARIABLES = ("HF_ENDPOINT",)
S3_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")


@dataclass(frozen=True, slots=True)
class WeightsSettings:
    """What a policy says under ``weights``."""

    cache_dir: Path
    max_bytes: int | None = None
    """Of weights and compiled engines together; None: as much as the disk has."""
    connections: int = 8
    """Requests at once to one source."""
    prefetch_bytes_per_s: int = 100 * 1024 * 1024
    """For weights that nobody waits for yet."""
    hub_endpoint: str | None = None
    s3_endpoint: str | None = None
    s3_region: str | None = None
    keeps_compiled: bool = True
    """Engines get a folder for what they compile."""


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Where sources are, and in whose name they are asked."""

    hub: str | None = None
    s3: str | None = None
    s3_region: str = "us-east-1"
    hub_token: str | None = field(default=None, repr=False)
    aws_keys: AwsKeys | None = field(default=None, repr=False)

    def hub_url(self) -> str:
        """Without a slash at the end.

        Raises:
            WeightsError: nobody has said where it is.
        """
        if not self.hub:
            raise WeightsError("it is not said where the hub is: set weights.hub_endpoint, or HF_ENDPOINT")
        return self.hub.rstrip("/")

    def s3_url(self) -> str:
        """Without a slash at the end.

        Raises:
            WeightsError: nobody has said where it is.
        """
        if not self.s3:
            raise WeightsError(
                "it is not said where S3 is: set weights.s3_endpoint, or AWS_ENDPOINT_URL_S3, such as "
                "https://s3.REGION.example.com"
            )
        return self.s3.rstrip("/")


def endpoints_from(settings: WeightsSettings, environ: Mapping[str, str]) -> Endpoints:
    """What the policy says, else what the environment says, by the names that these systems' own tools use."""
    access, secret = environ.get("AWS_ACCESS_KEY_ID"), environ.get("AWS_SECRET_ACCESS_KEY")
    keys = None
    if access and secret:
        keys = AwsKeys(access, secret, environ.get("AWS_SESSION_TOKEN") or None)
    return Endpoints(
        hub=settings.hub_endpoint or first_of(environ, *HUB_VARIABLES),
        s3=settings.s3_endpoint or first_of(environ, *S3_VARIABLES),
        s3_region=settings.s3_region or first_of(environ, "AWS_REGION", "AWS_DEFAULT_REGION") or "us-east-1",
        hub_token=environ.get("HF_TOKEN") or None,
        aws_keys=keys,
    )


def first_of(environ: Mapping[str, str], *names: str) -> str | None:
    """The first of these variables that says something."""
    return next((environ[name] for name in names if environ.get(name)), None)
