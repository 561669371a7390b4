"""Pay-per-token upstreams: where spilt requests go, and how they are written for somebody else's servers.

A request that leaves the house takes its body and nothing else with it: no id of ours or of the client's, no trace,
no key but our own for this upstream. Of the answer's head only what says how to read the body comes back.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tidegate.adapters.base import Manners
from tidegate.adapters.openai_api import ABORT_MARKS
from tidegate.config.settings import ModelSettings, SpillUpstream
from tidegate.core.dispatch.spilling import upstream_of
from tidegate.core.lifecycle import State
from tidegate.core.types import Address, ModelId, ReplicaId, Route
from tidegate.gateway.body import named
from tidegate.gateway.call import Call

ENGINE = "spill"
MANNERS = Manners(
    # 401 and 403 count as ours in any case. These too are no client's fault: our money, our name for the model.
    failed_statuses=frozenset({402, 404, 405, 500, 502, 504}),
    abort_marks=ABORT_MARKS,
)
ROOT = "/v1"


@dataclass(frozen=True, slots=True)
class Outlet:
    """One model's upstream."""

    route: Route
    """Stands for it where a replica's route would."""
    tls: bool
    folder: str
    """What stands before ``/chat/completions`` in its paths."""
    model: str
    """Their name for it."""
    key: str = field(repr=False)

    def head(self, call: Call, length: int) -> bytes:
        """The head of this call's request, with a body of this length."""
        address = self.route.address
        assert address is not None
        host = address.url_host
        if address.port != (443 if self.tls else 80):
            host = f"{host}:{address.port}"
        accept = "text/event-stream" if call.streams else "application/json"
        return (
            f"POST {self.folder}{call.relay.path.removeprefix(ROOT)} HTTP/1.1\r\nhost: {host}\r\n"
            f"authorization: Bearer {self.key}\r\ncontent-type: application/json\r\naccept: {accept}\r\n"
            f"accept-encoding: identity\r\ncontent-length: {length}\r\n\r\n"
        ).encode()

    def body(self, call: Call) -> bytes:
        """The client's document, for the model by their name."""
        return named(call.body, self.model)


Outlets = Mapping[ReplicaId, Outlet]
"""By what the dispatcher calls them."""


def outlets_of(models: Iterable[ModelSettings], environment: Mapping[str, str]) -> dict[ReplicaId, Outlet]:
    """The upstreams of these models, each with its key from the environment. One without a key is left out: it was
    there when the policy was checked, and without it the upstream would refuse everything."""
    found = {}
    for model in models:
        key = environment.get(model.spill.key_env, "") if model.spill is not None else ""
        if model.spill is not None and key:
            outlet = _outlet(model.model, model.spill, key)
            found[outlet.route.replica_id] = outlet
    return found


def tls_context() -> ssl.SSLContext:
    """Certificates are checked against those that the machine trusts, or ``SSL_CERT_FILE``."""
    return ssl.create_default_context()


def _outlet(model: ModelId, upstream: SpillUpstream, key: str) -> Outlet:
    parts = urlsplit(upstream.address)
    tls = parts.scheme == "https"
    address = Address(parts.hostname or "", parts.port or (443 if tls else 80))
    route = Route(upstream_of(model), model, State.SERVING, address, 0, ENGINE)
    return Outlet(route, tls, parts.path.rstrip("/"), upstream.model, key)
