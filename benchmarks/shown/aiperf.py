"""aiperf, a load client that others wrote, against ``tidegate serve``: every request ends without error."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

from system import policies
from system.figures import Figure, exactly, never
from system.policies import TINY
from system.product import product

NAME = "aiperf"
TITLE = "aiperf: 200 requests without error"
REQUESTS, CONCURRENCY = 200, 8
PROMPT_TOKENS, OUTPUT_TOKENS = 100, 32
ENVIRONMENT = Path(".venv-aiperf")
TOKENIZER = "local/tiny"
REVISION = "0" * 40
WITHIN_S = 300.0

# Run by aiperf's Python, which has the packages: one token a byte, as the tiny model has. It is put where a
# download would have put it, because aiperf knows a tokenizer by its name in the Hub's cache.
WRITE_TOKENIZER = """
import sys
from pathlib import Path
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
folder, revision = Path(sys.argv[1]), sys.argv[2]
alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
vocabulary = {token: number for number, token in enumerate([*special, *alphabet])}
tokenizer = Tokenizer(models.BPE(vocabulary, []))
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()
fast = PreTrainedTokenizerFast(
    tokenizer_object=tokenizer, bos_token=special[0], eos_token=special[2], pad_token=special[0]
)
snapshot = folder / "snapshots" / revision
fast.save_pretrained(snapshot)
(snapshot / "config.json").write_text('{"model_type": "llama"}')
(folder / "refs").mkdir(parents=True)
(folder / "refs" / "main").write_text(revision)
"""


def why_not() -> str:
    """Empty when it can run."""
    if (ENVIRONMENT / ".ready").exists():
        return ""
    return "aiperf is not installed; make setup-aiperf puts it into .venv-aiperf (1.2 GB)"


async def run(folder: Path, weights: Path) -> list[Figure]:
    """From zero replicas, streamed."""
    home = folder / "hub"
    environment = {
        **os.environ,
        "HF_HOME": str(home),
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
    }
    cache = home / "hub" / f"models--{TOKENIZER.replace('/', '--')}"
    await _finished(environment, folder, "python", "-c", WRITE_TOKENIZER, str(cache), REVISION)
    model = policies.tiny(weights, 0, 2, slots=CONCURRENCY)
    async with product(policies.only(TINY, model), folder) as p:
        await _finished(environment, folder, "aiperf", *_options(p.url, folder / "out"))
        answered = await p.metric("tidegate_requests_total", outcome="completed")
        ended = await p.metric("tidegate_requests_total")
    found = json.loads((folder / "out" / "profile_export_aiperf.json").read_text())
    return [
        exactly("requests that aiperf counts as good", found["request_count"]["avg"], REQUESTS),
        never("errors that aiperf saw", sum(error["count"] for error in found.get("error_summary", []))),
        Figure("requests answered, by our own metrics", answered, at_least=REQUESTS),
        never("requests that ended otherwise", ended - answered),
        Figure("time to first token, p50", found["time_to_first_token"]["p50"], "ms"),
        Figure("requests a second", found["request_throughput"]["avg"], "1/s"),
    ]


def _options(url: str, out: Path) -> list[str]:
    words = f"--model {TINY} --url {url} --endpoint-type chat --streaming --tokenizer {TOKENIZER}"
    words += (
        f" --concurrency {CONCURRENCY} --request-count {REQUESTS} --isl {PROMPT_TOKENS} --osl {OUTPUT_TOKENS}"
    )
    words += " --extra-inputs ignore_eos:true --use-server-token-count --no-gpu-telemetry"
    words += " --ui none --workers-max 1 --record-processors 1"
    return ["profile", *words.split(), "--output-artifact-dir", str(out)]


async def _finished(environment: dict[str, str], folder: Path, program: str, *options: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{program}.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            str((ENVIRONMENT / "bin" / program).absolute()),
            *options,
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            async with asyncio.timeout(WITHIN_S):
                code = await process.wait()
        except TimeoutError:
            process.kill()
            raise
    last = (folder / f"{program}.log").read_text(errors="replace")[-1500:]
    assert code == 0, f"{program} ended with {code}: {last}"
