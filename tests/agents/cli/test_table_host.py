"""The demo's host, its caller, their ears and their grammars fit together."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from vivavoce.agents.caller.answering_mind import Script
from vivavoce.agents.caller.line import FRAME_SAMPLES, SAMPLE_RATE
from vivavoce.agents.caller.voice import speak_all
from vivavoce.agents.cli.demo import agent as host
from vivavoce.agents.cli.demo import script as plan
from vivavoce.agents.cli.demo.place import Place, given_place
from vivavoce.agents.cli.demo.script import GRAMMAR_SCRIPT, free_script
from vivavoce.agents.cli.demo.speech import GRAMMARS, Speech
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.llm.base import GenerateRequest, TextDelta
from vivavoce.pipelines.llm.chat_context import ChatContext, ChatMessage, FunctionCall, FunctionCallOutput
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.stt.base import STTFinal
from vivavoce.plugins import rules
from vivavoce.plugins.rules import Value
from vivavoce.plugins.rules.state import State, hear

FRAME = 2 * FRAME_SAMPLES


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z']+", text.lower()))


def _grammar_words(path: Path) -> set[str]:
    text = re.sub(r"//[^\n]*|<[^>]*>|#JSGF[^\n]*|\bgrammar \w+;", " ", path.read_text())
    return _words(text)


async def _converse(lines: list[str]) -> tuple[list[str], host.Bookings]:
    """Return the host's answers to these lines, with real calls of its tool."""
    bookings = host.Bookings()
    table_host = host.TableHost(bookings)
    context = ChatContext()
    answers = []
    for line in lines:
        context.append(ChatMessage(role="user", content=re.sub(r"[,.?]", "", line)))
        is_answered = False
        while not is_answered:
            request = GenerateRequest(context=context, tools=table_host.tools)
            text = ""
            is_answered = True
            async for event in rules.LLM(host.booking()).generate(request):
                if isinstance(event, TextDelta):
                    text += event.text
                elif isinstance(event, ToolCall):
                    output = await table_host.book(**json.loads(event.arguments))
                    call = FunctionCall(call_id=event.call_id, name=event.name, arguments=event.arguments)
                    context.append(call)
                    context.append(FunctionCallOutput(call_id=event.call_id, name=event.name, output=output))
                    is_answered = False
        context.append(ChatMessage(role="assistant", content=text))
        answers.append(text)
    return answers, bookings


@pytest.mark.parametrize("script", [GRAMMAR_SCRIPT, free_script(0)], ids=["grammar", "free"])
async def test_the_callers_script_leads_to_the_booking_that_it_wants(script: Script) -> None:
    day, time, people, farewell = (line for _, line in script.answers)
    lines = [day, time, people, script.barge_in[1], script.correction[1], farewell]
    answers, bookings = await _converse(lines)
    assert answers[3] == "Certainly. Is the booking right?"
    assert answers[-1] == "Thank you for calling. Goodbye."
    wanted = [host.Booking(**booking) for booking in (script.first_booking, script.booking)]  # type: ignore[arg-type]
    assert bookings.made == wanted


OTHERS: dict[str, Value] = {"day": "sunday", "time": "18:30", "people": 2}
OBJECTIONS = [line for _, line in free_script(0).read_back]


def phrases() -> list[tuple[str, dict[str, Value]]]:
    """Return each line of the caller in free phrases, and what it changes of a booking."""
    found: dict[str, dict[str, Value]] = {}
    found |= {line: {"day": "friday"} for line in (*plan.DAY, OBJECTIONS[2])}
    found |= {line: {"time": "19:00"} for line in plan.TIME}
    found |= {line: {"people": 5} for line in (*plan.PEOPLE, OBJECTIONS[1])}
    found |= {line: {"time": "20:00"} for line in (*plan.CORRECTION, OBJECTIONS[0])}
    found |= {line: {} for line in (*plan.BARGE_IN, *plan.GOODBYE, free_script(0).opening)}
    return list(found.items())


PHRASES = phrases()


def understood(line: str) -> dict[str, Value]:
    """Return what the rules understand of a line after a booking."""
    state = State(values=dict(OTHERS))
    hear(host.booking(), state, line)
    return {name: value for name, value in state.values.items() if value != OTHERS[name]}


@pytest.mark.parametrize(("line", "wanted"), PHRASES)
def test_the_host_understands_each_phrase_of_the_caller(line: str, wanted: dict[str, Value]) -> None:
    assert understood(line) == wanted


@pytest.mark.parametrize(("line", "wanted"), PHRASES)
async def test_the_host_hears_each_phrase_of_the_caller(line: str, wanted: dict[str, Value]) -> None:
    """The real parts, without a room: hibari as the caller speaks, and moonshine as the host hears."""
    speech = Speech(voice="hibari", ears="moonshine")
    sound = speech.sound("caller")
    spoken = await speak_all(speech.tts("caller"), [line], pitch=sound.pitch, gain=sound.gain)
    ears = await speech.stt("host").open()
    ears.speech_started(0.0)
    for start in range(0, len(spoken[line]), FRAME):
        ears.push(AudioFrame(spoken[line][start : start + FRAME], SAMPLE_RATE))
    ears.flush()
    final = await anext(event async for event in ears.events() if isinstance(event, STTFinal))
    await ears.aclose()
    assert understood(final.text) == wanted, final.text


def test_a_seed_chooses_the_phrases_and_never_the_booking() -> None:
    assert free_script(7) == free_script(7)
    scripts = [free_script(seed) for seed in range(40)]
    assert len({tuple(script.lines) for script in scripts}) > 20
    assert {tuple(script.booking.items()) for script in scripts} == {tuple(free_script(0).booking.items())}
    assert {line for script in scripts for line in script.lines} == {line for line, _ in PHRASES}


@pytest.mark.parametrize("script", [GRAMMAR_SCRIPT, free_script(0)], ids=["grammar", "free"])
async def test_every_question_of_the_script_is_one_that_the_host_asks(script: Script) -> None:
    answers, _ = await _converse(["hello", "friday", "at seven", "for one"])
    heard = " ".join(re.sub(r"[^a-z ]", "", answer.lower()) for answer in answers)
    for cue in (*(cue for cue, _ in script.answers), script.barge_in[0]):
        assert cue in heard
    assert "for one guest." in answers[-1]


async def test_all_words_of_host_and_caller_are_in_each_others_grammar() -> None:
    answers, _ = await _converse(["hello", "what", "friday", "stop", "at seven", "for four", "no", "at eight", "yes"])
    said_by_host = " ".join([host.GREETING, *answers])
    assert _words(said_by_host) - _grammar_words(GRAMMARS["caller"]) == set()
    assert _words(" ".join(GRAMMAR_SCRIPT.lines)) - _grammar_words(GRAMMARS["host"]) == set()


def test_a_token_for_another_server_calls_our_agent_by_its_name() -> None:
    from livekit.api import TokenVerifier

    place = given_place("http://127.0.0.1:7880/", "key", "s" * 40)
    assert place.url == "ws://127.0.0.1:7880"
    claims = TokenVerifier("key", "s" * 40).verify(place.join_token("room", "me"))
    assert claims.room_config is not None
    assert [dispatch.agent_name for dispatch in claims.room_config.agents] == [place.agent_name]
    assert given_place("ws://h", "k", "s" * 40).agent_name != place.agent_name


def test_a_token_for_the_embedded_room_names_no_agent() -> None:
    from livekit.api import TokenVerifier

    token = Place(url="ws://h", api_key="key", api_secret="s" * 40).join_token("room", "me")
    claims = TokenVerifier("key", "s" * 40).verify(token)
    assert claims.room_config is None
    assert claims.video is not None
    assert claims.video.room == "room"


def test_a_url_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="localhost"):
        given_place("localhost", "key", "secret")
