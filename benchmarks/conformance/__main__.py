"""Tell every story to every law. ``--write`` renews ``docs/scenarios.md``; without it the page is compared.

The same stories give the same verdicts on every machine: there is no clock in them and no chance.
"""

import argparse
import json
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tidegate.conformance.page import SHOWN, page
from tidegate.conformance.story import About
from tidegate.conformance.suite import STORIES, Verdict, tell_all
from tidegate.core.scaling_settings import ScalingPolicy

PAGE = Path("docs/scenarios.md")
OUT = Path("build/bench/conformance.json")
WORKERS = 2


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write docs/scenarios.md")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    options = parser.parse_args()
    began_s = time.perf_counter()
    with ProcessPoolExecutor(WORKERS) as pool:
        verdicts = [verdict for told in pool.map(_told, SHOWN) for verdict in told]
    took_s = time.perf_counter() - began_s
    record = _record(verdicts, took_s)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    if options.json:
        print(json.dumps(record))
    else:
        for policy, rate in sorted(record["laws"].items(), key=lambda pair: -pair[1]["right"]):
            print(
                f"  {policy:<12} {rate['right']:>2} of {rate['told']}  wrong: {', '.join(rate['wrong']) or 'none'}"
            )
        print(f"  {len(verdicts)} stories told in {took_s:.0f} s")
    text = page(verdicts)
    if options.write:
        PAGE.write_text(text, encoding="utf-8")
    elif not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != text:
        print(f"{PAGE} is out of date; run: make bench-conformance ARGS=--write", file=sys.stderr)
        return 1
    return 0


def _told(policy: ScalingPolicy) -> list[Verdict]:
    return tell_all([policy])


def _record(verdicts: list[Verdict], took_s: float) -> dict:
    laws = {story.id for story in STORIES if story.about is About.LAW}
    found = {}
    for policy in SHOWN:
        mine = [verdict for verdict in verdicts if verdict.policy == policy.value and verdict.story in laws]
        wrong = {verdict.story: verdict.wrong for verdict in mine if verdict.wrong is not None}
        found[policy.value] = {"told": len(mine), "right": len(mine) - len(wrong), "wrong": wrong}
    around = [v for v in verdicts if v.story not in laws and v.policy == ScalingPolicy.TIDAL.value]
    system = {"told": len(around), "wrong": {v.story: v.wrong for v in around if v.wrong is not None}}
    return {"command": "make bench-conformance", "took_s": round(took_s, 1), "laws": found, "system": system}


if __name__ == "__main__":
    sys.exit(main())
