"""The scripted caller, a process of its own: `python -m vivavoce.agents.cli.call.caller`, a request on stdin."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from vivavoce.agents.caller.connection import connected, converse
from vivavoce.agents.caller.ears import open_ears
from vivavoce.agents.caller.line import SAMPLE_RATE, Line
from vivavoce.agents.caller.process import serve_caller, tell
from vivavoce.agents.caller.voice import read_recording, speak_all
from vivavoce.agents.cli.call.mind import ScriptMind
from vivavoce.agents.cli.call.script import CallScript
from vivavoce.agents.cli.call.transcription import Transcription
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.media.wav import write_wav

if TYPE_CHECKING:
    from vivavoce.pipelines.stt.base import STT
    from vivavoce.pipelines.tts.base import TTS


async def _place_call(request: dict[str, Any]) -> dict[str, Any]:
    """Run the whole call: `request` holds url, token, script, wav and answer_limit."""
    from vivavoce.plugins import silero

    script = CallScript.model_validate(request["script"])
    voice = await _voice(script)
    mind = ScriptMind(script, has_ears=script.ears.words in ("grammar", "general"))
    captions = Transcription(mind) if script.ears.words == "transcription" else None
    async with silero.VAD() as vad, _recogniser(script) as stt, open_ears(vad, stt) as ears:
        room = connected(
            request["url"],
            request["token"],
            ears,
            answer_limit=request["answer_limit"],
            on_room=captions.listen_to if captions is not None else None,
        )
        async with room as call:
            line = Line(mind, ears.vad, ears.stt, voice, lambda event, text: tell(event, text=text))
            beside = captions.run if captions is not None else None
            await converse(call, line, limit=script.limit, beside=beside)
    await anyio.to_thread.run_sync(write_wav, Path(request["wav"]), line.recording())
    if line.hung_up is None:
        problem = f"the call took longer than its limit of {script.limit:g} s"
    else:
        problem = line.hung_up.problem
    lines = [{"start": said.start, "end": said.end, "heard": said.answer.text} for said in mind.said_lines]
    return {
        "sample_rate": SAMPLE_RATE,
        "greeting": mind.greeting.text,
        "lines": lines,
        "samples": line.position,
        "left_at": line.left_at,
        "problem": problem,
        "ended_by": line.ended_by,
    }


@asynccontextmanager
async def _recogniser(script: CallScript) -> AsyncIterator[STT | None]:
    if script.ears.words not in ("grammar", "general"):
        yield None
        return
    from vivavoce.plugins import pocketsphinx

    grammar = None if script.ears.grammar is None else Path(script.ears.grammar)
    async with pocketsphinx.STT(grammar=grammar) as stt:
        yield stt


async def _voice(script: CallScript) -> dict[str, bytes]:
    """Return the sound of each line.

    Raises:
        ConfigurationError: The voice's plugin or its options are wrong, or a recording cannot be read.
    """
    voice = {step.line: await read_recording(Path(step.play)) for step in script.steps if step.play is not None}
    texts = [step.say for step in script.steps if step.say is not None]
    if texts:
        async with load_tts(script.voice.tts, script.voice.options) as tts:
            voice |= await speak_all(tts, texts)
    return voice


def load_tts(name: str, options: dict[str, Any]) -> TTS:
    """Return the TTS of a plugin.

    Raises:
        ConfigurationError: There is no such plugin, it has no TTS, or the TTS does not accept these options.
    """
    try:
        plugin = importlib.import_module(f"vivavoce.plugins.{name}")
        make = plugin.TTS
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(f"the script's voice.tts {name!r} is no plugin with a TTS: {error}") from error
    try:
        voice: TTS = make(**options)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"the script's voice.options do not fit {name}.TTS: {error}") from error
    return voice


if __name__ == "__main__":
    serve_caller(_place_call)
