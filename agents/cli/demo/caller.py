"""The simulated caller, a process of its own: `python -m vivavoce.agents.cli.demo.caller`, a CallRequest on stdin.

It joins a room, speaks synthetic speech in real time, and decides only from the audio that it receives: its own voice
activity detection and its own recogniser. It never reads transcriptions. Its decisions use time counted in received
samples; the wall clock can only fail the call. Events and the result go to stdout, one JSON object a line. It ends when
its stdin does, so it never outlives its parent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vivavoce.agents.caller.answering_mind import AnsweringMind
from vivavoce.agents.caller.call import Components, Destination, hold_call, problem_of
from vivavoce.agents.caller.line import SAMPLE_RATE
from vivavoce.agents.caller.process import serve_caller
from vivavoce.agents.caller.voice import speak_all
from vivavoce.agents.cli.demo.checks import CallResult
from vivavoce.agents.cli.demo.script import script_of
from vivavoce.agents.cli.demo.speech import Speech

CALL_LIMIT = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRequest:
    """The server and room to call, the path of the recording, and how the caller speaks and hears.

    Args:
        voice, ears: As of `Speech`.
        seed: Chooses the caller's phrases, where its ears understand any sentence.
    """

    url: str
    token: str = field(repr=False)
    wav: str
    voice: str
    ears: str
    seed: int = 0


async def _place_call(request: CallRequest) -> CallResult:
    """Run the whole call.

    Raises:
        VoiceError: It could not be placed.
    """
    from vivavoce.plugins import silero

    speech = Speech(voice=request.voice, ears=request.ears)
    sound = speech.sound("caller")
    mind = AnsweringMind(script_of(request.seed, is_free=speech.is_free))
    async with speech.tts("caller") as tts:
        voice = await speak_all(tts, mind.script.lines, pitch=sound.pitch, gain=sound.gain)
    to = Destination(url=request.url, token=request.token, limit=CALL_LIMIT)
    async with speech.stt("caller") as stt, silero.VAD() as vad:
        line = await hold_call(to, mind, Components(vad=vad, stt=stt, voice=voice), Path(request.wav))
    return CallResult(sample_rate=SAMPLE_RATE, turns=tuple(mind.turns), problem=problem_of(line, CALL_LIMIT))


async def _serve(data: dict[str, Any]) -> dict[str, Any]:
    return (await _place_call(CallRequest(**data))).to_json()


if __name__ == "__main__":
    serve_caller(_serve)
