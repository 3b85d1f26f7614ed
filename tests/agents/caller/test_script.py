"""Scripts of `vivavoce call`: their format, and the errors of wrong ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vivavoce.agents.caller.script import read_script
from vivavoce.agents.caller.voice import read_recording
from vivavoce.pipelines.core.errors import ConfigurationError

GOOD = """
patience = 5
[voice]
tts = "espeak"
options = { voice = "en-us+f5" }
[ears]
words = "transcription"
[greeting_expect]
words = "which day"
[[steps]]
say = "friday please"
expect = { words = ["what time"], within = 2 }
[[steps]]
say = "stop please"
barge_in_after = 0.5
expect = { silent_within = 1.0, not_words = "rules" }
"""


def test_a_script_in_toml_and_the_same_in_json_are_one(tmp_path: Path) -> None:
    (tmp_path / "call.toml").write_text(GOOD)
    script = read_script(tmp_path / "call.toml")
    (tmp_path / "call.json").write_text(json.dumps(script.model_dump(mode="json")))
    assert read_script(tmp_path / "call.json") == script
    assert [step.line for step in script.steps] == ["friday please", "stop please"]
    assert script.greeting_expect.words == ("which day",)


def test_files_are_taken_from_the_scripts_own_folder(tmp_path: Path) -> None:
    (tmp_path / "hello.wav").write_bytes(b"")
    (tmp_path / "call.toml").write_text('[[steps]]\nplay = "hello.wav"\n')
    (step,) = read_script(tmp_path / "call.toml").steps
    assert step.play == str((tmp_path / "hello.wav").resolve())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("steps = [", "cannot be parsed"),
        ("steps = []", "steps: Tuple should have at least 1 item"),
        (
            "[[steps]]\nsay = 'hello'\nwords = 'hi'",
            "steps.1.words: unknown key; known ones are say, play, press, pause",
        ),
        (
            "stepz = 1\n[[steps]]\nsay = 'a'",
            "stepz: unknown key; known ones are greeting, greeting_expect, steps",
        ),
        (
            "[ears]\nwords = 'none'\n[[steps]]\nsay = 'a'\nexpect = { word = 'b' }",
            "has 1 mistake:\n  steps.1.expect.word: unknown key; known ones are words, not_words, within,",
        ),
        ("[[steps]]\nsay = 'a'\nexpect = { within = '2s' }", "unable to parse string as a number, got '2s'"),
        ("[[steps]]\nsay = 'hello'\nplay = 'a.wav'", "one of say .* play .* and press"),
        ("[[steps]]\nsay = 'hello'\npress = '1'", "one of say .* play .* and press"),
        ("[[steps]]\npress = '1x'", "steps.1.press: String should match pattern .*, got '1x'"),
        ("[[steps]]\npause = 1", "one of say .* play .* and press"),
        ("[[steps]]\nsay = 'hi'\n[[steps]]\nsay = 'stop'\nexpect = {silent_within = 1}", "steps.2: .*barge_in_after"),
        ("[[steps]]\nsay = 'hi'\nexpect = {words = 'hello'}", "how the caller hears them"),
        ("[[steps]]\nsay = 'hi'\nexpect = {within = -1}", "greater than 0"),
        ("[[steps]]\nsay = 'hi'\nexpect = {silent_for = 1, within = 1}", "expects no answer"),
        ("[[steps]]\nsay = 'hi'\nexpect = {silent_for = 1, may_leave = true}", "expects an agent that stays"),
        ("[[steps]]\nsay = 'hi'\nexpect = {leaves_within = 5}\n[[steps]]\nsay = 'you'", "is for the last step"),
        ("[greeting_expect]\nleaves_within = 5\n[[steps]]\nsay = 'hi'", "takes words, not_words, within and may_leave"),
        ("takeover = -1\n[[steps]]\nsay = 'hi'", "greater than or equal to 0"),
        ("[ears]\nwords = 'grammar'\n[[steps]]\nsay = 'hi'", "go together"),
        ("[ears]\nwords = 'grammar'\ngrammar = 'none.gram'\n[[steps]]\nsay = 'hi'", "grammar 'none.gram' is not there"),
        ("[[steps]]\nplay = 'none.wav'", "recording 'none.wav' is not there"),
        ("greeting = false\n[greeting_expect]\nwithin = 1\n[[steps]]\nsay = 'hi'", "says it does not"),
        ("[voice]\ntts = '../x'\n[[steps]]\nsay = 'hi'", "voice.tts"),
    ],
)
def test_a_wrong_script_is_told_where_and_what_is_needed(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "call.toml").write_text(text)
    with pytest.raises(ConfigurationError, match=said):
        read_script(tmp_path / "call.toml")


def test_a_script_that_is_not_there_or_not_a_script_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"none\.toml.*No such file"):
        read_script(tmp_path / "none.toml")
    (tmp_path / "call.py").write_text("")
    with pytest.raises(ConfigurationError, match=r"\.toml or \.json"):
        read_script(tmp_path / "call.py")
    (tmp_path / "call.json").write_bytes(b"\xff")
    with pytest.raises(ConfigurationError, match="cannot be parsed"):
        read_script(tmp_path / "call.json")
    (tmp_path / "big.toml").write_bytes(b"#" * 600_000)
    with pytest.raises(ConfigurationError, match="at most"):
        read_script(tmp_path / "big.toml")


async def test_a_recording_that_is_no_wav_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(b"nothing")
    with pytest.raises(ConfigurationError, match="no WAV file of 16-bit PCM"):
        await read_recording(tmp_path / "a.wav")
    with pytest.raises(ConfigurationError, match="cannot read the recording"):
        await read_recording(tmp_path / "b.wav")
