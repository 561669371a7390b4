"""``tidegate emulate``: one emulated engine with an OpenAI API and vLLM's metrics."""

from __future__ import annotations

import sys

import click


@click.command(
    "emulate",
    short_help="One emulated engine, for tests without a GPU.",
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []},
)
@click.pass_context
def emulate_command(context: click.Context) -> None:
    """One emulated engine, for tests without a GPU (options: tidegate emulate --help)."""
    from tidegate.emulator.__main__ import main

    sys.exit(main(context.args))
