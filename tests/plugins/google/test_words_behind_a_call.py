"""Words that Gemini says behind a tool call: a whole session over loopback, whoever decides turns, with each kind of
model.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import anyio
import pytest
from google import genai
from google.genai import types

from kit.limits import LIMIT
from vivavoce.agents import Agent, AgentSession, EndpointingOptions, SessionOptions, function_tool
from vivavoce.agents.transports.local import LocalTransport, VirtualSink
from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.llm.chat_context import FunctionCall, FunctionCallOutput
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.realtime import RealtimePipeline
from vivavoce.pipelines.testing import ScriptedVAD
from vivavoce.pipelines.testing.realtime_server.script import tone
from vivavoce.plugins import google
from vivavoce.plugins.google.twin.live import LiveTwin, OpenCall, Turn

CALL = {"id": "c1", "name": "weather", "args": {"city": "Oslo"}}
QUESTION = "How is the weather?"
LOUD = AudioFrame(b"\x00\x10" * 320, 16000)
BEFORE, BEHIND, ANSWER = "One moment.", "I am looking.", "It is cold."
Decides = Literal["server", "session"]


@dataclass(frozen=True)
class Kind:
    """A kind of model: what it does while a call is open, and whether it ends the turn of the call before."""

    open_call: OpenCall
    completes_calls: bool
    model: str
    extra_config: dict[str, Any] = field(default_factory=dict)


BLOCKING = types.FunctionDeclaration(name="weather", behavior=types.Behavior.BLOCKING)
KINDS = [
    Kind("goes_on", True, "gemini-3.8-live"),
    Kind("waits", True, "gemini-2.5-flash-native-audio-preview-12-2025"),
    Kind("waits", False, "gemini-3.1-flash-live-preview"),
    Kind("cancels", False, "gemini-3.8-live", {"tools": [types.Tool(function_declarations=[BLOCKING])]}),
]
NAMES = [f"{kind.open_call}, {'' if kind.completes_calls else 'not '}complete" for kind in KINDS]


class Host(Agent):
    def __init__(self) -> None:
        super().__init__("Be brief.")
        self.runs = 0

    @function_tool
    async def weather(self, city: str) -> str:
        """Tell the weather."""
        self.runs += 1
        return f"cold in {city}"


def voice(word: str) -> bytes:
    """Return a sound of its own for each word."""
    return tone(0.06, hertz=200.0 + 10 * (sum(word.encode()) % 97))


def words_of(pcm: bytes) -> str:
    """Return the words of what was heard; a question mark for a broken one."""
    words = {voice(word): word for text in (BEFORE, BEHIND, ANSWER) for word in text.split()}
    size = len(voice("any"))
    return " ".join(words.get(pcm[at : at + size], "?") for at in range(0, len(pcm), size))


def model_of(server: LiveTwin, kind: Kind) -> google.RealtimeModel:
    server.open_call, server.completes_calls, server.voice = kind.open_call, kind.completes_calls, voice
    options = google.RealtimeOptions(ssl_context=server.trust, extra_config=kind.extra_config, connect_timeout=LIMIT)
    return google.RealtimeModel(model=kind.model, api_key="secret", base_url=server.url, options=options)


@pytest.mark.parametrize("decides", ["server", "session"])
@pytest.mark.parametrize("before", ["", BEFORE], ids=["call first", "words before"])
@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
async def test_words_behind_a_call_are_heard_once_and_whole_and_its_tool_runs_once(
    server: LiveTwin, kind: Kind, before: str, decides: Decides
) -> None:
    server.answers(Turn(text=before, calls=(CALL,), behind=BEHIND), ANSWER)
    agent, sink, is_over = Host(), VirtualSink(LoopClock()), anyio.Event()
    room = LocalTransport(LoopClock(), sink=sink)
    at_once = SessionOptions(endpointing=EndpointingOptions(min_delay=0.0, max_delay=0.0))
    async with model_of(server, kind) as model:
        pipeline = RealtimePipeline(model, vad=ScriptedVAD() if decides == "session" else None)
        async with AgentSession[None](agent, pipeline, options=at_once) as session:
            session.on("turn_completed", lambda _: is_over.set())
            await session.start(room)
            if decides == "session":
                server.hears(QUESTION)
                for frame in (*[LOUD] * 20, *[AudioFrame.silence(0.02, 16000)] * 20):
                    room.push_audio(frame)
            else:
                await server.send({"serverContent": {"inputTranscription": {"text": QUESTION}}})
                await server.play()
            with anyio.fail_after(LIMIT):
                await is_over.wait()

    sentence = f"{before} {BEHIND}".strip()
    assert agent.runs == 1
    assert words_of(sink.played()) == f"{sentence} {ANSWER}"
    said = [(message.role, message.content) for message in session.history.messages()]
    assert said == [("user", QUESTION), ("assistant", sentence), ("assistant", ANSWER)]
    calls = [item for item in session.history.items if isinstance(item, FunctionCall | FunctionCallOutput)]
    assert [call.call_id for call in calls] == ["c1", "c1"]
    assert [turn.outcome for turn in session.turns] == ["completed"]
    assert not [message for message in server.received if "client_content" in message], "it interrupts the model"
    answered = [one["tool_response"]["functionResponses"] for one in server.received if "tool_response" in one]
    assert [[output["id"] for output in outputs] for outputs in answered] == [["c1"]]


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
async def test_the_vendors_own_client_takes_the_same_wire(server: LiveTwin, kind: Kind) -> None:
    server.open_call, server.completes_calls, server.voice = kind.open_call, kind.completes_calls, voice
    server.answers(Turn(calls=(CALL,), behind=BEHIND), ANSWER)
    http = types.HttpOptions(base_url=server.url, async_client_args={"ssl": server.trust})
    client = genai.Client(api_key="secret", http_options=http, vertexai=False)
    weather: dict[str, Any] = {"function_declarations": [{"name": "weather"}]}
    config = types.LiveConnectConfig(
        response_modalities=[types.Modality.AUDIO], **({"tools": [weather]} | kind.extra_config)
    )
    output = types.FunctionResponse(id="c1", name="weather", response={"output": "cold"})
    said, calls, turns, is_answered = "", [], 0, False
    with anyio.fail_after(LIMIT):
        async with client.aio.live.connect(model=kind.model, config=config) as session:
            await session.send_client_content(turns=types.Content(role="user", parts=[types.Part(text=QUESTION)]))
            while not said.endswith(ANSWER):
                async for message in session.receive():
                    content, called = message.server_content, message.tool_call
                    calls += [call.id for call in called.function_calls or []] if called is not None else []
                    if content is not None:
                        turns += bool(content.turn_complete)
                        said += (content.output_transcription.text or "") if content.output_transcription else ""
                    if said == BEHIND and not is_answered:
                        is_answered = True
                        await session.send_tool_response(function_responses=output)
    await client.aio.aclose()
    assert calls == ["c1"]
    assert said == f"{BEHIND}{ANSWER}"
    assert turns == (2 if kind.completes_calls else 1)
