"""What speaks and hears in the demo: the best parts that are installed, unless others are wanted."""

from __future__ import annotations

import sys

import pytest

from vivavoce.agents.caller.script import Voice
from vivavoce.agents.cli.demo.speech import choose
from vivavoce.agents.cli.offline import CALLER_ESPEAK, caller_voice, make
from vivavoce.pipelines.core.errors import ConfigurationError


def without(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    for package in packages:
        monkeypatch.setitem(sys.modules, package, None)


@pytest.mark.parametrize(
    ("missing", "parts", "reason"),
    [
        ((), ("hibari", "moonshine"), ()),
        (("moonshine_voice",), ("hibari", "pocketsphinx"), ("moonshine",)),
        (("hibari",), ("espeak", "pocketsphinx"), ("hibari",)),
        (("moonshine_voice", "hibari"), ("espeak", "pocketsphinx"), ("hibari", "moonshine")),
    ],
)
def test_the_best_parts_that_are_installed_serve(
    missing: tuple[str, ...], parts: tuple[str, str], reason: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    without(monkeypatch, *missing)
    speech = choose(None, None, has_call=True)
    assert ((speech.voice, speech.ears), speech.missing) == (parts, reason)


@pytest.mark.parametrize(
    ("voice", "ears", "parts"),
    [
        ("espeak", "pocketsphinx", ("espeak", "pocketsphinx")),
        ("espeak", None, ("espeak", "pocketsphinx")),
        (None, "pocketsphinx", ("hibari", "pocketsphinx")),
        ("hibari", None, ("hibari", "moonshine")),
    ],
)
def test_the_parts_that_are_wanted_serve(voice: str | None, ears: str | None, parts: tuple[str, str]) -> None:
    speech = choose(voice, ears, has_call=True)
    assert ((speech.voice, speech.ears), speech.missing) == (parts, ())


def test_guests_are_heard_by_any_ears_whatever_the_agent_s_voice() -> None:
    speech = choose("espeak", "moonshine", has_call=False)
    assert (speech.voice, speech.ears) == ("espeak", "moonshine")
    with pytest.raises(ConfigurationError, match="give --voice hibari, or --ears pocketsphinx"):
        choose("espeak", "moonshine", has_call=True)


def test_where_no_part_of_a_kind_is_installed_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "moonshine_voice", "pocketsphinx")
    with pytest.raises(ConfigurationError, match=r"moonshine_voice, pocketsphinx.*vivavoce\[demo\]"):
        choose(None, None, has_call=True)


def test_a_scripted_caller_has_the_best_voice_unless_its_script_names_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert caller_voice(Voice()) == ("hibari", {})
    assert caller_voice(Voice(tts="espeak")) == ("espeak", CALLER_ESPEAK)
    assert caller_voice(Voice(options={"voice": "de"})) == ("espeak", {"voice": "de"})
    assert caller_voice(Voice(tts="openai", options={"voice": "ash"})) == ("openai", {"voice": "ash"})
    assert caller_voice(Voice(tts="openai")) == ("openai", {})
    without(monkeypatch, "hibari")
    assert caller_voice(Voice()) == ("espeak", CALLER_ESPEAK)


def test_an_agent_without_a_pipeline_hears_and_speaks_by_the_best_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [make(kind).provider for kind in ("vad", "stt", "tts")] == ["silero", "moonshine", "hibari"]
    without(monkeypatch, "moonshine_voice", "hibari")
    assert [make(kind).provider for kind in ("stt", "tts")] == ["pocketsphinx", "espeak"]
