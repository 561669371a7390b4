"""What a law is told in these stories: a steady demand, engines' pages, replicas."""

from tidegate.core.fleet.scaling.past import Past, Totals
from tidegate.core.fleet.scaling.policies import POLICIES, Demand, EngineSeen, Situation
from tidegate.core.scaling_settings import Promise, Scaling, ScalingPolicy

MANY = 1_000


def law(name, standing, *, now_s=0.0, **constants):
    """The policy of this name with these constants."""
    scaling = Scaling(ScalingPolicy(name), 0, MANY, law=tuple(constants.items()), scale_down_delay_s=60.0)
    return POLICIES[scaling.policy](scaling, standing, now_s)


class Traffic:
    """A past that is told second by second."""

    def __init__(self):
        self.past = Past()
        self.totals = Totals()
        self.now_s = 0.0
        self.load = (0, 0)
        self.active_s = None

    def go(self, seconds, queued=0, in_flight=0, per_s=0.0, prompt=0, output=0):
        """So many seconds of this."""
        for _ in range(seconds):
            count = int((self.now_s + 1) * per_s) - int(self.now_s * per_s)
            self.now_s += 1.0
            was = self.totals
            self.totals = Totals(
                was.arrivals + count,
                was.prompt_tokens + count * prompt,
                was.output_tokens + count * output,
                was.ended + count,
            )
            self.past.add(self.now_s, queued, in_flight, self.totals)
            self.load = (queued, in_flight)
            if queued or in_flight:
                self.active_s = self.now_s
        return self

    def seen(self, serving, *, coming=0, standing=None, slots=10, engines=(), may_shrink=True, **demand):
        """The situation as of now."""
        queued, in_flight = self.load
        live = serving + coming
        return Situation(
            demand=Demand(
                queued=queued,
                in_flight=in_flight,
                concurrency=float(queued + in_flight),
                peak=float(queued + in_flight),
                complete_since_s=0.0,
                last_active_s=self.active_s,
                past=self.past,
                **demand,
            ),
            standing=live if standing is None else standing,
            min_replicas=0,
            max_replicas=MANY,
            floor=int(queued + in_flight > 0),
            floor_by="in_use",
            live=live,
            serving=serving,
            serving_slots=serving * slots,
            may_shrink=may_shrink,
            slots=slots,
            promise=Promise(2.0, 0.1),
            engines=tuple(
                EngineSeen(f"m-{n}", 0.0, running, waiting, kv)
                for n, (running, waiting, kv) in enumerate(engines, 1)
            ),
        )


def steady(seconds=120, **load):
    """Traffic that has been like this for a while."""
    return Traffic().go(seconds, **load)
