"""`vivavoce new` for every pair of parts: each project makes its pipeline, its types are right and its tests pass."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path
from types import ModuleType

import pytest

from kit.project import run_pytest
from vivavoce.agents.cli.catalogue.providers import find_plugins
from vivavoce.agents.cli.new.parts import Chosen, check_together, choose, voice_activity
from vivavoce.agents.cli.new.project import Project, write
from vivavoce.pipelines.about import Kind
from vivavoce.pipelines.core.errors import ConfigurationError

ROOT = Path(__file__).parents[4]
LISTED, _ = find_plugins()
KINDS: tuple[Kind, ...] = ("stt", "llm", "tts")
SETTINGS = {
    "AZURE_OPENAI_ENDPOINT": "https://resource.openai.azure.com",
    "AZURE_SPEECH_REGION": "westeurope",
}
"""Variables that are no keys; a key is "none"."""


def _all(kind: Kind) -> list[Chosen]:
    parts = [Chosen(each, part) for each in LISTED for part in each.provider.parts if part.kind == kind]
    return [Chosen(one.listed, one.part, tuple("m" for _ in one.placeholders)) for one in parts]


PARTS = {kind: _all(kind) for kind in KINDS}
NAMES: dict[Kind, str] = {"stt": "deepgram", "llm": "anthropic", "tts": "cartesia"}
THIRD = {kind: choose(LISTED, kind, name) for kind, name in NAMES.items()}
PAIRS = [(one, kind) for first, kind in combinations(KINDS, 2) for one in PARTS[first]]
EACH_PAIR = pytest.mark.parametrize(
    ("one", "kind"), [pytest.param(*pair, id=f"{pair[0].code}-with-each-{pair[1]}") for pair in PAIRS]
)


def _project(chosen: Mapping[Kind, Chosen]) -> Project:
    vad = voice_activity(LISTED)
    return Project(name="host", vad=vad, stt=chosen["stt"], llm=chosen["llm"], tts=chosen["tts"])


def _projects(one: Chosen, kind: Kind) -> Iterator[Project]:
    for other in PARTS[kind]:
        yield _project({**THIRD, one.part.kind: one, kind: other})


def _set_keys(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**dict.fromkeys(project.keys(), "none"), **SETTINGS}.items():
        monkeypatch.setenv(name, value)


async def _close(agent: ModuleType) -> dict[str, object]:
    made = dict(agent.make_pipeline().parts())
    for part in made.values():
        await part.aclose()
    return made


@EACH_PAIR
def test_the_project_of_each_pair_makes_its_pipeline_from_its_variables(
    one: Chosen, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    for project in _projects(one, kind):
        check_together(project.parts)
        _set_keys(project, monkeypatch)
        files = project.files()
        agent = ModuleType("agent")
        exec(compile(files["agent.py"], "agent.py", "exec"), vars(agent))
        if absent := [part.listed.extra for part in project.parts if part.listed.missing]:
            with pytest.raises(ConfigurationError, match=rf"vivavoce\[{absent[0]}\]"):
                agent.make_pipeline()
            continue
        made = asyncio.run(_close(agent))
        assert {*KINDS, "vad"} == made.keys()
        assert [type(made[part.part.kind]).__name__ for part in project.parts] == [
            part.part.make.__qualname__ for part in project.parts
        ]
        extras = tomllib.loads(files["pyproject.toml"])["project"]["dependencies"][0]
        assert [part.listed.extra for part in project.parts if part.listed.extra not in extras] == []
        assert [name for name in project.keys() if f"\n{name}=\n" not in files[".env.example"]] == []


@pytest.mark.test_all("two thousand sessions; make test runs the tests of one project, and the makers of all pairs")
@pytest.mark.timeout(180)
@EACH_PAIR
def test_the_project_of_each_pair_passes_its_tests(one: Chosen, kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    for project in _projects(one, kind):
        files = project.files()
        agent, tests = ModuleType("agent"), ModuleType("test_agent")
        monkeypatch.setitem(sys.modules, "agent", agent)
        exec(compile(files["agent.py"], "agent.py", "exec"), vars(agent))
        exec(compile(files["test_agent.py"], "test_agent.py", "exec"), vars(tests))
        ran = [test() for name, test in vars(tests).items() if name.startswith("test_")]
        assert len(ran) == 3


@pytest.mark.test_all("mypy reads 600 files")
@pytest.mark.timeout(180)
def test_the_project_of_each_pair_has_right_types(tmp_path: Path) -> None:
    number = 0
    for number, project in enumerate((project for pair in PAIRS for project in _projects(*pair)), start=1):
        (tmp_path / f"agent_{number}.py").write_text(project.files()["agent.py"], encoding="utf-8")
    for name in ("agent.py", "test_agent.py"):
        (tmp_path / name).write_text(project.files()[name], encoding="utf-8")
    config = tmp_path / "mypy.ini"
    ours = "[mypy-vivavoce.*]\nfollow_imports = silent\n"  # `make lint` judges them
    config.write_text(
        f"[mypy]\nstrict = true\nmypy_path = {ROOT / '.paths'}:{tmp_path}\nnamespace_packages = true\n{ours}"
    )
    command = [sys.executable, "-m", "mypy", "--config-file", str(config), "--explicit-package-bases", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=170, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert f"{number + 2} source files" in done.stdout


def test_pytest_runs_the_tests_of_a_written_project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = {kind: choose(LISTED, kind, None) for kind in KINDS}
    write(_project(chosen).files(), tmp_path / "host")
    status, printed = run_pytest(tmp_path / "host", ini="filterwarnings = error\n", capsys=capsys)
    assert status == 0, printed
    assert "3 passed" in printed
