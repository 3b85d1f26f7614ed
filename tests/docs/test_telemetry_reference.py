"""docs/telemetry.md names what there is; `Watching.check()` holds what all traced tests send against it."""

from __future__ import annotations

import re
from typing import Any

from docs.telemetry_reference import TARGET, metrics, spans, stages
from opentelemetry.metrics import NoOpMeter

from vivavoce.agents.observe.measurements import Measurements
from vivavoce.agents.observe.meters import Meters

AGENTS = TARGET.parents[1] / "agents"
BUILT = ("handoff", "pipeline_change", "wake_up", "hook")
"""Kinds whose attributes are made of what the session says of them."""


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
    Meters(meter, NoQueue(), Measurements(waits=False))
    assert meter.made == {name: (entry.kind, entry.unit) for name, entry in metrics().items()}


def test_nothing_is_in_it_that_the_source_does_not_know() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in AGENTS.rglob("*.py"))
    named = {name for kind, entry in spans().items() if kind not in BUILT for name in entry.attributes}
    named |= {name for entry in metrics().values() for name in entry.attributes}
    assert [name for name in sorted(named) if "*" not in name and f'"{name}"' not in source] == []
    assert [kind for kind in spans() if f'"{kind}"' not in source and not kind.startswith("session_")] == []
    assert [name for entry in spans().values() for name in entry.events if f'"{name}"' not in source] == []


def test_its_stages_are_those_that_the_source_marks() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in AGENTS.rglob("*.py"))
    marked = re.findall(r'\bmark\("(\w+)", "(\w+)"', source) + re.findall(r'StageOwner] = \("(\w+)", "(\w+)"', source)
    assert stages() == dict(marked)
