"""``python -m benchmarks.fidelity``: judge, print, write ``build/bench/fidelity.json``."""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.fidelity import report, silicon, untabled, vidur, vllm_runs
from benchmarks.fidelity.traces import Absent

BUILD = Path("build/bench")


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fidelity", description=__doc__)
    parser.add_argument(
        "--only", choices=tuple(PARTS), action="append", help="this part alone; may be repeated"
    )
    parser.add_argument("--out", type=Path, default=BUILD / "fidelity.json")
    return parser.parse_args()


def against_vidur() -> dict[str, Any]:
    found = vidur.judge()
    report.print_comparisons("Vidur's own runs, with its step times (seconds)", found)
    return {"figures": [one.as_json() for one in found], "all_kept": all(one.is_kept for one in found)}


def against_vllm() -> dict[str, Any]:
    found = vllm_runs.judge()
    report.print_comparisons("Real vLLM runs, from kernel tables (seconds)", found)
    sides = untabled.judge()
    report.print_range(sides)
    return {
        "figures": [one.as_json() for one in found],
        "all_kept": all(one.is_kept for one in found),
        "without_tables": {side: [one.as_json() for one in some] for side, some in sides.items()},
    }


def against_silicon() -> dict[str, Any]:
    judged = silicon.run(BUILD)
    report.print_silicon(judged)
    return {
        "summary": [asdict(line) for line in judged.summary()],
        "by_model": [asdict(line) for line in judged.by_model()],
        "by_model_gpu_backend": [asdict(line) for line in judged.by_model_gpu_backend()],
        "promises": judged.promises(),
        "points": judged.as_rows(),
    }


PARTS = {"vidur": against_vidur, "vllm": against_vllm, "silicon": against_silicon}


def main() -> None:
    arguments = read_arguments()
    figures: dict[str, Any] = {
        "command": "make fidelity",
        "python": platform.python_version(),
        "load_average": os.getloadavg(),
    }
    for name, judge in PARTS.items():
        if arguments.only and name not in arguments.only:
            continue
        begin_s = time.process_time()
        try:
            figures[name] = judge()
        except Absent as absent:
            report.console.print(f"{name}: skipped; it {absent}", soft_wrap=True)
            figures[name] = {"skipped": str(absent)}
        figures[name]["cpu_s"] = round(time.process_time() - begin_s, 2)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(figures, indent=1))
    report.console.print(f"figures in {arguments.out}")


if __name__ == "__main__":
    main()
