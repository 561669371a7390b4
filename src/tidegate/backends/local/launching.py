"""Starting one engine as a process of its own: what it takes for that, and what it is started with."""

from __future__ import annotations

import os

from tidegate.backends.local import processes
from tidegate.backends.local.devices import Claim
from tidegate.backends.local.model import LocalModel
from tidegate.backends.local.ports import NoFreePort
from tidegate.backends.local.processes import Identity
from tidegate.backends.local.provisions import Provision
from tidegate.backends.local.site import Site
from tidegate.backends.local.state import Record
from tidegate.core.nodes import Place


def reserve(site: Site, model: LocalModel, place: Place | None) -> tuple[Claim, int]:
    """Devices and a port for one replica, both or none.

    Raises:
        NoDevice: the devices are not to be had.
        NoFreePort: all ports are in use.
    """
    claim = site.devices.take(model.gpus_per_replica, place, model.cores_per_replica)
    try:
        return claim, site.ports.take()
    except NoFreePort:
        site.devices.give_back(claim)
        raise


def launch(site: Site, record: Record, model: LocalModel, provision: Provision) -> Identity:
    """Start the engine; its first process.

    Raises:
        OSError: it cannot be started.
        ValueError: its command or environment is none that a process can be started with.
    """
    argv = model.adapter.command(model.spec, record.address, record.claim.gpus)
    output = site.logs.create(record.replica_id)
    try:
        environment = _environment(site, record, model, provision)
        return processes.start(argv, environment, output, record.claim.cores, provision.descriptors)
    finally:
        os.close(output)


def _environment(site: Site, record: Record, model: LocalModel, provision: Provision) -> dict[str, str]:
    """Nothing of ours but what is named here: no key, no proxy, no Python path leaks into an engine."""
    gpus = record.claim.gpus
    devices = {"CUDA_VISIBLE_DEVICES": ",".join(map(str, gpus))} if gpus else {}
    marks = {processes.FLEET_MARK: site.state.fleet_id, processes.REPLICA_MARK: record.replica_id}
    return {
        **site.environment,
        **devices,
        **provision.environment,
        **model.adapter.environment(model.spec, gpus),
        **marks,
    }
