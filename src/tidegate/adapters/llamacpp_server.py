"""Run the llama.cpp server of the ``xllamacpp`` wheel in the foreground, as one replica.

    python -m tidegate.adapters.llamacpp_server --model-path M.gguf --alias smol --port 8080 --slots 8

This process is the engine: it imports nothing of Tidegate, and the engine itself only once the
arguments are known to be good.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
from typing import Any

ADDRESS_IN_USE = 98
"""Exit code when somebody else listens on the port."""

_PARAMETERS = ("model_alias", "cache_ram_mib", "lora_adapters", "n_parallel", "endpoint_metrics")
"""What the wheel must let us set. Without the first three a replica would answer under the wrong name,
take 8 GiB for its prompt cache, or forget its adapters: better not to start."""


def main(argv: list[str] | None = None) -> int:
    """Serve until a signal ends the process; returns only when the engine cannot start."""
    options = _options(argv)
    if options.cpus:
        os.sched_setaffinity(0, options.cpus)
    if not _is_free(options.host, options.port):
        return _complain(f"{options.host}:{options.port}: address already in use", ADDRESS_IN_USE)
    try:
        import xllamacpp
    except ImportError as error:
        return _complain(f"the llama.cpp server is not installed (pip install xllamacpp): {error}", 1)
    parameters = xllamacpp.CommonParams()
    missing = [name for name in _PARAMETERS if not hasattr(parameters, name)]
    if missing:
        return _complain(f"this xllamacpp cannot set {', '.join(missing)}; install a newer one", 1)
    _configure(parameters, options, xllamacpp)
    try:
        server = xllamacpp.Server(parameters)
    except RuntimeError as error:
        return _complain(f"the engine did not start: {error}", 1)
    print(f"serving {options.alias} on {server.listening_address}", flush=True)  # noqa: T201
    # SIGTERM keeps its default effect. The engine's own shutdown leaves open streams without a byte
    # for 5 s and new requests hanging; a process that dies at once resets them, which everybody sees.
    while True:
        signal.pause()


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tidegate.adapters.llamacpp_server", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--model-path", required=True, metavar="GGUF")
    parser.add_argument("--alias", required=True, metavar="NAME", help="the model name it answers to")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--slots", type=int, default=4, metavar="N", help="requests at once")
    parser.add_argument(
        "--context",
        type=int,
        default=0,
        metavar="TOKENS",
        help="total, over all slots; 0: the model's own for each",
    )
    parser.add_argument("--threads", type=int, default=1, metavar="N")
    parser.add_argument(
        "--cpus", type=_cpu_set, default=None, metavar="0,2-3", help="run on these cores only"
    )
    parser.add_argument(
        "--cache-ram-mib", type=int, default=64, metavar="MIB", help="host memory for prompts of idle slots"
    )
    parser.add_argument(
        "--lora", action="append", default=[], metavar="GGUF", help="an adapter; may be repeated"
    )
    parser.add_argument("--gpu-layers", type=int, default=0, metavar="N")
    parser.add_argument(
        "--batch",
        type=int,
        default=512,
        metavar="TOKENS",
        help="prompt tokens computed between two tokens of the others",
    )
    parser.add_argument(
        "--sleep-idle-seconds",
        type=int,
        default=-1,
        metavar="S",
        help="drop the weights after this long without a request",
    )
    options = parser.parse_args(argv)
    for path in (options.model_path, *options.lora):
        if not os.path.isfile(path):  # noqa: PTH113 (pathlib would be a third of this process's imports)
            parser.error(f"{path}: no such file")
    if options.slots < 1 or options.threads < 1:
        parser.error("--slots and --threads must be at least 1")
    return options


def _configure(parameters: Any, options: argparse.Namespace, xllamacpp: Any) -> None:
    parameters.model.path = options.model_path
    parameters.model_alias = {options.alias}
    parameters.hostnames = [options.host]
    parameters.port = options.port
    parameters.n_parallel = options.slots
    parameters.n_ctx = options.context
    parameters.n_batch = options.batch
    parameters.n_ubatch = min(parameters.n_ubatch, options.batch)
    parameters.cpuparams.n_threads = options.threads
    parameters.cpuparams_batch.n_threads = options.threads
    # A thread serves one connection as long as that is kept. With the server's own slots + 2 a dozen busy
    # connections leave none for whoever asks whether it still lives, or how much it has to do.
    parameters.n_threads_http = 2 * options.slots + 32
    parameters.cache_ram_mib = options.cache_ram_mib
    parameters.n_gpu_layers = options.gpu_layers
    parameters.sleep_idle_seconds = options.sleep_idle_seconds
    parameters.endpoint_metrics = True
    parameters.endpoint_slots = True
    parameters.endpoint_props = False
    parameters.ui = False
    parameters.lora_adapters = [_adapter(path, xllamacpp) for path in options.lora]


def _adapter(path: str, xllamacpp: Any) -> Any:
    adapter = xllamacpp.CommonAdapterLoraInfo()
    adapter.path = path
    # Off until a request says otherwise; the engine's own switch for that is not honoured.
    adapter.scale = 0.0
    return adapter


def _cpu_set(text: str) -> set[int]:
    cores: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        cores.update(range(int(first), int(last or first) + 1))
    return cores


def _is_free(host: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as attempt:
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            attempt.bind((host, port))
        except OSError:
            return False
    return True


def _complain(message: str, code: int) -> int:
    print(f"error: {message}", file=sys.stderr, flush=True)  # noqa: T201
    return code


if __name__ == "__main__":
    sys.exit(main())
