"""The commands and what their exit codes mean: 0 done, 1 the job failed, 2 wrong usage or policy
file, 130 interrupted.

Each command imports what it needs when it runs: ``tidegate --help`` should not wait for an event loop.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tidegate import __version__
from tidegate.cli.conformance import conformance_command
from tidegate.cli.demo import demo_command
from tidegate.cli.emulating import emulate_command
from tidegate.cli.explaining import explain_command
from tidegate.cli.replaying import replay_command
from tidegate.cli.scaling import scale_command
from tidegate.cli.serving import serve_command
from tidegate.cli.simulating import simulate_command
from tidegate.cli.starts import starts_command
from tidegate.cli.tracing import trace_group
from tidegate.cli.tuning import tune_command
from tidegate.cli.weights import weights_group

INTERRUPTED = 130
WRONG_USAGE = 2


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tidegate")
def cli() -> None:
    """Keeps the right number of LLM replicas running for the tokens that arrive."""


cli.add_command(serve_command)
cli.add_command(demo_command)
cli.add_command(emulate_command)
cli.add_command(explain_command)
cli.add_command(starts_command)
cli.add_command(replay_command)
cli.add_command(scale_command)
cli.add_command(simulate_command)
cli.add_command(conformance_command)
cli.add_command(trace_group)
cli.add_command(tune_command)
cli.add_command(weights_group)


@cli.group()
def config() -> None:
    """Look at policy files."""


@config.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def check(file: Path) -> None:
    """Report every mistake in a policy file at once."""
    from tidegate.config import load

    settings = load(file)
    for warning in settings.warnings:
        click.echo(f"warning: {warning}", err=True)
    count = len(settings.models)
    click.echo(f"{file}: no mistakes, {count} model{'' if count == 1 else 's'}")


@config.command()
def schema() -> None:
    """Print the JSON Schema of policy files, for editors."""
    import json

    from tidegate.config import json_schema

    click.echo(json.dumps(json_schema(), indent=2))


def main() -> None:
    """Run the command line and exit."""
    from tidegate.config import PolicyError

    try:
        sys.exit(cli(standalone_mode=False) or 0)
    except PolicyError as error:
        click.echo(str(error), err=True)
        sys.exit(WRONG_USAGE)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(INTERRUPTED)
