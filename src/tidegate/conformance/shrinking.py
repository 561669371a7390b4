"""B: errors on the way down."""

from __future__ import annotations

from tidegate.conformance.checks import Bounds, Ended, FewReversals, NoCollapse, Reaches, Stays
from tidegate.conformance.story import About, Flow, Pages, Simulated, Step, Story, Told, World
from tidegate.conformance.system import leaked_counter, wrong_victim

B1 = Story(
    id="B1",
    title="Two, one, two, one",
    source="ai-dynamo/dynamo#9294",
    wrong="two replicas at 0.70 of their caches look idle: one goes, the survivor is overrun, one comes back",
    right="no fewer than 2 for half an hour: 14 requests do not fit into 10 slots",
    inputs=Told(world=World(serving=2), steps=(Step(at_s=0, demand=14),), until_s=1_800),
    checks=(Bounds(5, 1_800, least=2, most=4), FewReversals(5, 1_800, 2)),
)
B2 = Story(
    id="B2",
    title="Streams that are cut",
    source="ai-dynamo/dynamo#13559, volcano-sh/kthena#1589, dstackai/dstack#2656",
    wrong="a replica with a stream of 90 s is chosen and killed after 5, 20 or 30 s",
    right="it drains: every request is answered",
    inputs=Simulated(
        flows=(
            Flow(at_s=0, per_s=2.0, until_s=60, prompt=200, output=8_000),
            Flow(at_s=60, per_s=0.2, until_s=300, prompt=200, output=8_000),
        ),
        least=1,
        serving=4,
        slots=64,
        delay_s=20.0,
        settle_s=600.0,
    ),
    checks=(Ended(), Reaches(700, most=1)),
    about=About.SYSTEM,
)
B3 = Story(
    id="B3",
    title="The wrong victim",
    source="knative/serving#3886, knative/serving#13823",
    wrong="the newest or any replica is removed, and it is the busy one",
    right="the idle one goes",
    inputs=wrong_victim,
    about=About.SYSTEM,
)
B5 = Story(
    id="B5",
    title="No traffic, so no number",
    source="ai-dynamo/dynamo#6985, kubeai-project/kubeai#383",
    wrong="7 replicas, traffic ends, the mean of nothing is no number: the decision is skipped for ever",
    right="nothing arriving is a measurement: 3 or fewer within 25 minutes",
    inputs=Told(
        world=World(serving=7), steps=(Step(at_s=0, demand=60), Step(at_s=400, demand=0)), until_s=1_900
    ),
    checks=(Reaches(1_900, most=3),),
)
B6 = Story(
    id="B6",
    title="Severed clients",
    source="llm-d/llm-d-workload-variant-autoscaler#769",
    wrong="a load test is cut off; engines go on saying 213, 78, 40 and 32 wait: nothing shrinks any more",
    right="the ledger of live requests counts: 1 within 25 minutes",
    inputs=Told(
        world=World(serving=4),
        steps=(Step(at_s=0, demand=34), Step(at_s=120, demand=0, pages=Pages.PHANTOMS)),
        until_s=1_700,
    ),
    checks=(Reaches(1_700, most=1),),
)
B7 = Story(
    id="B7",
    title="Series of replicas that are gone",
    source="llm-d/llm-d-router#2529",
    wrong="a removed replica's gauge stays at its last value: the sum never falls",
    right="series end with their replica: 2 or fewer within half an hour",
    inputs=Told(
        world=World(serving=4),
        steps=(Step(at_s=0, demand=34), Step(at_s=120, demand=5, pages=Pages.REMOVED_TOO, kill=1)),
        until_s=1_920,
    ),
    checks=(Reaches(1_920, most=2),),
)
B8 = Story(
    id="B8",
    title="A counter that leaks",
    source="ray-project/ray#61551, knative/serving#14554",
    wrong="streaming calls that are turned away count for ever: pinned at 2",
    right="the ledger is made of the ids of live requests: nothing open, nothing counted",
    inputs=leaked_counter,
    about=About.SYSTEM,
)
B10 = Story(
    id="B10",
    title="The end of a panic",
    source="knative/serving#3153, knative/serving#9121",
    wrong="200 asked for, 40 ready: when the panic window passes the plan collapses and climbs again",
    right="never a tenth below what was asked for while the demand stands",
    inputs=Told(
        world=World(serving=4, most=100, load_s=90.0, room=40),
        steps=(Step(at_s=0, demand=32), Step(at_s=90, demand=380)),
        until_s=800,
    ),
    checks=(NoCollapse(90, 800, 0.10), Reaches(800, least=30)),
)
B12 = Story(
    id="B12",
    title="A restarted controller",
    source="knative/serving#4795, knative/serving#2705",
    wrong="7, 1, 2, 6, 7",
    right="a pause of 20 s just then is not a whole window of nobody: no fewer than the 6 that are needed, no more than one "
    "beyond what was there, for a minute and a half",
    inputs=Told(
        world=World(serving=7, window_s=60.0, delay_s=10.0),
        steps=(
            Step(at_s=0, demand=56),
            Step(at_s=395, demand=0),
            Step(at_s=400, restart=True),
            Step(at_s=415, demand=56),
        ),
        until_s=490,
    ),
    checks=(Bounds(395, 490, least=6), Stays(390, 490, rises=1)),
)
B13 = Story(
    id="B13",
    title="A fallback that shrinks",
    source="kedacore/keda#6659",
    wrong="the metrics server is down, the fallback says 3, and the 12 that are needed become 3",
    right="while data is missing nothing falls below the 6 that the last good data asked for",
    inputs=Told(
        world=World(serving=7),
        steps=(Step(at_s=0, demand=60), Step(at_s=400, pages=Pages.ABSENT)),
        until_s=1_300,
    ),
    checks=(Bounds(405, 1_300, least=6),),
    note="the gateways go on reporting; what comes from a metrics server does not",
)
B14 = Story(
    id="B14",
    title="Half an hour to shed",
    source="vllm-project/aibrix#1159",
    wrong="300 s of filter in two layers and a panic: half an hour after the load has ended",
    right="from 8 to 1 within 20 minutes",
    inputs=Told(
        world=World(serving=8), steps=(Step(at_s=0, demand=70), Step(at_s=300, demand=2)), until_s=1_500
    ),
    checks=(Reaches(1_500, most=1),),
)

STORIES = (B1, B2, B3, B5, B6, B7, B8, B10, B12, B13, B14)
