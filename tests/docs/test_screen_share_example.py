"""examples/screen_share.py in virtual time: the agent sees the screen with a question, and when it offers help."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import anyio

from vivavoce.agents import AgentSession, SessionOptions, WakeUp
from vivavoce.agents.testing import ScriptedLLM, VirtualClock, run_virtual
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.pipelines import CascadingPipeline
from vivavoce.pipelines.llm.base import LLMCapabilities
from vivavoce.pipelines.media.frame import VideoFrame
from vivavoce.pipelines.testing import ScriptedSTT, ScriptedTTS

EXAMPLE: dict[str, Any] = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "screen_share.py"))


def test_the_helper_sees_the_screen_in_a_question_and_when_the_caller_is_silent() -> None:
    llm = ScriptedLLM("A table.", "You have a chart.", capabilities=LLMCapabilities(supports_images=True))

    async def main() -> None:
        clock = VirtualClock()
        room = LocalTransport(clock)
        pipeline = CascadingPipeline(stt=ScriptedSTT(), llm=llm, tts=ScriptedTTS())
        wake_up = WakeUp(after=20.0, repeat=1)
        options = SessionOptions(clock=clock)
        helper = EXAMPLE["Helper"]()
        async with AgentSession[Any](helper, pipeline, wake_up=wake_up, options=options) as session:
            session.on_wake_up = helper.offer_help  # as the entrypoint does
            await session.start(room, room_options=EXAMPLE["SCREEN"])
            room.push_video(VideoFrame(b"table", "image/jpeg"))
            session.input.text("What is this?")
            await anyio.sleep(10.0)
            room.push_video(VideoFrame(b"chart", "image/jpeg"))
            await anyio.sleep(30.0)
            said = [message.content for message in session.history.messages("assistant")]
            assert said == ["Hello! Share your screen, and ask me about it.", "A table.", "You have a chart."]

    run_virtual(main())
    asked, offered = ([m.images for m in request.context.messages("user")] for request in llm.requests)
    assert [[image.data for image in images] for images in asked] == [[b"table"]]
    assert [image.data for image in offered[-1]] == [b"table", b"chart"]
