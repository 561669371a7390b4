"""Command lines of engines: filling in templates, reading the batch size back out."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.adapters.base import Adapter, EngineSpec
from tidegate.core.types import Address


def filled(template: Sequence[str], spec: EngineSpec, address: Address, gpus: Sequence[int]) -> list[str]:
    """The operator's command with its placeholders filled in, and the operator's arguments after it.

    Plain replacement instead of ``str.format``: engines take JSON on the command line, whose braces
    must survive.
    """
    values = {
        "{port}": str(address.port),
        "{host}": address.host,
        "{model}": spec.model_name,
        "{weights}": spec.weights,
        "{slots}": str(spec.slots),
        "{gpus}": ",".join(map(str, gpus)),
    }
    return [_replaced(word, values) for word in (*template, *spec.extra_args)]


def _replaced(word: str, values: dict[str, str]) -> str:
    for placeholder, value in values.items():
        word = word.replace(placeholder, value)
    return word


def number_after(argv: Sequence[str], *flags: str) -> int | None:
    """The number that follows one of these flags, as ``--flag 8`` or ``--flag=8``; the last one wins."""
    found = None
    for index, word in enumerate(argv):
        flag, equals, value = word.partition("=")
        if flag not in flags:
            continue
        if not equals:
            value = argv[index + 1] if index + 1 < len(argv) else ""
        # llama-server's own --slots takes no number: it turns an endpoint on.
        if value.isdecimal():
            found = int(value)
    return found


def batch_mismatch(adapter: Adapter, argv: Sequence[str], concurrency_target: float) -> str | None:
    """What to warn of when a replica is meant to carry another number of requests than its engine runs
    at once; None when the two agree or the command line does not say."""
    batch = adapter.batch_size(argv)
    if batch is None or batch == concurrency_target:
        return None
    if batch < concurrency_target:
        consequence = "the surplus waits inside the engine, where no other replica can take it"
    else:
        consequence = "replicas are added before the ones there are full"
    return (
        f"concurrency_target is {concurrency_target:g} but the {adapter.name} engine runs {batch} requests "
        f"at once: {consequence}"
    )
