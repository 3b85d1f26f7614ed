"""A session on google.RealtimeModel over loopback: the caller's words, and a connection that is cut."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from kit.limits import LIMIT
from vivavoce.agents import Agent, EndpointingOptions, SessionOptions, function_tool
from vivavoce.agents.events import HistoryItemAdded, HistoryItemReplaced, TurnCompleted
from vivavoce.agents.testing import SessionHarness
from vivavoce.pipelines.realtime import RealtimePipeline
from vivavoce.pipelines.testing import ScriptedVAD
from vivavoce.plugins import google
from vivavoce.plugins.google.twin.live import LiveTwin, Turn

CALL = {"id": "c1", "name": "move_on", "args": {}}


@pytest.fixture(autouse=True)
def loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
async def server() -> AsyncIterator[LiveTwin]:
    async with LiveTwin() as running:
        yield running


@pytest.fixture
async def model(server: LiveTwin) -> AsyncIterator[google.RealtimeModel]:
    options = google.RealtimeOptions(ssl_context=server.trust)
    async with google.RealtimeModel(model="m", api_key="k", base_url=server.url, options=options) as one:
        yield one


class Host(Agent):
    """Takes new instructions in a tool, so that the next answer needs a new connection."""

    def __init__(self) -> None:
        super().__init__("Help.")

    @function_tool
    def move_on(self) -> str:
        """Go on."""
        self.update_instructions("Be quick.")
        return "done"


def heard(text: str) -> dict[str, object]:
    return {"serverContent": {"inputTranscription": {"text": text, "finished": True}}}


def speaks(harness: SessionHarness, seconds: float) -> None:
    start = round(harness.now + 0.3, 1)
    harness.caller.makes_noise(start, round(start + seconds, 1))


def harness_of(model: google.RealtimeModel, agent: Agent, options: SessionOptions | None = None) -> SessionHarness:
    return SessionHarness(agent, pipeline=RealtimePipeline(model, vad=ScriptedVAD()), options=options)


async def test_words_that_come_after_a_new_connection_was_needed_are_not_lost(
    server: LiveTwin, model: google.RealtimeModel
) -> None:
    server.answers(Turn(calls=(CALL,)), "Welcome.")
    async with harness_of(model, Host()) as harness:
        speaks(harness, 0.4)
        await server.got(lambda message: "activityEnd" in message.get("realtime_input", {}))
        first = server.sockets[0]
        while len(server.setups) < 2:
            await harness.until(harness.now + 0.02)
        await server.send(heard("a table"), over=first)
        await harness.next(HistoryItemReplaced, limit=LIMIT)
        await harness.next(TurnCompleted, limit=LIMIT)
    assert harness.messages == [("user", "a table"), ("assistant", "Welcome.")]
    assert [setup["systemInstruction"]["parts"][0]["text"] for setup in server.setups] == ["Help.", "Be quick."]
    sent = [turn for one in server.received for turn in (one.get("client_content") or {}).get("turns") or ()]
    assert sum(part.get("text") == "a table" for turn in sent for part in turn["parts"]) == 1


async def test_a_turn_that_lasts_too_long_is_two_messages_and_two_answers_in_order(
    server: LiveTwin, model: google.RealtimeModel
) -> None:
    server.answers("First.", "Second.")
    options = SessionOptions(endpointing=EndpointingOptions(max_turn_duration=0.4))
    async with harness_of(model, Agent("Help."), options) as harness:
        speaks(harness, 1.6)
        await server.got(lambda message: "activityEnd" in message.get("realtime_input", {}), 1)
        await harness.next(TurnCompleted, limit=LIMIT)
        await server.send(heard("part one"))
        await harness.next(HistoryItemReplaced, limit=LIMIT)
        await server.got(lambda message: "activityEnd" in message.get("realtime_input", {}), 2)
        await harness.next(TurnCompleted, limit=LIMIT)
        await server.send(heard("part two"))
        await harness.next(HistoryItemReplaced, limit=LIMIT)
    assert harness.messages == [
        ("user", "part one"),
        ("assistant", "First."),
        ("user", "part two"),
        ("assistant", "Second."),
    ]


async def test_an_answer_whose_connection_is_cut_goes_on_without_a_word_of_the_caller(
    server: LiveTwin, model: google.RealtimeModel
) -> None:
    server.answers(Turn(text="one two three four five", delay=0.05, ends=False), "six seven.")
    async with harness_of(model, Agent("Help.")) as harness:
        speech = harness.session.reply("Count.")
        while not harness.played or harness.now - harness.played[0].start < 0.7:
            await harness.until(harness.now + 0.05)
        server.abort()
        await speech
        assert speech.outcome == "completed"
    assert len(server.setups) == 2
    assert harness.messages[-1] == ("assistant", "six seven.")
    assert "one two three four five".startswith(harness.messages[0][1])
    assert len(harness.recording.of(HistoryItemAdded)) == 2
