"""The worker of livekit-agents in `calls.py`, with the same parts; its own environment runs it."""

from __future__ import annotations

import asyncio
from typing import Any

import parts  # type: ignore[import-not-found]  # stands beside this file
from livekit.agents import (
    DEFAULT_API_CONNECT_OPTIONS,
    Agent,
    AgentSession,
    JobContext,
    JobProcess,
    WorkerOptions,
    cli,
    llm,
    stt,
    tts,
    utils,
)
from livekit.plugins import silero


class ScriptedSTT(stt.STT):  # type: ignore[misc]  # its package is not in our environment
    def __init__(self) -> None:
        super().__init__(capabilities=stt.STTCapabilities(streaming=True, interim_results=False))

    async def _recognize_impl(self, *_: Any, **__: Any) -> stt.SpeechEvent:
        raise NotImplementedError

    def stream(self, *, language: Any = None, conn_options: Any = DEFAULT_API_CONNECT_OPTIONS) -> EarStream:
        return EarStream(stt=self, conn_options=conn_options)


class EarStream(stt.RecognizeStream):  # type: ignore[misc]  # its package is not in our environment
    async def _run(self) -> None:
        ear, loop = parts.Ear(), asyncio.get_running_loop()

        def final() -> None:
            if not self._event_ch.closed:
                heard = stt.SpeechData(language="en", text=parts.USER_TEXT, confidence=1.0)
                kind = stt.SpeechEventType.FINAL_TRANSCRIPT
                self._event_ch.send_nowait(stt.SpeechEvent(type=kind, alternatives=[heard]))

        async for frame in self._input_ch:
            if isinstance(frame, self._FlushSentinel):
                continue
            if ear.has_ended(frame.data.cast("B"), frame.sample_rate):
                loop.call_later(parts.STT_DELAY, final)


class ScriptedLLM(llm.LLM):  # type: ignore[misc]  # its package is not in our environment
    def chat(
        self, *, chat_ctx: Any, tools: Any = None, conn_options: Any = DEFAULT_API_CONNECT_OPTIONS, **_: Any
    ) -> TokenStream:
        return TokenStream(self, chat_ctx=chat_ctx, tools=tools or [], conn_options=conn_options)


class TokenStream(llm.LLMStream):  # type: ignore[misc]  # its package is not in our environment
    async def _run(self) -> None:
        async for token in parts.tokens():
            self._event_ch.send_nowait(llm.ChatChunk(id="x", delta=llm.ChoiceDelta(role="assistant", content=token)))


class ScriptedTTS(tts.TTS):  # type: ignore[misc]  # its package is not in our environment
    def __init__(self) -> None:
        can = tts.TTSCapabilities(streaming=True)
        super().__init__(capabilities=can, sample_rate=parts.OUT_RATE, num_channels=1)

    def synthesize(self, text: str, *, conn_options: Any = DEFAULT_API_CONNECT_OPTIONS) -> Any:
        raise NotImplementedError

    def stream(self, *, conn_options: Any = DEFAULT_API_CONNECT_OPTIONS) -> VoiceStream:
        return VoiceStream(tts=self, conn_options=conn_options)


class VoiceStream(tts.SynthesizeStream):  # type: ignore[misc]  # its package is not in our environment
    async def _run(self, output_emitter: Any) -> None:
        voice = parts.Voice()
        output_emitter.initialize(
            request_id=utils.shortuuid(),
            sample_rate=parts.OUT_RATE,
            num_channels=1,
            mime_type="audio/pcm",
            stream=True,
        )
        output_emitter.start_segment(segment_id="s")
        async for text in self._input_ch:
            if isinstance(text, str):
                self._mark_started()
                async for pcm in voice.speak(text):
                    output_emitter.push(pcm)
        output_emitter.end_segment()


def prewarm(process: JobProcess) -> None:
    process.userdata["vad"] = silero.VAD.load()


async def entrypoint(ctx: JobContext) -> None:
    await ctx.connect()
    session = AgentSession(
        stt=ScriptedSTT(),
        llm=ScriptedLLM(),
        tts=ScriptedTTS(),
        vad=ctx.proc.userdata["vad"],
        turn_handling={"turn_detection": "vad", "interruption": {"mode": "vad"}},  # the defaults ask a cloud
    )
    await session.start(Agent(instructions="Be brief."), room=ctx.room, record=False)


if __name__ == "__main__":
    cli.run_app(
        WorkerOptions(
            entrypoint_fnc=entrypoint,
            prewarm_fnc=prewarm,
            load_fnc=lambda: 0.0,
            load_threshold=float("inf"),
            num_idle_processes=2,
            initialize_process_timeout=60.0,
        )
    )
