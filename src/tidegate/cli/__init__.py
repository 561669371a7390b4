"""The command line. ``main`` is what ``tidegate`` runs."""

from tidegate.cli.main import main

__all__ = ["main"]
