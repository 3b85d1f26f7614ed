"""`vivavoce start` finds the parts of an app's file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from vivavoce.agents.cli.app_file import load_app, with_options

WORKER = """
from vivavoce.agents import Worker
from vivavoce.agents.worker.options import WorkerOptions

async def entrypoint(ctx): ...
async def special(ctx): ...

mine = Worker(special, agent_name="special", options=WorkerOptions(url="ws://file", max_jobs=3))
again = mine
"""


@pytest.fixture(autouse=True)
def clean_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading an app changes `sys.path` and `sys.modules`, as running it would."""
    import sys

    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))


def _file(folder: Path, text: str) -> Path:
    path = folder / "some_app.py"
    path.write_text(text)
    return path


def _given(**options: Any) -> dict[str, Any]:
    nothing = dict.fromkeys(("url", "api_key", "api_secret", "agent_name", "health_port", "health_host"))
    return {**nothing, **options}


def test_a_worker_comes_before_an_entrypoint_and_may_have_two_names(tmp_path: Path) -> None:
    assert load_app(_file(tmp_path, WORKER)).worker.agent_name == "special"


def test_a_function_entrypoint_is_enough(tmp_path: Path) -> None:
    worker = load_app(_file(tmp_path, "async def entrypoint(ctx): ...\n")).worker
    assert worker.entrypoint.__name__ == "entrypoint"


def test_an_app_may_import_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "some_neighbour.py").write_text("async def entrypoint(ctx): ...\n")
    worker = load_app(_file(tmp_path, "from some_neighbour import entrypoint\n")).worker
    assert worker.entrypoint.__module__ == "some_neighbour"


def test_an_agent_with_a_pipeline_is_enough(tmp_path: Path) -> None:
    text = """
from vivavoce.agents import Agent

class Mine(Agent):
    def __init__(self):
        super().__init__("x")

    def pipeline(self):
        return None
"""
    assert load_app(_file(tmp_path, text)).worker.agent_name == ""


def test_the_command_line_wins_and_leaves_the_rest_as_it_is(tmp_path: Path) -> None:
    worker = load_app(_file(tmp_path, WORKER)).worker
    changed = with_options(worker, **_given(url="ws://flag", api_key="key"))
    assert (changed.options.url, changed.options.api_key, changed.options.max_jobs) == ("ws://flag", "key", 3)
    assert changed.agent_name == "special"
    probed = with_options(worker, **_given(health_port=8081, health_host="0.0.0.0"))
    assert (probed.options.health_port, probed.options.health_host) == (8081, "0.0.0.0")
    assert with_options(worker, **_given(agent_name="other")).agent_name == "other"
    assert with_options(worker, **_given()).options == worker.options
