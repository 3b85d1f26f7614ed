"""One call of the simulated caller, from open ears to the recording, with components that the command made."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from vivavoce.agents.caller.connection import ANSWER_LIMIT, connected, converse
from vivavoce.agents.caller.ears import open_ears
from vivavoce.agents.caller.line import Line, Mind
from vivavoce.agents.caller.process import report
from vivavoce.agents.caller.twilio_end import connected_to_webhook
from vivavoce.pipelines.media.wav import write_wav

if TYPE_CHECKING:
    from vivavoce.agents.caller.transcription import Transcription
    from vivavoce.pipelines.stt.base import STT
    from vivavoce.pipelines.vad.base import VAD


@dataclass(frozen=True, slots=True, kw_only=True)
class Components:
    """The parts of a caller that plugins provide.

    Args:
        stt: None for a caller that hears no words.
        voice: The sound of each line, PCM of `line.SAMPLE_RATE`, mono.
    """

    vad: VAD
    stt: STT | None
    voice: dict[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """The server and room to call, and the limits in seconds of the agent's coming and of the whole call.

    Args:
        token: Of the room; with a wire, the secret that its vendor signs with.
        wire: `twilio` for a server of media streams; empty for a room.
    """

    url: str
    token: str = field(repr=False)
    limit: float
    answer_limit: float = ANSWER_LIMIT
    wire: str = ""


async def hold_call(
    to: Destination, mind: Mind, components: Components, wav: Path, captions: Transcription | None = None
) -> Line:
    """Call, talk until the line hangs up or the limit is over, and write the recording.

    Args:
        captions: The agent's own transcription, for a mind that reads it.
    Returns:
        The line after the call.
    Raises:
        VoiceError: The call could not be placed, or a component failed.
    """
    async with open_ears(components.vad, components.stt) as ears:
        listen = None if captions is None else captions.listen_to
        if to.wire:
            connecting = connected_to_webhook(to.url, to.token, ears, answer_limit=to.answer_limit)
        else:
            connecting = connected(to.url, to.token, ears, answer_limit=to.answer_limit, on_room=listen)
        async with connecting as call:
            line = Line(mind, ears.vad, ears.stt, components.voice, lambda event, text: report(event, text=text))
            await converse(call, line, limit=to.limit, beside=None if captions is None else captions.run)
    await anyio.to_thread.run_sync(write_wav, wav, line.recording())
    return line


def problem_of(line: Line, limit: float) -> str:
    """Return the reason why a call failed; empty if the caller hung up as planned."""
    return f"the call took longer than its limit of {limit:g} s" if line.hung_up is None else line.hung_up.problem
