"""D: signals, and who may write."""

from __future__ import annotations

from tidegate.conformance.checks import Bounds, Reaches
from tidegate.conformance.story import About, Pages, Step, Story, Told, World
from tidegate.conformance.system import adapters_follow, changed_by_hand, clock_jumps, two_controllers

D1 = Story(
    id="D1",
    title="One replica of six is not scraped",
    source="vllm-project/aibrix#617",
    wrong="the whole decision is given up: it neither shrinks nor grows",
    right="the other five speak: the 6 that are needed stay, and it grows when the load does",
    inputs=Told(
        world=World(serving=6),
        steps=(Step(at_s=0, demand=53), Step(at_s=400, pages=Pages.ONE_MISSING), Step(at_s=700, demand=110)),
        until_s=1_200,
    ),
    checks=(Bounds(405, 1_200, least=6), Reaches(1_200, least=8)),
)
D2 = Story(
    id="D2",
    title="A metric with another name",
    source="llm-d/llm-d-autoscaling#1420, llm-d's docs on <unknown>",
    wrong="the trigger reads 0 and looks healthy",
    right="absent is not 0: 6 replicas, 54 of 60 slots taken, are needed",
    inputs=Told(
        world=World(serving=6),
        steps=(Step(at_s=0, demand=54), Step(at_s=400, pages=Pages.UNNAMED)),
        until_s=1_300,
    ),
    checks=(Bounds(405, 1_300, least=6),),
)
D2_NAN = Story(
    id="D2b",
    title="Metrics that are no numbers",
    source="ai-dynamo/dynamo#6985, vllm-project/aibrix#1629",
    wrong="NaN is compared with a threshold, or counted as 0",
    right="what is no number is not known: 6 replicas, 54 of 60 slots taken, are needed",
    inputs=Told(
        world=World(serving=6),
        steps=(Step(at_s=0, demand=54), Step(at_s=400, pages=Pages.NAN)),
        until_s=1_300,
    ),
    checks=(Bounds(405, 1_300, least=6),),
)
D2_ALONE = Story(
    id="D2c",
    title="A metric with another name, where nothing else says what it said",
    source="llm-d/llm-d-autoscaling#1420, llm-d's docs on <unknown>",
    wrong="the trigger reads 0 and looks healthy",
    right="who has spoken and is silent forbids to shrink: 6 replicas whose first tokens took 0.95 of what is promised stay, "
    "though 27 requests alone would need 4",
    inputs=Told(
        world=World(serving=6),
        steps=(Step(at_s=0, demand=27, ttft_ratio=0.95), Step(at_s=400, pages=Pages.UNNAMED)),
        until_s=1_300,
    ),
    checks=(Bounds(5, 1_300, least=6),),
    about=About.SYSTEM,
)
D3 = Story(
    id="D3",
    title="Two controllers of one fleet",
    source="llm-d/llm-d-autoscaling#1044, KEDA's docs",
    wrong="two installations write one number: it flaps",
    right="replicas that the other one started are not this fleet's: they are ended, not counted",
    inputs=two_controllers,
    about=About.SYSTEM,
    note="on one machine the second controller refuses to start (a lock on the state folder); here one gets the other's reports",
)
D4 = Story(
    id="D4",
    title="Replicas started and ended by hand",
    source="ai-dynamo/dynamo#4420",
    wrong="the planner does not see what was done, or fights it",
    right="one that is started is adopted, and taken away with a reason when it is not needed; one that is ended is "
    "started anew, or stays away with a reason, as `fleet.manual` says",
    inputs=changed_by_hand,
    about=About.SYSTEM,
)
D6 = Story(
    id="D6",
    title="An adapter on one of several replicas",
    source="vllm-project/aibrix#1095",
    wrong="after growing, all requests for the adapter still go to the first replica",
    right="a new replica has it too and gets its share",
    inputs=adapters_follow,
    about=About.SYSTEM,
)
D7 = Story(
    id="D7",
    title="One gateway of three is not heard",
    source="kedacore/http-add-on#1667",
    wrong="a third of the concurrency is missing, and a third of the replicas goes",
    right="its last figures stand, and nobody goes while it may have more: 6, though the other two have less from then on",
    inputs=Told(
        world=World(serving=6, gateways=3),
        steps=(Step(at_s=0, demand=54), Step(at_s=400, heard=2), Step(at_s=420, demand=24)),
        until_s=900,
    ),
    checks=(Bounds(405, 900, least=6),),
    about=About.SYSTEM,
)
D9 = Story(
    id="D9",
    title="A minimum that one branch forgets",
    source="ai-dynamo/dynamo#6637",
    wrong="a branch of the law goes below the minimum",
    right="never below 2, idle for half an hour",
    inputs=Told(
        world=World(serving=4, least=2),
        steps=(Step(at_s=0, demand=30), Step(at_s=120, demand=0)),
        until_s=1_920,
    ),
    checks=(Bounds(5, 1_920, least=2),),
)
D10 = Story(
    id="D10",
    title="A clock that jumps",
    source="a class of bug, not one report",
    wrong="30 s back or 10 minutes ahead: windows are empty, or never end",
    right="the clock of the brains is monotonic, whatever the machine's clock does",
    inputs=clock_jumps,
    about=About.SYSTEM,
)

STORIES = (D1, D2, D2_NAN, D2_ALONE, D3, D4, D6, D7, D9, D10)
