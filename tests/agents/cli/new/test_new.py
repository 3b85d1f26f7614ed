"""`vivavoce new`: what it writes and prints, and what it refuses without leaving anything behind."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from kit.cli import Command, in_this_process
from vivavoce.agents.caller.script import read_script
from vivavoce.agents.cli.app_file import load_app
from vivavoce.agents.cli.catalogue.providers import Listed, find_plugins
from vivavoce.agents.cli.new import project as new_project
from vivavoce.agents.cli.new.parts import Chosen, check_together, choose, voice_activity
from vivavoce.agents.cli.new.project import FILES, Project, write
from vivavoce.pipelines.about import Part, Provider
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.testing import ScriptedSTT, ScriptedTTS

LISTED, _ = find_plugins()


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    return in_this_process(capsys)


def test_a_project_is_written_and_its_next_steps_are_printed(command: Command, tmp_path: Path) -> None:
    status, printed = command("new", "host", cwd=tmp_path)
    assert status == 0
    assert {path.name for path in (tmp_path / "host").iterdir()} == set(FILES)
    for step in ("cd host", "pip install", "pytest", "console agent.py --text", "dev agent.py", "call call.toml"):
        assert step in printed
    assert ".env.example .env" not in printed  # its parts need no key
    assert load_app(tmp_path / "host" / "agent.py").runs == "entrypoint()"
    assert [step.say for step in read_script(tmp_path / "host" / "call.toml").steps] == [
        "on friday",
        "at seven",
        "goodbye",
    ]
    pyproject = tomllib.loads((tmp_path / "host" / "pyproject.toml").read_text(encoding="utf-8"))
    assert pyproject["project"]["dependencies"][0].startswith("vivavoce[hibari,moonshine,silero]")


def test_named_providers_bring_their_code_extras_and_keys(command: Command, tmp_path: Path) -> None:
    chosen = ("--stt", "deepgram.FluxSTT", "--llm", "groq=openai/gpt-oss-120b", "--tts", "vllm=orpheus,tara")
    status, printed = command("new", "host", *chosen, cwd=tmp_path)
    assert status == 0, printed
    source = (tmp_path / "host" / "agent.py").read_text(encoding="utf-8")
    assert "stt=deepgram.FluxSTT()," in source
    assert 'llm=openai.LLM(server="groq", model="openai/gpt-oss-120b"),' in source
    assert 'tts=openai.TTS(server="vllm", model="orpheus", voice="tara"),' in source
    assert "write into it: DEEPGRAM_API_KEY, GROQ_API_KEY" in printed
    assert "https://console.groq.com/keys\nGROQ_API_KEY=\n" in (tmp_path / "host" / ".env.example").read_text()


def test_the_caller_of_every_project_has_a_voice_that_moonshine_understands(command: Command, tmp_path: Path) -> None:
    command("new", "host", "--tts", "cartesia", cwd=tmp_path)
    pyproject = tomllib.loads((tmp_path / "host" / "pyproject.toml").read_text(encoding="utf-8"))
    assert pyproject["project"]["dependencies"][0].startswith("vivavoce[cartesia,moonshine,silero]")
    assert "vivavoce[room,silero,hibari]" in pyproject["project"]["optional-dependencies"]["dev"]


def test_a_model_is_named_for_a_part_that_has_one_of_its_own(command: Command, tmp_path: Path) -> None:
    assert command("new", "host", "--stt", "deepgram=nova-3-medical", cwd=tmp_path)[0] == 0
    assert 'stt=deepgram.STT(model="nova-3-medical"),' in (tmp_path / "host" / "agent.py").read_text(encoding="utf-8")


def test_its_files_are_as_formatters_and_linters_want_them(command: Command, tmp_path: Path) -> None:
    tools = Path(sys.executable).parent
    for name, options in {"offline": (), "online": ("--stt", "deepgram", "--llm", "openai")}.items():
        command("new", name, *options, cwd=tmp_path)
        for run in ("ruff format --isolated --check --line-length=120", "ruff check --isolated --select=F,I,UP,B"):
            done = subprocess.run([tools / run.split()[0], *run.split()[1:]], cwd=tmp_path / name, capture_output=True)
            assert done.returncode == 0, done.stdout
    done = subprocess.run([tools / "hadolint", tmp_path / "offline" / "Dockerfile"], capture_output=True)
    assert (done.returncode, done.stdout) == (0, b"")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["a/b"], ["got 'a/b'", "letters, digits"]),
        ([".hidden"], ["got '.hidden'"]),
        (["mein-café"], ["got 'mein-café'"]),
        (["x" * 101], ["at most 100"]),
        (["PyTest"], ["needs the package 'pytest'"]),
        (["openai"], ["needs the package 'openai'", "take another"]),
        (["Typing.Extensions"], ["needs the package 'typing-extensions'"]),
        (["taken"], ["'taken' is there already", "another name"]),
        (["host", "--stt", "anthropic"], ["Anthropic has none", "there are: assemblyai"]),
        (["host", "--tts", "nobody"], ["got 'nobody'", "elevenlabs"]),
        (["host", "--llm", "groq"], ["groq needs its model", "--llm groq=MODEL", "https://console.groq.com"]),
        (["host", "--tts", "vllm=orpheus"], ["needs its model and voice", "--tts vllm=MODEL,VOICE"]),
        (["host", "--tts", "openai="], ["openai.TTS() takes no such name, got ''", "write --tts openai"]),
        (["host", "--tts", "azure=foo"], ["azure.TTS() takes no such name, got 'foo'"]),
    ],
)
def test_what_cannot_be_is_refused_in_words_and_nothing_is_left(
    arguments: list[str], told: list[str], command: Command, tmp_path: Path
) -> None:
    (tmp_path / "taken").mkdir()
    status, printed = command("new", *arguments, cwd=tmp_path)
    assert status == 1
    assert [text for text in told if text not in " ".join(printed.split())] == []
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
    assert list((tmp_path / "taken").iterdir()) == []


def test_a_broken_link_has_taken_a_name_too(tmp_path: Path) -> None:
    (tmp_path / "host").symlink_to(tmp_path / "nowhere")
    with pytest.raises(ConfigurationError, match="there already"):
        write({"a": "b"}, tmp_path / "host")
    assert [path.name for path in tmp_path.iterdir()] == ["host"]


def test_a_project_that_cannot_be_written_whole_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot write the project"):
        write({"agent.py": "x", "no/such/folder.py": "y"}, tmp_path / "host")
    assert list(tmp_path.iterdir()) == []


def _theirs(**part: object) -> Listed:
    return Listed(Provider(name="theirs", title="Theirs", parts=(Part(**part),)), "theirs")  # type: ignore[arg-type]


def test_parts_that_do_not_go_together_are_refused() -> None:
    wrong = _theirs(kind="stt", make=ScriptedTTS)
    with pytest.raises(ConfigurationError, match=r"do not go together: .*choose others"):
        check_together([choose([wrong], "stt", "theirs"), choose(LISTED, "llm", None)])


def test_a_part_that_needs_what_only_its_user_can_write_is_refused() -> None:
    theirs = choose([_theirs(kind="stt", make=ScriptedSTT, arguments="WORDS")], "stt", "theirs")
    llm, tts = choose(LISTED, "llm", None), choose(LISTED, "tts", None)
    with pytest.raises(ConfigurationError, match="needs WORDS, which only you can write"):
        Project(name="host", vad=voice_activity(LISTED), stt=theirs, llm=llm, tts=tts).files()


def test_the_offline_part_is_the_best_one_that_is_installed() -> None:
    def named(name: str, *missing: str) -> Listed:
        return replace(_theirs(kind="stt", make=ScriptedSTT), provider=_provider(name), missing=missing)

    def _provider(name: str) -> Provider:
        return Provider(name=name, title=name, parts=(Part(kind="stt", make=ScriptedSTT),))

    def chosen(*listed: Listed) -> Chosen:
        return choose(listed, "stt", None)

    assert chosen(named("pocketsphinx"), named("moonshine")).listed.provider.name == "moonshine"
    assert chosen(named("pocketsphinx"), named("moonshine", "a wheel")).listed.provider.name == "pocketsphinx"
    assert chosen(named("moonshine", "a wheel")).listed.provider.name == "moonshine"
    with pytest.raises(ConfigurationError, match="--stt NAME"):
        chosen(named("other"))


def test_every_template_is_used() -> None:
    used = {*FILES.values(), "GRAMMAR", "TALK"}
    assert {path.stem for path in new_project.TEMPLATE.rglob("*.tmpl")} == used
