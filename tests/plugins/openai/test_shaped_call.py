"""A whole call in virtual time on a server with OpenAI's API alone: its ears by uploads, its model, its voice."""

from __future__ import annotations

from kit.chat import user
from kit.limits import LIMIT
from vivavoce.agents import Agent, function_tool
from vivavoce.agents.events import TurnCompleted, UserTranscript
from vivavoce.agents.testing import ScriptedLLM, SessionHarness, run_virtual
from vivavoce.pipelines.cascading import CascadingPipeline
from vivavoce.pipelines.llm.base import GenerateRequest
from vivavoce.pipelines.llm.chat_context import ChatContext
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.testing import ScriptedVAD
from vivavoce.pipelines.testing.realtime_server.script import tone
from vivavoce.plugins import openai
from vivavoce.plugins.openai.twin import (
    Answer,
    OpenAITwin,
    Spoken,
    chat_answer,
    chat_call,
    chat_end,
)

LONG = "We have one by the window at seven, one by the door at eight, and the large one in the garden at nine."


class Host(Agent):
    def __init__(self) -> None:
        super().__init__("You take table bookings.")

    @function_tool
    async def book(self, day: str) -> str:
        """Book a table."""
        return f"booked: {day}"


async def connect(stt: openai.STT, llm: openai.LLM, tts: openai.TTS) -> None:
    """Open the connections: the harness would count the servers' tasks as a leak."""
    stream = await stt.open()
    stream.speech_started(0.0)
    stream.push(AudioFrame(tone(0.1), 16000))
    stream.flush()
    await anext(aiter(stream.events()))
    await stream.aclose()
    request = GenerateRequest(context=ChatContext([user("Hi")]))
    _ = [event async for event in llm.generate(request)]
    _ = [chunk async for chunk in tts.synthesize("Hi")]


def test_a_call_on_groq_alone_with_a_tool_and_an_interruption() -> None:
    async def main() -> None:
        async with OpenAITwin("groq") as ears, OpenAITwin("groq") as mind, OpenAITwin("groq") as voice:
            key = "secret"
            stt = openai.STT(server="groq", base_url=ears.url, api_key=key)
            llm = openai.LLM(server="groq", model="m", base_url=mind.url, api_key=key)
            tts = openai.TTS(server="groq", base_url=voice.url, api_key=key)
            ears.hears("Hi", "A table on Friday, please.", "No, wait a moment.")
            call = [chat_call(0, "c1", "book", '{"day": "Friday"}'), *chat_end("tool_calls")]
            mind.add(chat_answer("Hi"), Answer(steps=call), chat_answer(LONG), chat_answer("Sure."))
            voice.add(Spoken(pcm=tone(0.1), rate=48000))
            voice.default = Spoken(pcm=tone(12.0), rate=48000)
            await connect(stt, llm, tts)
            pipeline = CascadingPipeline(stt=stt, llm=llm, tts=tts, vad=ScriptedVAD())
            harness = SessionHarness(Host(), ScriptedLLM(), pipeline=pipeline)
            async with stt, llm, tts, harness:
                harness.caller.makes_noise(0.5, 2.0)
                await harness.until(6.0)
                harness.caller.makes_noise(6.2, 7.5)
                while len(harness.session.turns) < 2:
                    await harness.next(TurnCompleted, limit=LIMIT)

        assert [twin.refused for twin in (ears, mind, voice)] == [[], [], []]
        (_, asked), (_, heard), *rest = harness.messages
        assert asked == "A table on Friday, please."
        assert LONG.startswith(heard)
        assert 0 < len(heard) < len(LONG)
        assert rest == [("user", "No, wait a moment."), ("assistant", "Sure.")]
        finals = [event for event in harness.recording.of(UserTranscript) if event.is_final]
        assert [event.text for event in finals] == ["A table on Friday, please.", "No, wait a moment."]
        assert {event.language for event in finals} == {"en"}
        tool = [message for message in mind.bodies[2]["messages"] if message["role"] == "tool"]
        assert tool[0]["content"] == "booked: Friday"
        assert [round(request.seconds, 1) for request in ears.requests[1:]] == [
            1.9,
            1.7,
        ]  # with the pre-roll, and the pause in which the VAD waits

    run_virtual(main())
