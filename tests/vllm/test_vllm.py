"""Real vLLM through our backend and adapter: readiness, metrics, adapters, prefix cache."""

import asyncio

import pytest

from engines.waiting import wait_until
from tidegate.backends.engine_client import EngineClient
from tidegate.core.lifecycle import Seen

pytestmark = [pytest.mark.vllm, pytest.mark.asyncio(loop_scope="module")]


async def scraped(replica):
    client = EngineClient()
    try:
        return await client.scrape(replica.address, replica.model.adapter, 5.0)
    finally:
        await client.close()


async def test_ready_means_that_it_generates(replica):
    answer = await replica.complete()

    assert answer["usage"]["completion_tokens"] == 12
    assert replica.observer.history("r1") == [Seen.STARTING, Seen.READY]


async def test_an_idle_engine_reports_zeros_that_it_wrote_itself(replica):
    report = (await wait_until(lambda: replica.observer.reports("r1"), within_s=10.0))[-1]

    assert (report.running, report.waiting) == (0, 0)
    assert report.kv_usage_ratio is not None


async def test_the_batch_size_it_was_told_bounds_what_runs(replica):
    busy = [asyncio.create_task(replica.complete(max_tokens=600)) for _ in range(10)]

    def crowded():
        return [each for each in replica.observer.reports("r1") if each.running == 4 and each.waiting]

    await wait_until(crowded, within_s=60.0, describe=lambda: replica.observer.reports("r1")[-5:])
    assert max(each.running for each in replica.observer.reports("r1")) == 4
    await asyncio.gather(*busy)


async def test_adapters_are_chosen_by_model_name(replica):
    texts = [
        (await replica.complete(model))["choices"][0]["text"]
        for model in ("tiny", "tiny:red", "tiny:blue", "red")
    ]

    assert len(set(texts[:3])) == 3
    assert texts[3] == texts[1]


async def test_a_prompt_seen_before_is_found_in_the_cache(replica):
    prompt = "low water, high water, " * 60
    await replica.complete(prompt=prompt)
    before = await scraped(replica)
    answer = await replica.complete(prompt=prompt)
    after = await scraped(replica)

    cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert cached > 0
    assert after.cached_tokens_total - before.cached_tokens_total == cached
    assert after.prompt_tokens_total - before.prompt_tokens_total == answer["usage"]["prompt_tokens"]
    assert after.kv_blocks_total is not None
    assert after.kv_block_tokens is not None
