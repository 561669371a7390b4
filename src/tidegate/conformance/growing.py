"""A: errors on the way up."""

from __future__ import annotations

from tidegate.conformance.checks import Bounds, FewerStarts, GivenUp, Reaches, Stays
from tidegate.conformance.story import About, Flow, Simulated, Step, Story, Told, World

A1 = Story(
    id="A1",
    title="Cascade while loading",
    source="vllm-project/aibrix#2670, WVA v0.5",
    wrong="2 replicas, twice their load, 120 s to start: 4, 8, 16 while nothing is ready yet",
    right="what is on its way counts: never more than twice the 4 that are needed, whether it is there by then or not",
    inputs=Told(
        world=World(serving=2, load_s=120.0),
        steps=(Step(at_s=0, demand=12), Step(at_s=60, demand=40)),
        until_s=480,
    ),
    checks=(Bounds(60, 480, most=8), Reaches(480, least=3)),
)
A2 = Story(
    id="A2",
    title="Credit for what is on its way",
    source="llm-d/llm-d, README.slo-aware.md and plot_run.py",
    wrong="6 replicas, half of them starting, latency above the threshold: fewer are asked for",
    right="never below the 6 that the load needs, 55 requests on 60 slots, and never beyond twice as many",
    inputs=Told(
        world=World(serving=6, load_s=420.0),
        steps=(Step(at_s=0, demand=55), Step(at_s=70, kill=3, ttft_ratio=0.70)),
        until_s=480,
    ),
    checks=(Bounds(70, 480, least=6, most=12),),
)
A3 = Story(
    id="A3",
    title="Backlog at zero",
    source="knative/serving#4344, knative/serving#13284",
    wrong="short jobs at zero replicas, 10 s to start: several replicas that are idle once the first is ready",
    right="one, or two: it is known from the hour before that one replica is through the backlog in a second",
    inputs=Simulated(
        flows=(
            Flow(at_s=1, per_s=2.0, until_s=120, prompt=50, output=5),
            Flow(at_s=600, prompt=50, output=5),
            Flow(at_s=601, per_s=2.0, until_s=720, prompt=50, output=5),
        ),
        serving=1,
        load_s=10.0,
        slots=4,
    ),
    checks=(Reaches(605, least=1), Bounds(600, 720, most=2)),
)
A4 = Story(
    id="A4",
    title="2,500 held requests",
    source="kubeai-project/kubeai#229",
    wrong="a target of 500 and 3 minutes to start: one replica after the other, over two hours",
    right="5 are on their way before the first is ready",
    inputs=Told(
        world=World(least=0, most=10, slots=500, service_s=60.0, load_s=180.0),
        steps=(Step(at_s=5, demand=2_500),),
        until_s=240,
    ),
    checks=(Reaches(180, least=5),),
)
A6 = Story(
    id="A6",
    title="A target that no metric reaches",
    source="defilantech/LLMKube#482, ray-project/ray#24793",
    wrong="one slot, a target of 2 running requests: never grows",
    right="who waits counts: 20 requests at 2 a replica are 10, and at least 5 come",
    inputs=Told(
        world=World(serving=1, slots=1, target=2.0, load_s=30.0),
        steps=(Step(at_s=0, demand=20),),
        until_s=900,
    ),
    checks=(Reaches(900, least=5),),
)
A7 = Story(
    id="A7",
    title="An average taken for a total",
    source="vllm-project/aibrix, metrics/client.go and algorithm/kpa.go (read, not run)",
    wrong="6 replicas with 0.90 of their caches full at a target of 0.50: halved to 3",
    right="never below 6 while 54 of 60 slots are taken",
    inputs=Told(world=World(serving=6), steps=(Step(at_s=0, demand=54),), until_s=600),
    checks=(Bounds(5, 600, least=6),),
)
A8 = Story(
    id="A8",
    title="Panic from idleness",
    source="vllm-project/aibrix, algorithm/kpa.go (read, not run)",
    wrong="nothing arrives and 0 is twice 0: panic, and what it remembers is lost at each tick",
    right="idle is not panic: one replica, no more",
    inputs=Told(
        world=World(serving=1), steps=(Step(at_s=0, demand=0), Step(at_s=300, restart=True)), until_s=600
    ),
    checks=(Bounds(5, 600, least=1, most=1),),
)
A10 = Story(
    id="A10",
    title="A window that is not full yet",
    source="knative/serving#2705",
    wrong="6 s of data divided by 60 s: a tenth of the demand is seen, or panic after 2 s",
    right="4 replicas at 36 of 40 slots stay at 4 or more, and at twice that at most",
    inputs=Told(world=World(serving=4), steps=(Step(at_s=0, demand=36),), until_s=90),
    checks=(Bounds(2, 90, least=4, most=8),),
)
A11 = Story(
    id="A11",
    title="A signal of another model",
    source="ray-project/ray#64725 (review), llm-d's token guide",
    wrong="a query over the whole cluster: both models grow when one is slow",
    right="2 replicas at half their load stay, beside a neighbour at six times its own",
    inputs=Told(world=World(serving=2, neighbour=60.0), steps=(Step(at_s=0, demand=10),), until_s=480),
    checks=(Bounds(5, 480, most=2),),
)
A13 = Story(
    id="A13",
    title="Clients that wait for their answers",
    source="llm-d's token guide",
    wrong="64 clients, so the backlog never shrinks: the number goes to its maximum",
    right="64 open requests need 7 replicas: in the end 12 at most, and never more than half of the 32 allowed",
    inputs=Told(world=World(serving=2, they_wait=True), steps=(Step(at_s=0, demand=64),), until_s=1_200),
    checks=(Bounds(5, 1_200, most=16), Reaches(1_200, least=6, most=12)),
)
A14 = Story(
    id="A14",
    title="Capacity that does not exist",
    source="ai-dynamo/dynamo#14251, vllm-project/aibrix#617",
    wrong="5 wanted, 3 fit: two wait for ever, and nothing shrinks when the load has gone",
    right="who has waited for 10 minutes is given up and tried anew; back at 1 within 25 minutes of the load's end",
    inputs=Told(
        world=World(serving=1, most=5, room=3),
        steps=(Step(at_s=0, demand=50), Step(at_s=900, demand=0)),
        until_s=2_400,
    ),
    checks=(GivenUp(610), Reaches(2_400, most=1)),
)
A16 = Story(
    id="A16",
    title="A rolling update",
    source="kubernetes/kubernetes#138505, kubernetes/kubernetes#123296, kubernetes/kubernetes#90461",
    wrong="the surge of an update is read as the new size, again and again up to the maximum",
    right="the number moves by one at most while each replica is replaced",
    inputs=Told(
        world=World(serving=5), steps=(Step(at_s=0, demand=34), Step(at_s=700, renew=True)), until_s=1_500
    ),
    checks=(Stays(700, 1_500, falls=1, rises=1),),
    note="the update is Tidegate's own, one replica at a time; a Deployment's surge is 25 %",
)
SPIKES_S = tuple(120.0 + 1_500.0 * number for number in range(4))
A17 = Story(
    id="A17",
    title="Spikes that are over before help comes",
    source="llm-d's benchmark, knative/serving#13284",
    wrong="60 s of five times the load each 25 minutes, 120 s to start: each time replicas are started that nobody uses",
    right="after three of them that is known: in the fourth at most half as many are started as in the first, while it is not "
    "yet told from a rise",
    inputs=Told(
        world=World(serving=1, load_s=120.0),
        steps=(
            Step(at_s=0, demand=7),
            *(Step(at_s=at_s, demand=36) for at_s in SPIKES_S),
            *(Step(at_s=at_s + 60, demand=7) for at_s in SPIKES_S),
        ),
        until_s=4_900,
    ),
    checks=(FewerStarts(SPIKES_S[0], SPIKES_S[-1], 280.0, 0.5),),
    note="the queue holds them, and those who leave it count as refused; a law that keeps what it bought until the "
    "next spike starts nothing either, and pays for it, which is for `make bench-fleet` to show",
)
A18 = Story(
    id="A18",
    title="Long prompts",
    source="llm-d's token guide, kserve/kserve#3561",
    wrong="the same requests each second with prompts of 8,192 tokens for 512: nothing happens",
    right="at least 3 within two minutes and a half: 98,000 tokens a second, of which one replica prefills 44,000",
    inputs=Simulated(
        flows=(
            Flow(at_s=0, per_s=12.0, until_s=60, prompt=512, output=50),
            Flow(at_s=60, per_s=12.0, until_s=240, prompt=8_192, output=50),
        ),
        least=1,
        serving=1,
        slots=32,
        load_s=30.0,
    ),
    checks=(Reaches(210, least=3),),
)
A19 = Story(
    id="A19",
    title="A wild forecast",
    source="the reports on ARIMA forecasts",
    wrong="once a hundred times the demand is foreseen: it is obeyed, and held",
    right="at most three times what the last hour has seen, which is 1.4 replicas full: 6 with some to spare, and not 140",
    inputs=Told(
        world=World(serving=2, foreseen=1_400.0),
        steps=(Step(at_s=0, demand=14),),
        until_s=1_200,
    ),
    checks=(Bounds(5, 1_200, least=2, most=6),),
    about=About.SYSTEM,
    note="it is Tidegate's own forecast, restored with a day in which a hundred times as much came; none of the other laws "
    "forecasts from a stored model",
)
A19_SAMPLE = Story(
    id="A19b",
    title="A wild sample",
    source="the reports on ARIMA forecasts",
    wrong="once, for one second, a hundred times what was measured before: it is obeyed, and held",
    right="at most four times what is needed, and gone within ten minutes",
    inputs=Told(
        world=World(serving=2),
        steps=(Step(at_s=0, demand=14), Step(at_s=300, ttft_ratio=100.0), Step(at_s=316, ttft_ratio=-1)),
        until_s=960,
    ),
    checks=(Bounds(5, 960, least=2, most=8), Reaches(950, most=4)),
    note="the wild value is a latency that a metrics server reports twice",
)

STORIES = (A1, A2, A3, A4, A6, A7, A8, A10, A11, A13, A14, A16, A17, A18, A19, A19_SAMPLE)
