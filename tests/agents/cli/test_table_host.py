"""The demo's host, its grammars and its caller fit together."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from vivavoce.agents.cli.demo import agent as host
from vivavoce.agents.cli.demo.caller import HOST_GRAMMAR
from vivavoce.agents.cli.demo.place import Place, given_place
from vivavoce.agents.cli.demo.script import DEMO_SCRIPT
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.llm.base import GenerateRequest, TextDelta
from vivavoce.pipelines.llm.chat_context import ChatContext, ChatMessage, FunctionCall, FunctionCallOutput
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.plugins import rules


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


async def test_the_callers_script_leads_to_the_booking_that_it_wants() -> None:
    day, time, people, farewell = (line for _, line in DEMO_SCRIPT.answers)
    lines = [day, time, people, DEMO_SCRIPT.barge_in[1], DEMO_SCRIPT.correction[1], farewell]
    answers, bookings = await _converse(lines)
    assert answers[3] == "Certainly. Is the booking right?"
    assert answers[-1] == "Thank you for calling. Goodbye."
    assert len(bookings.made) == 2
    assert bookings.current == host.Booking(**DEMO_SCRIPT.booking)  # type: ignore[arg-type]


async def test_every_question_of_the_script_is_one_that_the_host_asks() -> None:
    answers, _ = await _converse(["hello", "friday", "at seven", "for one"])
    heard = " ".join(re.sub(r"[^a-z ]", "", answer.lower()) for answer in answers)
    for cue in (*(cue for cue, _ in DEMO_SCRIPT.answers), DEMO_SCRIPT.barge_in[0]):
        assert cue in heard
    assert "for one guest." in answers[-1]


async def test_all_words_of_host_and_caller_are_in_each_others_grammar() -> None:
    answers, _ = await _converse(["hello", "what", "friday", "stop", "at seven", "for four", "no", "at eight", "yes"])
    said_by_host = " ".join([host.GREETING, *answers])
    assert _words(said_by_host) - _grammar_words(HOST_GRAMMAR) == set()
    assert _words(" ".join(DEMO_SCRIPT.lines)) - _grammar_words(host.CALLER_GRAMMAR) == set()


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
