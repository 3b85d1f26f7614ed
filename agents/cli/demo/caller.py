"""The simulated caller, a process of its own: `python -m vivavoce.agents.cli.demo.caller`, a CallRequest on stdin.

It joins a room, speaks synthetic speech in real time, and decides only from the audio that it receives: its own voice
activity detection, and recognition by a grammar of the host's sentences. It never reads transcriptions. Its decisions
use time counted in received samples; the wall clock can only fail the call. Events and the result go to stdout, one
JSON object a line. It ends when its stdin does, so it never outlives its parent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from vivavoce.agents.caller.connection import connected, converse
from vivavoce.agents.caller.ears import open_ears
from vivavoce.agents.caller.line import SAMPLE_RATE, Line
from vivavoce.agents.caller.process import serve_caller, tell
from vivavoce.agents.caller.voice import speak_all
from vivavoce.agents.cli.demo.checks import CallerTurn, CallResult
from vivavoce.agents.cli.demo.mind import CallerMind
from vivavoce.pipelines.media.wav import write_wav

HOST_GRAMMAR = Path(__file__).with_name("host_says.gram")
VOICE = "en-us+f2"
WORDS_PER_MINUTE = 150

CALL_LIMIT = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRequest:
    """The server and room to call, and the path of the recording."""

    url: str
    token: str = field(repr=False)
    wav: str


async def _place_call(request: CallRequest) -> CallResult:
    """Run the whole call.

    Raises:
        VoiceError: It could not be placed.
    """
    from vivavoce.plugins import espeak, pocketsphinx, silero

    mind = CallerMind()
    async with espeak.TTS(voice=VOICE, rate=WORDS_PER_MINUTE) as tts:
        voice = await speak_all(tts, mind.script.lines)
    async with (
        pocketsphinx.STT(grammar=HOST_GRAMMAR) as stt,
        silero.VAD() as vad,
        open_ears(vad, stt) as ears,
        connected(request.url, request.token, ears) as call,
    ):
        line = Line(mind, ears.vad, ears.stt, voice, lambda event, text: tell(event, text=text))
        await converse(call, line, limit=CALL_LIMIT)
    await anyio.to_thread.run_sync(write_wav, Path(request.wav), line.recording())
    return _result(line, mind)


def _result(line: Line, mind: CallerMind) -> CallResult:
    too_long = f"the call took longer than its limit of {CALL_LIMIT:g} s"
    problem = too_long if line.hung_up is None else line.hung_up.problem
    turns = (
        CallerTurn(line=turn.line, start=turn.start, end=turn.end, is_barge_in=turn.is_barge_in, answer=turn.answer)
        for turn in mind.turns
    )
    return CallResult(sample_rate=SAMPLE_RATE, turns=tuple(turns), problem=problem)


async def _serve(data: dict[str, Any]) -> dict[str, Any]:
    return (await _place_call(CallRequest(**data))).to_json()


if __name__ == "__main__":
    serve_caller(_serve)
