"""A session on openai.RealtimeModel over loopback: the caller's words, and a connection that is cut."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import pytest

from kit.limits import LIMIT
from vivavoce.agents import Agent, EndpointingOptions, SessionOptions
from vivavoce.agents.events import ConnectionReplaced, HistoryItemReplaced, TurnCompleted
from vivavoce.agents.testing import SessionHarness
from vivavoce.pipelines.realtime import RealtimePipeline
from vivavoce.pipelines.testing import ScriptedVAD
from vivavoce.pipelines.testing.realtime_server import (
    ScriptedAnswer,
    ScriptedRealtimeServer,
    ScriptedWords,
)
from vivavoce.plugins import openai

COMMIT = "input_audio_buffer.commit"


@pytest.fixture
async def server() -> AsyncIterator[ScriptedRealtimeServer]:
    async with ScriptedRealtimeServer() as running:
        yield running


def harness_of(
    server: ScriptedRealtimeServer, options: SessionOptions | None = None, *, max_seconds: float = 3600.0
) -> tuple[openai.RealtimeModel, SessionHarness]:
    chosen = openai.RealtimeOptions(max_seconds=max_seconds)
    model = openai.RealtimeModel(model="m", base_url=server.url, api_key="k", options=chosen)
    return model, SessionHarness(Agent("Help."), pipeline=RealtimePipeline(model, vad=ScriptedVAD()), options=options)


def speaks(harness: SessionHarness, seconds: float) -> None:
    start = round(harness.now + 0.3, 1)
    harness.caller.makes_noise(start, round(start + seconds, 1))


async def played(harness: SessionHarness, seconds: float) -> None:
    """Wait until so much of the agent was played."""
    with anyio.fail_after(LIMIT):
        while sum(stretch.seconds for stretch in harness.played) < seconds:
            await harness.until(harness.now + 0.02)


async def words(harness: SessionHarness, count: int) -> None:
    """Wait until that many messages of the caller have their words."""
    while sum(not item.no_transcript for item in harness.session.history.messages("user")) < count:
        await harness.next(HistoryItemReplaced, limit=LIMIT)


async def test_a_turn_that_lasts_too_long_is_two_commits_and_two_answers_in_order(
    server: ScriptedRealtimeServer,
) -> None:
    server.hears(ScriptedWords(text="part one", delay=0.9), ScriptedWords(text="part two", delay=0.9))
    server.answers("First.", "Second.")
    options = SessionOptions(endpointing=EndpointingOptions(max_turn_duration=0.4))
    model, session = harness_of(server, options)
    async with model, session as harness:
        speaks(harness, 1.6)
        await server.received(COMMIT, 2)
        await words(harness, 2)
        while len(harness.session.turns) < 2:
            await harness.next(TurnCompleted, limit=LIMIT)
    assert harness.messages == [
        ("user", "part one"),
        ("assistant", "First."),
        ("user", "part two"),
        ("assistant", "Second."),
    ]
    assert len(server.events(COMMIT)) == 2


async def test_a_transcript_that_comes_again_is_ignored(server: ScriptedRealtimeServer) -> None:
    server.hears("hello")
    server.answers("Sure.")
    model, session = harness_of(server)
    async with model, session as harness:
        speaks(harness, 0.4)
        await harness.next(TurnCompleted, limit=LIMIT)
        await words(harness, 1)
        [item] = [one for one in server.connection.conversation if one["role"] == "user"]
        kind = "conversation.item.input_audio_transcription.completed"
        await server.connection.send(kind, item_id=item["id"], content_index=0, transcript="hello again", usage=None)
        await harness.until(harness.now + 0.5)
    assert harness.messages == [("user", "hello"), ("assistant", "Sure.")]


async def test_the_words_that_a_renewed_connection_owes_reach_the_new_one() -> None:
    options = SessionOptions(endpointing=EndpointingOptions(transcript_timeout=LIMIT, max_delay=LIMIT))
    async with ScriptedRealtimeServer(mind=lambda asked: "Sure.") as server:
        server.hears(*[ScriptedWords(text="a table", delay=2.5)] * 3)
        model, session = harness_of(server, options, max_seconds=2.0)
        async with model, session as harness:
            speaks(harness, 0.4)
            await words(harness, 1)
            assert harness.recording.of(ConnectionReplaced)
            await server.received("conversation.item.create")
    assert harness.messages[0] == ("user", "a table")
    later = [one.received for one in server.connections[1:]]
    newest = [events for events in later if any("item" in one or one["type"] == COMMIT for one in events)][-1]
    texts = [part.get("text") for one in newest if "item" in one for part in one["item"].get("content", ())]
    assert texts.count("a table") + sum(one["type"] == COMMIT for one in newest) == 1


async def test_an_answer_whose_connection_is_cut_goes_on_without_a_word_of_the_caller(
    server: ScriptedRealtimeServer,
) -> None:
    text = "one two three four five six seven eight nine ten eleven twelve"
    server.answers(ScriptedAnswer(text=text, speed=1.0), "And so on.")
    model, session = harness_of(server)
    async with model, session as harness:
        speech = harness.session.reply("Count.")
        await played(harness, 0.5)  # two words, of 0.2 each
        server.connection.abort()
        await speech
        assert speech.outcome == "completed"
    assert len(server.connections) == 2
    first, last = [text for role, text in harness.messages if role == "assistant"]
    assert (first.split()[:2], last) == (["one", "two"], "And so on.")
    assert text.startswith(first)
    asked = server.asked[1]
    assert "Go on from there" in asked.instructions
    said = [part["text"] for item in asked.items if item["role"] == "assistant" for part in item["content"]]
    assert said == [first]
