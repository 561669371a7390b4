"""C: zero and back."""

from __future__ import annotations

from tidegate.conformance.at_zero import (
    bounded_hold,
    listening_is_not_ready,
    loads_longer_than_the_client_waits,
    one_writer,
    ready_is_noticed,
    sleeper_without_its_device,
    wakes_the_cheapest,
)
from tidegate.conformance.checks import Ended, Reaches, Starts
from tidegate.conformance.story import About, Flow, Pages, Simulated, Step, Story, Told, World

C1 = Story(
    id="C1",
    title="A wake-up that is lost",
    source="kedacore/http-add-on#1692",
    wrong="45 minutes idle, one request: held to its deadline, no replica; a second try works",
    right="it is answered, by one start",
    inputs=Simulated(flows=(Flow(at_s=1), Flow(at_s=2_700)), load_s=30.0, delay_s=60.0, settle_s=0.0),
    checks=(Ended(), Starts(2, least=2)),
    about=About.SYSTEM,
)
C3 = Story(
    id="C3",
    title="A start longer than the idle limit",
    source="kserve/kserve#1247, knative/serving#2155",
    wrong="180 s to load, 120 s of idleness allowed: deleted before it is ready, for ever",
    right="the idle time begins when it is ready: one start, though the first client does not wait for it, and the second "
    "is answered by it",
    inputs=Simulated(
        flows=(Flow(at_s=1), Flow(at_s=160)), load_s=180.0, delay_s=120.0, deadline_s=100.0, settle_s=60.0
    ),
    checks=(Ended(("rejected_nobody", "completed")), Starts(1, least=1)),
    about=About.SYSTEM,
)
C4 = Story(
    id="C4",
    title="Loading shown as healthy",
    source="kedacore/http-add-on#854, kedacore/http-add-on#432",
    wrong="the port is open, the model is not loaded: 502",
    right="nothing is sent there until a token has come out",
    inputs=listening_is_not_ready,
    about=About.SYSTEM,
)
C5 = Story(
    id="C5",
    title="Ready and not noticed",
    source="kedacore/http-add-on#586",
    wrong="ready after 3 s, sent after 22 s",
    right="sent in the turn in which it is ready",
    inputs=ready_is_noticed,
    about=About.SYSTEM,
)
C7 = Story(
    id="C7",
    title="No metrics at zero",
    source="kedacore/keda#7239, kedacore/keda#7411",
    wrong="the metrics server is down, so zero stays zero",
    right="who waits is known without it: one is on its way at once",
    inputs=Told(
        world=World(least=0), steps=(Step(at_s=0, pages=Pages.ABSENT), Step(at_s=60, demand=1)), until_s=90
    ),
    checks=(Reaches(62, least=1),),
    about=About.SYSTEM,
)
C8 = Story(
    id="C8",
    title="A hold without a bound",
    source="kedacore/http-add-on#1733",
    wrong="50,000 requests for one cold model: the shared gateway dies for all",
    right="each model's queue is bounded, who does not fit is told when to come back, others are served",
    inputs=bounded_hold,
    about=About.SYSTEM,
)
C9 = Story(
    id="C9",
    title="A timeout that begins too early",
    source="BentoCloud's semantics, and those who lack them",
    wrong="a client waits for 60 s, the start takes 100 s: a surprise after 60 s",
    right="refused at once, with the moment from which it makes sense; the start is begun all the same",
    inputs=loads_longer_than_the_client_waits,
    about=About.SYSTEM,
)
C10 = Story(
    id="C10",
    title="Wakes everything",
    source="llm-d's WVA, a comment in its source",
    wrong="several variants at zero, one request: all start",
    right="the cheapest one starts, or the cheapest that is there before the request gives up",
    inputs=wakes_the_cheapest,
    about=About.SYSTEM,
    note="so it is for a model's variants; of several models behind one name (`shifts`) one starts, by weight",
)
C13 = Story(
    id="C13",
    title="Two writers of one number",
    source="volcano-sh/kthena#1019",
    wrong="the wake-up writes 1 while the autoscaler writes 0",
    right="one owner: no start is taken back before its replica has served",
    inputs=one_writer,
    about=About.SYSTEM,
)
C14 = Story(
    id="C14",
    title="A sleeper whose GPU is taken",
    source="llm-d's guide to Fast Model Actuation",
    wrong="the engine sleeps, another one has its GPU: 85 s instead of the 4 s that were planned with",
    right="no 4 s are promised while the GPU is taken; woken, and not started cold, when it is free",
    inputs=sleeper_without_its_device,
    about=About.SYSTEM,
)

STORIES = (C1, C3, C4, C5, C7, C8, C9, C10, C13, C14)
