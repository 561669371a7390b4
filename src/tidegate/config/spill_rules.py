"""What must hold of a model's ``spill``, and which of it is missing when Tidegate starts to serve."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import urlsplit

from tidegate.config.finding import Finding
from tidegate.config.hosts import is_loopback
from tidegate.config.model_keys import ModelKeys
from tidegate.config.problems import HIDDEN, KeyPath, PolicyError, Problem, dotted
from tidegate.config.settings import ModelSettings


def spill_findings(path: KeyPath, model: ModelKeys) -> Iterator[Finding]:
    """Rules about the upstream's address."""
    if model.spill is None:
        return
    where, written = (*path, "spill", "address"), model.spill.address
    host = _host(written)
    if host is None:
        message = "it must be https://HOST/PATH; a port, if there is one, from 1 to 65535"
        yield Finding(where, written, message)
    elif written.startswith("http:") and not is_loopback(host):
        message = "prompts and the key would leave this machine in the clear; use https://, or http:// with loopback"
        yield Finding(where, written, message)


def _host(address: str) -> str | None:
    """None when there can be none."""
    try:
        parts = urlsplit(address)
        return parts.hostname if parts.port != 0 else None
    except ValueError:
        return None


def require_keys(models: Iterable[ModelSettings], environment: Mapping[str, str], source: str) -> None:
    """Look for every upstream's key. Only who serves needs them: a policy is checked and simulated without.

    Raises:
        PolicyError: a variable is not set, or what it holds cannot stand in a header.
    """
    problems = [problem for model in models for problem in _missing(model, environment)]
    if problems:
        raise PolicyError(source, problems)


def _missing(model: ModelSettings, environment: Mapping[str, str]) -> Iterator[Problem]:
    if model.spill is None:
        return
    name, key = model.spill.key_env, environment.get(model.spill.key_env, "")
    where = dotted(("models", model.model, "spill", "key_env"))
    shown = (
        name if name.isupper() else HIDDEN
    )  # Some keys look like the name of a variable, and are not in capitals.
    if not key:
        yield Problem(where, shown, "that variable is not set in the environment; set it, or leave spill out")
    elif not key.isascii() or not key.isprintable() or " " in key:
        yield Problem(
            where, shown, "what that variable holds is no API key: there are spaces or other signs in it"
        )
