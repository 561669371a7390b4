"""``tidegate conformance``: reported failures of autoscalers, told to a law by name."""

from __future__ import annotations

import click

from tidegate.core.scaling_settings import ScalingPolicy

DEFAULT = ScalingPolicy.TIDAL.value


@click.command("conformance", short_help="Tell reported failures to a scaling law.")
@click.option(
    "--policy",
    "policies",
    multiple=True,
    type=click.Choice([policy.value for policy in ScalingPolicy]),
    metavar="NAME",
    help="A law by name. Repeatable.",
)
@click.option("--scenario", "scenarios", multiple=True, metavar="ID", help="Only this one. Repeatable.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def conformance_command(policies: tuple[str, ...], scenarios: tuple[str, ...], as_json: bool) -> None:
    """Tell scenarios that users have reported to a law, in virtual time, and say what is wrong.

    Ends with 1 when anything is. Stories of what is around a law (wake-up, drain, ledgers) are told with
    the default law inside.
    """
    import msgspec

    from tidegate.conformance.suite import STORIES, tell_all

    by_id = {story.id: story for story in STORIES}
    for name in scenarios:
        if name not in by_id:
            raise click.UsageError(f"--scenario {name}: it must be one of {', '.join(by_id)}")
    verdicts = tell_all([ScalingPolicy(name) for name in policies or (DEFAULT,)], scenarios)
    wrong = [verdict for verdict in verdicts if verdict.wrong is not None]
    if as_json:
        told = [
            {
                "scenario": verdict.story,
                "policy": verdict.policy,
                "right": verdict.wrong is None,
                "wrong": verdict.wrong,
            }
            for verdict in verdicts
        ]
        click.echo(
            msgspec.json.encode(
                {"told": len(verdicts), "right": len(verdicts) - len(wrong), "verdicts": told}
            ).decode()
        )
    else:
        for verdict in wrong:
            story = by_id[verdict.story]
            click.echo(f"{verdict.policy}  {story.id} {story.title}: {verdict.wrong}")
            click.echo(f"    right: {story.right} ({story.source})")
        click.echo(f"{len(verdicts) - len(wrong)} of {len(verdicts)} are right")
    if wrong:
        raise SystemExit(1)
