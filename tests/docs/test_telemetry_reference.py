"""docs/telemetry.md names everything; `Watching.check()` compares it with the telemetry of all traced tests."""

from __future__ import annotations

import re
from typing import Any, get_args

from docs.telemetry_reference import COMMON, EXCEPTION, TARGET, metrics, spans, stages, values
from opentelemetry.metrics import NoOpMeter

from vivavoce.agents.graphs.options import GraphOptions
from vivavoce.agents.records import DropReason, InterruptedBy, TurnOutcome
from vivavoce.agents.telemetry.metrics.meters import Meters
from vivavoce.agents.turn.effects import EndedBy

AGENTS = TARGET.parents[1] / "agents"
SOURCE = "".join(path.read_text(encoding="utf-8") for path in AGENTS.rglob("*.py"))
MADE = r"vivavoce\.(stage|options|(stt|llm|tts|vad|denoise|turn_detector|realtime_model)\.(provider|model)$)"
"""Attributes whose names are composed."""
OTHERS = {"error.message", "exception.escaped", "vivavoce.nowhere"}
"""Names for `redact` without an attribute of ours; the SDK's attributes on an application's own spans; a logger."""
BUILT = ("handoff", "pipeline_change", "wake_up", "hook")
"""Kinds whose attributes come from the session's reports."""


class Instruments(NoOpMeter):
    """Notes the instruments that are made."""

    def __init__(self) -> None:
        super().__init__("vivavoce")
        self.made: dict[str, tuple[str, str]] = {}

    def create_histogram(self, name: str, unit: str = "", *args: Any, **options: Any) -> Any:
        self.made[name] = ("histogram", unit)
        return super().create_histogram(name, unit)

    def create_counter(self, name: str, unit: str = "", description: str = "") -> Any:
        self.made[name] = ("counter", unit)
        return super().create_counter(name, unit)

    def create_up_down_counter(self, name: str, unit: str = "", description: str = "") -> Any:
        self.made[name] = ("up-down counter", unit)
        return super().create_up_down_counter(name, unit)

    def create_observable_gauge(self, name: str, callbacks: Any = None, unit: str = "", description: str = "") -> Any:
        self.made[name] = ("gauge", unit)
        return super().create_observable_gauge(name, callbacks, unit)

    def create_observable_counter(self, name: str, callbacks: Any = None, unit: str = "", description: str = "") -> Any:
        self.made[name] = ("counter", unit)
        return super().create_observable_counter(name, callbacks, unit)


class NoQueue:
    """Nothing waits."""

    dropped_spans = waiting_spans = dropped_logs = waiting_logs = 0


def test_every_metric_is_in_it_with_its_kind_and_unit() -> None:
    meter = Instruments()
    Meters(meter, NoQueue())
    assert meter.made == {name: (entry.kind, entry.unit) for name, entry in metrics().items()}


def test_nothing_is_in_it_that_the_source_does_not_know() -> None:
    named = {name for kind, entry in spans().items() if kind not in BUILT for name in entry.attributes}
    named |= {name for entry in spans().values() for told in entry.events.values() for name in told}
    named |= {name for entry in metrics().values() for name in entry.attributes}
    fixed = [name for name in named if not re.match(MADE, name)]
    assert [name for name in sorted(fixed) if f'"{name}"' not in SOURCE] == []
    assert [kind for kind in spans() if f'"{kind}"' not in SOURCE and not kind.startswith("session_")] == []
    assert [name for entry in spans().values() for name in entry.events if f'"{name}"' not in SOURCE] == []


def test_every_attribute_that_the_source_writes_out_is_in_it() -> None:
    paths = [path for name in ("telemetry", "turn_records", "reports") for path in (AGENTS / name).rglob("*.py")]
    source = "".join(path.read_text(encoding="utf-8") for path in paths)
    written = set(re.findall(r'"((?:vivavoce|gen_ai|error|exception|code)\.(?!agents\.)[\w.]+)"', source))  # no modules
    assert "vivavoce.turn.id" in written
    text = TARGET.read_text(encoding="utf-8")
    assert [name for name in sorted(written - OTHERS) if f"`{name}`" not in text and not re.match(MADE, name)] == []


def test_what_any_span_may_have_is_told_in_words() -> None:
    words = [line for line in TARGET.read_text(encoding="utf-8").splitlines() if not line.startswith("|")]
    assert [name for name in (*COMMON, *EXCEPTION) if f"`{name}`" not in "\n".join(words)] == []


def test_its_stages_are_those_that_the_source_marks() -> None:
    marked = re.findall(r'\bmark\("(\w+)", "(\w+)"', SOURCE) + re.findall(r'StageOwner] = \("(\w+)", "(\w+)"', SOURCE)
    marked.append((GraphOptions.key, "user_code"))  # the stage of an extension has its key as its name
    assert len(set(marked)) == len(dict(marked)), "a stage has two owners"
    assert stages() == dict(marked)


def test_its_values_are_those_of_the_types() -> None:
    assert values() == {
        "vivavoce.turn.outcome": {*get_args(TurnOutcome), "dropped"},
        "vivavoce.turn.reason": {*get_args(DropReason)},
        "vivavoce.turn.ended_by": {*get_args(EndedBy)},
        "vivavoce.interruption.outcome": {"interrupted", "resumed", "cancelled", "discarded"},
        "vivavoce.interruption.by": {*get_args(InterruptedBy)},
    }
