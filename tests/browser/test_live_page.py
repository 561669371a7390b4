import re
import time

import pytest
from playwright.async_api import expect

from browser.fake_fleet import decision, failure, model, past_pages, replica
from tidegate.core.lifecycle import State
from tidegate.dashboard.page import SpillPage

pytestmark = pytest.mark.browser

HOSTILE = [
    "<img src=x onerror=window.hacked=1>",
    "<script>window.hacked=1</script>",
    "</script><script>window.hacked=1</script>",
    '"><svg onload=window.hacked=1>',
    "' onmouseover='window.hacked=1",
    "javascript:window.hacked=1",
    "${window.hacked=1}",
    "{{constructor.constructor('window.hacked=1')()}}",
    "<iframe srcdoc='<script>parent.hacked=1</script>'>",
    "<style>body{display:none}</style>",
    "&lt;b&gt;&#60;script&#62;",
    "\u202egnp.exe\u0000\u2028\nevent: fleet\ndata: {}",
    "__proto__",
]


async def look(tab, server):
    await tab.goto(f"http://127.0.0.1:{server.port}/")
    await expect(tab.get_by_text("live", exact=True)).to_be_visible()


async def test_the_page_shows_models_replicas_and_decisions_without_a_word_in_the_console(tab, fleet, serve):
    starting = replica("qwen-3", State.STARTING)
    fleet.models = [
        model(
            "qwen",
            replica("qwen-1", in_flight=5),
            replica("qwen-2", in_flight=8, variant="small"),
            starting,
            queued=6,
        ),
        model("smollm", desired=0, because="no request for 60 s"),
    ]
    fleet.decisions = [decision("qwen", 2, 3, held_by="max_replicas")]
    fleet.outcomes = {"completed": 12_345, "rejected_full": 7, "expired_queued": 0}
    await look(tab, await serve())

    qwen = tab.get_by_role("region", name="qwen", exact=True)
    tiles = qwen.get_by_role("list", name="Replicas of qwen").get_by_role("listitem")
    await expect(qwen.get_by_text("2 serving, 3 desired")).to_be_visible()
    await expect(tiles).to_have_count(3)
    await expect(tiles.nth(0)).to_have_text("#1serving5 / 8")
    await expect(tiles.nth(1)).to_have_text("#2 smallserving8 / 8")
    await expect(tiles.nth(1)).to_have_attribute("title", re.compile("variant small"))
    await expect(tiles.nth(2)).to_contain_text("starting")
    await expect(qwen.get_by_text("oldest waits 720 ms")).to_be_visible()
    await expect(qwen.get_by_text("median; 95th percentile 640 ms")).to_be_visible()
    await expect(qwen.get_by_role("img", name="Queue over the last five minutes: at most 6")).to_be_visible()

    await expect(
        tab.get_by_role("region", name="smollm").get_by_text("The first request starts one")
    ).to_be_visible()
    told = tab.get_by_role("region", name="Last decisions").get_by_role("listitem")
    await expect(told).to_contain_text("2 → 3")
    await expect(told).to_contain_text("26 requests at 8 a replica held by max_replicas")
    await expect(told).to_contain_text("With 2: 10 requests without a slot.")
    outcomes = tab.get_by_role("region", name="Requests by outcome")
    await expect(outcomes.get_by_text("12,345")).to_be_visible()
    await expect(outcomes.get_by_text("expired queued")).to_have_count(0)
    assert tab.said == []


async def test_the_page_follows_the_fleet_as_it_changes(tab, fleet, serve):
    fleet.models = [model("qwen", replica("qwen-1"), desired=1), model("old", replica("old-1"))]
    await look(tab, await serve())
    await expect(tab.get_by_text("None yet.")).to_be_visible()

    broken = failure("qwen-1", "exit code 1: out of memory")
    fleet.models = [
        model("qwen", replica("qwen-2"), can_serve=False, notice="it failed 5 times", last_failure=broken)
    ]
    fleet.decisions = [decision("qwen", 1, 0), decision("qwen", 0, 2)]
    told = tab.get_by_role("region", name="Last decisions").get_by_role("listitem")
    await expect(told).to_have_count(2)
    await expect(told.first).to_contain_text("0 → 2")
    await expect(tab.get_by_text("None yet.")).to_be_hidden()
    await expect(tab.get_by_role("region", name="old", exact=True)).to_have_count(0)
    tiles = tab.get_by_role("list", name="Replicas of qwen").get_by_role("listitem")
    await expect(tiles).to_have_count(1)
    await expect(tiles).to_contain_text("#2")
    await expect(tab.get_by_text("Cannot serve: it failed 5 times")).to_be_visible()
    await expect(tab.get_by_text("exit code 1: out of memory")).to_be_visible()
    assert tab.said == []


async def test_one_that_is_announced_to_go_is_leaving_and_not_serving(tab, fleet, serve):
    going = replica("qwen-2", in_flight=3, leaves_at_s=time.time() + 600)
    fleet.models = [model("qwen", replica("qwen-1"), going, desired=1)]
    await look(tab, await serve())

    tiles = tab.get_by_role("list", name="Replicas of qwen").get_by_role("listitem")
    await expect(tiles.nth(0)).to_contain_text("serving")
    await expect(tiles.nth(1)).to_contain_text("leaving")
    await expect(tiles.nth(1)).to_have_attribute("title", re.compile("leaves in (9|10) min"))
    await expect(tab.get_by_text("1 serving, 1 leaving, 1 desired")).to_be_visible()
    assert tab.said == []


async def test_a_lost_feed_is_said_and_found_again(tab, fleet, serve):
    fleet.models = [model("qwen", replica("qwen-1"))]
    fleet.decisions = [decision("qwen", 0, 1)]
    server = await serve()
    await look(tab, server)

    await server.close()
    await expect(tab.get_by_role("alert")).to_contain_text("Connection lost. This is how it was at")
    await expect(tab.get_by_text("connection lost", exact=True)).to_be_visible()

    fleet.models = [model("qwen", replica("qwen-1"), replica("qwen-2"))]
    await serve(server.port)
    await expect(tab.get_by_text("live", exact=True)).to_be_visible()
    await expect(tab.get_by_role("alert")).to_be_hidden()
    await expect(tab.get_by_role("list", name="Replicas of qwen").get_by_role("listitem")).to_have_count(2)
    await expect(tab.get_by_role("region", name="Last decisions").get_by_role("listitem")).to_have_count(1)
    # The browser itself notes each attempt in vain; the page adds nothing.
    assert all("net::ERR_" in line for line in tab.said)


async def test_hostile_words_in_every_field_are_shown_as_words(tab, fleet, serve):
    fleet.models = [
        model(
            text,
            replica(f"{text}-1", in_flight=1, detail=text),
            because=text,
            held_by=text,
            can_serve=False,
            notice=text,
            last_failure=failure(text, text),
        )
        for text in HOSTILE
    ]
    fleet.decisions = [decision(text, 0, 1, because=text, held_by=text) for text in HOSTILE]
    fleet.outcomes = dict.fromkeys(HOSTILE, 1)
    fleet.warnings = tuple(HOSTILE)
    await look(tab, await serve())

    titles = await tab.get_by_role("heading", level=2).all_text_contents()
    assert titles[: len(HOSTILE)] == HOSTILE
    reasons = await tab.locator("#decisions .model").all_text_contents()
    assert sorted(reasons) == sorted(HOSTILE)
    assert await tab.evaluate("window.hacked") is None
    allowed = "main :is(img, script, iframe, style, object, a)"
    assert await tab.locator(allowed).count() == 0
    assert tab.said == []


async def test_the_browser_itself_refuses_markup_inline_script_and_frames(tab, fleet, serve):
    server = await serve()
    await look(tab, server)
    refused = """() => {
      try { document.body.innerHTML = "<b>no</b>"; return "made markup"; } catch (error) { return error.name; }
    }"""
    assert await tab.evaluate(refused) == "TypeError"
    inline = """() => {
      const script = document.createElement("script");
      try { script.textContent = "window.hacked = 1"; document.head.append(script); } catch (error) {}
      return window.hacked ?? "did not run";
    }"""
    assert await tab.evaluate(inline) == "did not run"
    assert any("Content Security Policy" in line or "TrustedHTML" in line for line in tab.said)


async def test_a_page_that_opens_late_shows_the_last_five_minutes(tab, fleet, serve):
    fleet.models = [model("qwen", replica("qwen-1", in_flight=3))]
    server = await serve()
    for page in past_pages(fleet):
        server._feed._history.add(page)
    await look(tab, server)

    drawn = tab.get_by_role("img", name="Open requests over the last five minutes: at most 34")
    await expect(drawn).to_be_visible()
    assert len(await drawn.locator("path.line").get_attribute("d")) > 2000


CONTRAST = """() => {
  const light = (text) => text.match(/[0-9.]+/g).slice(0, 3)
    .map((part) => part / 255).map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, place) => sum + c * [0.2126, 0.7152, 0.0722][place], 0);
  const ground = light(getComputedStyle(document.querySelector(".card")).backgroundColor);
  return [...document.querySelectorAll(".note, .state, .reason, .count, .change, .held")].map((node) => {
    const [low, high] = [light(getComputedStyle(node).color), ground].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  });
}"""


async def test_nothing_hangs_out_of_a_narrow_page_or_fades_into_its_ground(tab, fleet, serve):
    long_name = "an-organisation/a-model-with-a-rather-long-name-and-no-space-70b-instruct-awq"
    fleet.models = [
        model(long_name, *(replica(f"{long_name}-{n}", in_flight=n) for n in range(8)), queued=120)
    ]
    fleet.decisions = [decision(long_name, 7, 8, held_by="max_replicas")]
    await look(tab, await serve())

    for width in (390, 820, 1440):
        await tab.set_viewport_size({"width": width, "height": 900})
        assert await tab.evaluate("document.documentElement.scrollWidth") <= width
    for scheme in ("light", "dark"):
        await tab.emulate_media(color_scheme=scheme)
        # 4.5 to 1 is what WCAG asks of small text.
        assert min(await tab.evaluate(CONTRAST)) >= 4.5


async def test_a_model_that_spills_says_for_how_much(tab, fleet, serve):
    spill = SpillPage(in_flight=3, requests_total=9, cost_total=2.0, cost_last_h=1.25, max_cost_per_h=5.0)
    idle = SpillPage(in_flight=0, requests_total=9, cost_total=2.0, cost_last_h=0.0, max_cost_per_h=5.0)
    fleet.models = [
        model("qwen", replica("qwen-1", in_flight=8), spill=spill),
        model("smollm", replica("smollm-1"), spill=idle),
    ]
    await look(tab, await serve())

    told = tab.get_by_role("region", name="qwen", exact=True).get_by_role("status")
    await expect(told).to_have_text(
        "Spilling to a pay-per-token upstream: 3 in flight, 1.25 of 5.00 within the hour"
    )
    await expect(tab.get_by_role("region", name="smollm").get_by_role("status")).to_be_hidden()
