"""Everything that a user can name is in the docs, and nothing else is: flags, metrics, outcomes, adapters."""

import ast
import re
from dataclasses import replace

import click
import pytest
from click.testing import CliRunner

from docs.pages import PAGES, ROOT, quoted, rows, section
from tidegate.adapters.registry import ADAPTERS
from tidegate.backends.local.provisions import Provisions
from tidegate.cli.engine_meters import EngineMeters
from tidegate.cli.main import cli
from tidegate.cli.metrics import FleetMetrics
from tidegate.cli.weights_meters import WeightsMeters
from tidegate.core import lifecycle
from tidegate.core.dispatch import Dispatcher
from tidegate.core.dispatch.prefix import PrefixStats
from tidegate.core.dispatch.spillbook import SpillStats
from tidegate.core.effects import Record
from tidegate.core.events import DemandReported, EngineReported, FleetConfigured, ReplicaAdopted
from tidegate.core.fleet import FleetController
from tidegate.core.fleet.batchsize import PAGES as PAGES_SEEN
from tidegate.core.fleet.scaling.forecast import Expected
from tidegate.core.outcomes import MEANING, Outcome
from tidegate.core.scaling_settings import LawSettings, ScalingPolicy
from tidegate.core.settings import FleetLimits, FleetModel
from tidegate.core.types import Address, DemandReport, ReplicaLoad
from tidegate.emulator.options import parser
from tidegate.gateway import Meters
from tidegate.gateway.gate import KEPT
from tidegate.gateway.prefix_meters import PrefixMeters
from tidegate.gateway.spill_meters import SpillMeters
from tidegate.runtime.journal import FileJournal
from tidegate.weights.settings import WeightsSettings

# ---- commands ----


def commands(command=cli, path=()):
    """Every command that does something, with its name."""
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from commands(inner, (*path, name))
    else:
        yield " ".join(path), command


def flags_of(name, command):
    if name == "emulate":
        return {flag for action in parser()._actions for flag in action.option_strings}
    return {flag for option in command.params if isinstance(option, click.Option) for flag in option.opts}


def told_of(name):
    heading = next(
        line for line in PAGES["docs/cli.md"].splitlines() if re.match(rf"## `tidegate {name}[ `]", line)
    )
    return section(PAGES["docs/cli.md"], heading)


@pytest.mark.parametrize("name", dict(commands()))
def test_a_command_has_its_section_with_exactly_its_options(name):
    command = dict(commands())[name]
    told = {flag for cells in rows(told_of(name)) for flag in quoted(cells[0]) if flag.startswith("--")}

    assert told == flags_of(name, command) - {"-h", "--help"}


def test_the_list_of_commands_cuts_no_sentence_short():
    told = CliRunner().invoke(cli, ["--help"]).output

    assert "explain" in told
    assert "..." not in told.partition("Commands:")[2]


DECIDED_LATER = {
    ("simulate", "--cold-start"),
    ("simulate", "--profile"),
    ("simulate", "--slo"),
    ("emulate", "--max-adapters"),
}
"""Flags whose default is not the parser's: a policy file or a profile may have another."""


def defaults_of(name, command):
    """Each flag's default, as the code has it."""
    if name == "emulate":
        for action in parser()._actions:
            yield from ((flag, action.default) for flag in action.option_strings)
        return
    given = command.make_context(name, [], resilient_parsing=True).params
    for option in command.params:
        if isinstance(option, click.Option):
            yield from ((flag, given[option.name]) for flag in option.opts)


def is_told(told, default):
    """A word or number must be the default; words such as "as in the file" stand for none, nothing or 0."""
    told, is_word = told.strip("`"), told.startswith("`")
    if isinstance(default, int | float) and re.fullmatch(r"[\d.]+s?", told):
        return float(told.rstrip("s")) == default
    if is_word or re.fullmatch(r"[\d.]+s?", told):
        return told == str(getattr(default, "value", default))
    return not default or told == str(default)


@pytest.mark.parametrize("name", dict(commands()))
def test_a_default_in_the_docs_is_the_one_in_the_code(name):
    table = {flag: cells[1] for cells in rows(told_of(name)) if len(cells) == 3 for flag in quoted(cells[0])}
    defaults = dict(defaults_of(name, dict(commands())[name]))
    wrong = {
        flag: (told, defaults[flag])
        for flag, told in table.items()
        if flag in defaults and (name, flag) not in DECIDED_LATER and not is_told(told, defaults[flag])
    }

    assert not wrong


def test_no_command_is_described_that_does_not_exist():
    headings = re.findall(r"^## `tidegate ([a-z ]+?)(?: [A-Z\[].*)?`$", PAGES["docs/cli.md"], re.MULTILINE)

    assert sorted(headings) == sorted(name for name, _ in commands())


# ---- metrics ----


class Control:
    """As much of a ControlOwner as the metrics look at."""

    def view(self):
        controller = FleetController()
        controller.on(
            FleetConfigured(
                {
                    "m": FleetModel(
                        engine="openai", shadow=(LawSettings(ScalingPolicy.KPA),), adapters=(("red", "mark"),)
                    )
                },
                FleetLimits(),
            ),
            0.0,
        )
        controller.on(ReplicaAdopted("m-1", "m", Address("127.0.0.1", 9000)), 0.0)
        controller.on(DemandReported(DemandReport("g", 0, (), (ReplicaLoad("m-1", 9, 0),))), 0.0)
        for _ in range(PAGES_SEEN):
            controller.on(EngineReported("m-1", 8, 1, None), 0.0)
        view = controller.state(0.0)
        return replace(
            view, models=(replace(view.models[0], forecast=Expected(4.0, 60.0, True, False, 500.0, 100.0)),)
        )


def exported(tmp_path):
    """Name, type and labels of everything on the page, once each thing has happened."""
    meters = Meters(lambda: ["m"])
    meters.record(Record("r", "m", "f", Outcome.COMPLETED, "m-1", 1, 0.1, 0.2, 0.3, 4, 5, 2, 200))
    meters.refused(Outcome.REJECTED_INVALID, "media_type")
    prefixes = PrefixMeters(lambda: {"m": PrefixStats()})
    provisions = Provisions(WeightsSettings(tmp_path), {}, print)
    weights = WeightsMeters(lambda: provisions)
    spilt = SpillStats(1, 2, 3, 4, 5.0, 6.0, (("max_cost", 1),))
    spills = SpillMeters(lambda: {"m": spilt})
    fleet = FleetMetrics(Control(), FileJournal(tmp_path, "run", 1))
    for collector in (meters, prefixes, spills, fleet, weights, EngineMeters(lambda: {"m": 1})):
        for family in collector.collect():
            name = f"{family.name}_total" if family.type == "counter" else family.name
            labels = {label for sample in family.samples for label in sample.labels} - {"le"}
            assert family.samples, name
            yield name, (family.type, labels)


def test_every_metric_is_documented_with_type_and_labels_and_no_other(tmp_path):
    told = {
        quoted(name)[0]: (kind, set(quoted(labels)))
        for name, kind, labels, _ in rows(PAGES["docs/metrics.md"])
        if name.startswith("`")
    }

    assert told == dict(exported(tmp_path))


# ---- outcomes ----


def test_the_table_of_outcomes_is_the_one_in_the_code():
    told = {}
    for outcome, status, kind, code, retry, what in rows(PAGES["docs/outcomes.md"]):
        if outcome.startswith("`"):
            told[quoted(outcome)[0]] = (int(status), kind.strip("`—"), code.strip("`—"), retry == "yes")
            assert what
        if quoted(outcome) == [Outcome.CLIENT_GONE.value]:
            break

    assert told == {
        outcome.value: (m.status, m.error_type, m.code, m.retry_helps) for outcome, m in MEANING.items()
    }


def reasons_in_code():
    """Every literal that is handed to a Refusal as its reason."""
    for path in (ROOT / "src/tidegate/gateway").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "id", None)
            given = [word.value for word in node.keywords if word.arg == "reason"]
            given += node.args[1:2] if name == "_too_slow" else []
            yield from (each.value for each in given if isinstance(each, ast.Constant))


def test_every_reason_for_a_refusal_is_documented_and_no_other():
    table = rows(section(PAGES["docs/outcomes.md"], "## Refusals at the door"))

    assert {quoted(cells[0])[0] for cells in table if cells[0].startswith("`")} == set(reasons_in_code())


# ---- engines, lifecycle, words ----


@pytest.mark.parametrize("name", ADAPTERS)
def test_an_adapter_has_its_row_and_its_section(name):
    page = PAGES["docs/engines.md"]

    assert [name] in [quoted(cells[0]) for cells in rows(page)]
    assert section(page, f"## `{name}`").strip()


def test_the_drawing_of_the_lifecycle_is_the_table():
    assert (ROOT / "docs/lifecycle.mmd").read_text(encoding="utf-8").strip() == lifecycle.drawing()


def test_the_short_drawing_has_no_move_that_the_table_lacks():
    (drawn,) = re.findall(r"stateDiagram-v2\n(.*?)```", PAGES["docs/architecture.md"], re.DOTALL)
    moves = {
        (before.value, after.value, seen.value)
        for before, table in lifecycle.TRANSITIONS.items()
        for seen, after in table.items()
    }

    for before, after, labels in re.findall(r"^ +(\w+) --> (\w+)(?:: (.+))?$", drawn, re.MULTILINE):
        for seen in labels.split(", ") if labels else [after]:
            assert (before, after, seen) in moves


def test_the_events_and_effects_in_the_architecture_are_those_of_the_brains():
    table = {cells[0].strip("`"): cells for cells in rows(PAGES["docs/architecture.md"]) if len(cells) == 4}

    for brain in (Dispatcher, FleetController):
        module = __import__(brain.__module__, fromlist=["x"])
        prefix = {"Dispatcher": "Dispatch", "FleetController": "Fleet"}[brain.__name__]
        _, _, events, effects = table[brain.__name__]
        assert set(quoted(events)) == {kind.__name__ for kind in getattr(module, f"{prefix}Event").__args__}
        assert set(quoted(effects)) == {kind.__name__ for kind in getattr(module, f"{prefix}Effect").__args__}


def test_every_folder_has_its_place_in_the_architecture():
    told = {name for cells in rows(PAGES["docs/architecture.md"]) for name in quoted(cells[0])}
    folders = {path.parent.name for path in (ROOT / "src/tidegate").glob("*/__init__.py")}

    assert folders - {"core", "engine", "workload"} <= told


def test_what_the_glossary_names_in_the_code_is_in_the_code():
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))

    for word, meaning, code in rows(PAGES["docs/glossary.md"])[1:]:
        assert meaning, word
        for name in quoted(code):
            assert re.search(rf"\b{name.rpartition('.')[2]}\b", source), name


def test_the_glossary_is_in_order_and_one_line_a_word():
    words = [cells[0].lower() for cells in rows(PAGES["docs/glossary.md"])[1:]]

    assert words == sorted(words)
    assert len(words) == len(set(words))


# ---- headers ----


def test_what_a_client_may_say_is_told():
    """Headers of our own, and no others."""
    told = {
        name
        for cells in rows(section(PAGES["docs/outcomes.md"], "## What a client may say"))
        for name in quoted(cells[0])
    }

    assert told == {name.decode() for name in KEPT if name.startswith(b"x-")}
