"""Starting process groups, and finding and ending every process of a replica.

A process is a replica's when its environment carries the replica's mark, or when it belongs to the
group or session of the replica's first process and that one is proven to be ours. Pids are reused, so
a pid alone proves nothing: it counts together with the moment the kernel says the process began.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidegate.core.types import ReplicaId

FLEET_MARK = "TIDEGATE_FLEET"
REPLICA_MARK = "TIDEGATE_REPLICA"


@dataclass(frozen=True, slots=True)
class Identity:
    """A process, and not another one that got its pid later."""

    pid: int
    started_ticks: int


@dataclass(frozen=True, slots=True)
class Process:
    """One living process, as ``/proc`` shows it. Zombies are not living."""

    identity: Identity
    group: int
    session: int


def start(
    argv: Sequence[str],
    environment: Mapping[str, str],
    log: int,
    cores: Sequence[int],
    keep: Sequence[int] = (),
) -> Identity:
    """Start a process in a session and group of its own, with nothing of ours but the log and the descriptors
    to ``keep``, which it gets under their own numbers and need not know of.

    Raises:
        OSError: it cannot be started; the message names the program.
    """
    program = shutil.which(argv[0], path=environment.get("PATH"))
    if program is None:
        message = f"{argv[0]} is not an executable on the engine's PATH"
        raise FileNotFoundError(message)
    pid = os.posix_spawn(
        program,
        list(argv),
        dict(environment),
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, log, 1),
            (os.POSIX_SPAWN_DUP2, log, 2),
            # Onto itself: that takes the mark off that would close it.
            *((os.POSIX_SPAWN_DUP2, each, each) for each in keep),
        ],
        setsid=True,
        setsigmask=[],
        # Python ignores SIGPIPE, and what is ignored stays so in a child.
        setsigdef=[signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM, signal.SIGHUP],
    )
    if cores:
        # From outside, long before the engine starts its threads, which inherit it. The process may
        # have failed already; its exit is seen by whoever waits for it.
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(pid, cores)
    # Not reaped by anybody but us, so its entry is there even if it has died.
    return Identity(pid, started_ticks_of(pid) or 0)


def exit_code_of(pid: int) -> int | None:
    """How a child of ours ended, negative for a signal; None when it runs or is no child of ours.

    It stays a zombie: as long as its pid is not given back, its group can be told from any other.
    """
    try:
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    if ended is None:
        return None
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status


def reap(pid: int) -> None:
    """Let the kernel forget an ended child."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def started_ticks_of(pid: int) -> int | None:
    """When the process with this pid began, in ticks since boot; None when there is none."""
    stat = _stat(pid)
    return None if stat is None else int(stat[19])


def open_pidfd(identity: Identity) -> int | None:
    """A descriptor that becomes readable when this process ends; None when it has gone already.

    The start is compared after opening: from then on the descriptor means this very process.
    """
    try:
        pidfd = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return None
    if started_ticks_of(identity.pid) != identity.started_ticks:
        os.close(pidfd)
        return None
    return pidfd


def members(fleet_id: str, replica_id: ReplicaId, first: Identity | None) -> list[Process]:
    """Every living process of a replica."""
    mark = _mark(fleet_id, replica_id)
    leader = first.pid if first is not None and _is_present(first) else None
    found = []
    for process in living():
        is_in_group = leader is not None and leader in (process.group, process.session)
        if is_in_group or mark <= marks_of(process.identity.pid):
            found.append(process)
    return found


def marked(fleet_id: str) -> dict[ReplicaId, list[Process]]:
    """Every living process with this fleet's mark, by replica."""
    prefix = f"{REPLICA_MARK}=".encode()
    found: dict[ReplicaId, list[Process]] = {}
    for process in living():
        marks = marks_of(process.identity.pid)
        if f"{FLEET_MARK}={fleet_id}".encode() not in marks:
            continue
        for mark in marks:
            if mark.startswith(prefix):
                found.setdefault(ReplicaId(os.fsdecode(mark[len(prefix) :])), []).append(process)
    return found


def send(processes: Sequence[Process], number: signal.Signals) -> None:
    """Signal these processes; whole groups at once where their leader is among them."""
    leaders = {process.identity.pid for process in processes}
    groups = {process.group for process in processes} & leaders
    for group in groups:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, number)
    for process in processes:
        if process.group not in groups:
            send_to_one(process.identity, number)


def send_to_one(identity: Identity, number: signal.Signals) -> None:
    """Signal this very process, not one that got its pid later."""
    pidfd = open_pidfd(identity)
    if pidfd is None:
        return
    try:
        signal.pidfd_send_signal(pidfd, number)
    except ProcessLookupError:
        pass
    finally:
        os.close(pidfd)


def living() -> Iterator[Process]:
    """Every process of the machine that we may look at and that is no zombie."""
    own = os.getpid()
    for entry in os.listdir("/proc"):  # noqa: PTH208 (a Path for each process doubles the time)
        if not entry.isdecimal() or int(entry) == own:
            continue
        stat = _stat(int(entry))
        if stat is not None and stat[0] not in ("Z", "X"):
            yield Process(Identity(int(entry), int(stat[19])), group=int(stat[2]), session=int(stat[3]))


def marks_of(pid: int) -> frozenset[bytes]:
    """The marks in a process's environment; empty when it has none or is not ours to read."""
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return frozenset()
    if b"TIDEGATE_" not in environment:
        return frozenset()
    return frozenset(word for word in environment.split(b"\0") if word.startswith(b"TIDEGATE_"))


def _mark(fleet_id: str, replica_id: ReplicaId) -> frozenset[bytes]:
    return frozenset((f"{FLEET_MARK}={fleet_id}".encode(), os.fsencode(f"{REPLICA_MARK}={replica_id}")))


def _is_present(identity: Identity) -> bool:
    """True while the pid is this process's own: alive, or a zombie that nobody has collected."""
    return started_ticks_of(identity.pid) == identity.started_ticks


def _stat(pid: int) -> list[str] | None:
    """The fields of ``/proc/PID/stat`` from the state on (the third of proc(5))."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The second field is the program's name in parentheses, and may itself contain anything.
    return text.rpartition(")")[2].split()
