"""The scripted caller, a process of its own: `python -m vivavoce.agents.cli.call.caller`, a request on stdin."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vivavoce.agents.caller.call import Components, Destination, hold_call, problem_of
from vivavoce.agents.caller.line import SAMPLE_RATE
from vivavoce.agents.caller.process import serve_caller
from vivavoce.agents.caller.script import CallScript
from vivavoce.agents.caller.script_mind import ScriptMind
from vivavoce.agents.caller.transcription import Transcription
from vivavoce.agents.caller.voice import read_recording, speak_all
from vivavoce.agents.cli.offline import caller_voice, make
from vivavoce.agents.telephony.tones import key_tones
from vivavoce.pipelines.core.errors import ConfigurationError

if TYPE_CHECKING:
    from vivavoce.pipelines.stt.base import STT
    from vivavoce.pipelines.tts.base import TTS


async def _place_call(request: dict[str, Any]) -> dict[str, Any]:
    """Run the whole call: `request` holds url, token, wire, script, wav and answer_limit."""
    from vivavoce.plugins import silero

    script = CallScript.model_validate(request["script"])
    voice = await _voice(script)
    limits = {"limit": script.limit, "answer_limit": request["answer_limit"]}
    to = Destination(url=request["url"], token=request["token"], wire=request["wire"], **limits)
    async with silero.VAD() as vad, _recogniser(script) as stt:
        mind = ScriptMind(script, has_ears=stt is not None)
        captions = Transcription(mind) if script.ears.words == "transcription" else None
        components = Components(vad=vad, stt=stt, voice=voice)
        line = await hold_call(to, mind, components, Path(request["wav"]), captions)
    lines = [{"start": said.start, "end": said.end, "heard": said.answer.text} for said in mind.said_lines]
    return {
        "sample_rate": SAMPLE_RATE,
        "greeting": mind.greeting.text,
        "lines": lines,
        "samples": line.position,
        "left_at": line.left_at,
        "problem": problem_of(line, script.limit),
        "ended_by": line.ended_by,
    }


@asynccontextmanager
async def _recogniser(script: CallScript) -> AsyncIterator[STT | None]:
    if script.ears.words == "general":
        async with make("stt") as stt:
            yield stt
    elif script.ears.grammar is not None:
        from vivavoce.plugins import pocketsphinx

        async with pocketsphinx.STT(grammar=Path(script.ears.grammar)) as stt:
            yield stt
    else:
        yield None


async def _voice(script: CallScript) -> dict[str, bytes]:
    """Return the sound of each line.

    Raises:
        ConfigurationError: The voice's plugin or its options are wrong, or a recording cannot be read.
    """
    voice = {step.line: await read_recording(Path(step.play)) for step in script.steps if step.play is not None}
    voice |= {step.line: key_tones(step.press).data for step in script.steps if step.press is not None}
    texts = [step.say for step in script.steps if step.say is not None]
    if texts:
        async with load_tts(*caller_voice(script.voice)) as tts:
            voice |= await speak_all(tts, texts)
    return voice


def load_tts(name: str, options: Mapping[str, Any]) -> TTS:
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
