"""A dispatcher in a test's hands, and what its effects say. Times are seconds from the start."""

from tidegate.core.dispatch import Dispatcher
from tidegate.core.effects import Record, Reject, Send
from tidegate.core.events import ModelsConfigured, ReportDue, RequestArrived, RouteTableChanged
from tidegate.core.lifecycle import State
from tidegate.core.settings import DispatchConfig
from tidegate.core.types import Address, ModelRoute, Route, RouteTable


class World:
    """A dispatcher for one model, "m", and a table that a test changes by naming its replicas."""

    def __init__(self, *, at_s=0.0, **config):
        self.dispatcher = Dispatcher()
        self.version = 0
        self.on(ModelsConfigured({"m": DispatchConfig(**config)}), at_s)

    def configure(self, config, now_s):
        return self.on(ModelsConfigured({"m": config}), now_s)

    def on(self, event, now_s):
        return self.dispatcher.on(event, now_s)

    def table(
        self,
        now_s,
        *routes,
        can_serve=True,
        because=None,
        expected_ready_s=None,
        sheds=False,
        may_spill=True,
        growth=(0, None),
    ):
        """``routes`` are (id, slots) or (id, slots, state)."""
        self.version += 1
        listed = tuple(
            Route(name, "m", state[0] if state else State.SERVING, Address("127.0.0.1", 1), slots, "openai")
            for name, slots, *state in routes
        )
        slots, took_s = growth
        models = (
            ModelRoute(
                "m",
                can_serve,
                because,
                expected_ready_s,
                sheds,
                may_spill,
                growth_slots=slots,
                growth_s=took_s,
            ),
        )
        return self.on(RouteTableChanged(RouteTable(self.version, models, listed)), now_s)

    def ask(
        self,
        name,
        now_s,
        *,
        tokens=100,
        output=None,
        deadline_s=600.0,
        priority=0,
        body=1_000,
        model="m",
        **more,
    ):
        arrived = RequestArrived(name, model, tokens, output, body, deadline_s, priority=priority, **more)
        return self.on(arrived, now_s)

    def report(self, now_s):
        (effect,) = self.on(ReportDue(), now_s)
        return effect.report


def sent(effects):
    return [(e.request_id, e.replica_id) for e in effects if isinstance(e, Send)]


def outcomes(effects):
    return [(e.request_id, e.outcome) for e in effects if isinstance(e, Record)]


def rejected(effects):
    (order,) = [e for e in effects if isinstance(e, Reject)]
    return order
