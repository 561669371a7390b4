"""``tidegate scale``: set a model's number by hand, through the admin address of a running Tidegate."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import click

ANSWER_WITHIN_S = 10.0
ADMIN_PORT = 8401


@click.command("scale", short_help="Hold a model at a number for a time.")
@click.argument("model")
@click.argument("replicas", required=False, type=click.IntRange(min=0))
@click.option("--for", "for_", default="1h", show_default=True, help="How long it holds: 90s, 15m, 2h, 1d.")
@click.option("--at-least", is_flag=True, help="A floor: more are started when demand asks for them.")
@click.option("--release", is_flag=True, help="Let the scaling law have the number again.")
@click.option("--admin-port", default=ADMIN_PORT, show_default=True, type=click.IntRange(1, 65535))
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def scale_command(
    model: str,
    replicas: int | None,
    for_: str,
    admin_port: int,
    *,
    at_least: bool,
    release: bool,
    as_json: bool,
) -> None:
    """Hold MODEL at REPLICAS for a time, whatever demand asks for.

    The model's own bounds and all caps count as ever. The number ends by itself, and holds across a restart.
    """
    from tidegate.config.units import parse_duration

    if release == (replicas is not None):
        raise click.UsageError("name a number of REPLICAS, or --release")
    try:
        for_s = parse_duration(for_)
    except ValueError:
        raise click.UsageError(f"--for is {for_}; it must be a duration such as 90s, 15m, 2h or 1d") from None
    order = {"model": model, "replicas": replicas, "for_s": for_s, "at_least": at_least}
    told = _post(admin_port, order)
    if as_json:
        click.echo(json.dumps(told))
    else:
        click.echo(f"{told['model']}: {told['desired']} replicas wanted: {told['because']}")


def _post(port: int, order: dict[str, Any]) -> Any:
    """What Tidegate answers.

    Raises:
        click.ClickException: nobody answers there, or it refuses.
    """
    url = f"http://127.0.0.1:{port}/scale"
    request = urllib.request.Request(
        url, json.dumps(order).encode(), {"content-type": "application/json"}, method="POST"
    )
    # No proxy of the environment: this machine is meant.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=ANSWER_WITHIN_S) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        raise click.ClickException(_why(error)) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        message = f"no Tidegate answers at {url} ({reason}); --admin-port says where its admin page is"
        raise click.ClickException(message) from None


def _why(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.load(error)["error"])
    except (ValueError, KeyError, TypeError):
        return f"it was refused with HTTP status {error.code}"
