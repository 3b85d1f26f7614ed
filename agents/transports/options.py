"""RoomOptions: how a session takes part in a room. Imports no room client, so that any module can use it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields
from typing import Literal, get_args

from vivavoce.pipelines.core.checks import check_choice, check_flag, check_number, check_text, check_whole, shown
from vivavoce.pipelines.core.errors import ConfigurationError

PARTICIPANT_KINDS = frozenset({"standard", "ingress", "egress", "sip", "agent", "connector", "bridge"})
"""LiveKit's kinds of participants (`livekit.rtc.ParticipantKind`), in lower case."""

Hangup = Literal["participant", "room"]
OUTPUT_RATES_HZ = frozenset({8000, 16000, 24000, 32000, 48000})
INPUT_RATES_HZ = frozenset({8000, 16000, 24000, 48000})


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomOptions:
    """How a session takes part in a room; limits and times in seconds.

    What each option does: docs/options.md.
    """

    audio_input: bool = True
    """Listen to the linked participant's microphone."""
    video_input: bool = False
    """Show the linked participant's shared screen, else its camera, to a realtime model that takes video. Other
    pipelines refuse it. In a LiveKit room it needs Pillow: `pip install 'vivavoce[video]'`.
    """
    video_fps: float = 1.0
    """Maximum number of pictures a second for the model; those between are dropped."""
    video_max_size: int = 1024
    """Pixels of a picture's longer side; a larger one is made smaller."""
    text_input: bool = True
    """Take the linked participant's typed texts (text streams on topic `lk.chat`) as user turns."""
    transcription: bool = True
    """Send transcriptions of both sides to the room (text streams on topic `lk.transcription`)."""
    publish_turns: bool = False
    """Send each turn record, as JSON, to the linked participant (text streams on topic `vivavoce.turns`)."""
    remote_interrupt: bool = True
    """Let the linked participant stop the agent by a remote call (RPC method `vivavoce.interrupt`), as the browser
    page's button does. Protected speech continues.
    """
    close_on_disconnect: bool = True
    """Close the session when the linked participant has been gone for `participant_grace`. Off: wait for it or, if the
    session started without an identity, for any other participant.
    """
    participant_grace: float = 10.0
    """How long a participant that has left may take to come back."""
    hangup: Hangup = "participant"
    """Whom `session.hangup()` disconnects: the linked participant, or everybody, by deleting the room."""
    participant_kinds: frozenset[str] = frozenset({"standard", "sip", "connector"})
    """Kinds of participants to link when no identity was given. Other agents are left out, or two of them would talk to
    each other.
    """
    audible_limit: float = 10.0
    """How long playout waits for the linked participant to receive the agent's track."""
    publish_limit: float = 10.0
    """How long publishing the agent's track may take."""
    input_rate: int = 16000
    """Hz of the caller's audio for the session."""
    output_rate: int = 24000
    """Hz of the agent's audio for the room; the room resamples it to Opus' 48 kHz."""
    track_name: str = "agent"
    """Name of the agent's audio track."""

    def __post_init__(self) -> None:
        for option in fields(self):
            if isinstance(option.default, bool):
                check_flag(option.name, getattr(self, option.name))
        for name in ("participant_grace", "audible_limit"):
            check_number(name, getattr(self, name), at_least=0, unit="s")
        check_choice("hangup", self.hangup, get_args(Hangup))
        check_number("video_fps", self.video_fps, above=0, unit="pictures a second")
        check_number("video_max_size", self.video_max_size, above=0, unit="pixels")
        check_number("publish_limit", self.publish_limit, above=0, unit="s")
        check_text("track_name", self.track_name)
        if isinstance(self.participant_kinds, str) or not isinstance(self.participant_kinds, Collection):
            raise ConfigurationError(
                f"need participant_kinds as a set of names, got {shown(self.participant_kinds)}; such as {{'sip'}}"
            )
        if unknown := set(self.participant_kinds) - PARTICIPANT_KINDS:
            raise ConfigurationError(
                f"participant_kinds must be of {sorted(PARTICIPANT_KINDS)}, got {sorted(unknown)!r} too"
            )
        if not self.participant_kinds:
            raise ConfigurationError("participant_kinds is empty, so no participant could ever be linked; name one")
        for name in ("input_rate", "output_rate"):
            check_whole(name, getattr(self, name), at_least=1)
        if self.input_rate not in INPUT_RATES_HZ:
            raise ConfigurationError(f"input_rate must be one of {sorted(INPUT_RATES_HZ)} Hz, got {self.input_rate!r}")
        if self.output_rate not in OUTPUT_RATES_HZ:
            raise ConfigurationError(
                f"output_rate must be one of {sorted(OUTPUT_RATES_HZ)} Hz, got {self.output_rate!r}"
            )
