"""RoomOptions: how a session takes part in a room. Imports no room client, so that any module can use it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields
from typing import Literal, get_args

from vivavoce.pipelines.core.checks import (
    check_choice,
    check_flag,
    check_instance,
    check_number,
    check_text,
    check_whole,
    shown,
)
from vivavoce.pipelines.core.errors import ConfigurationError

PARTICIPANT_KINDS = frozenset({"standard", "ingress", "egress", "sip", "agent", "connector", "bridge"})
"""LiveKit's kinds of participants (`livekit.rtc.ParticipantKind`), in lower case."""

VideoSource = Literal["any", "screen", "camera"]
Hangup = Literal["participant", "room"]
OUTPUT_RATES_HZ = frozenset({8000, 16000, 24000, 32000, 48000})
INPUT_RATES_HZ = frozenset({8000, 16000, 24000, 48000})


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoInputOptions:
    """Pictures of the caller's video for the model: few, small and new ones.

    Each option: docs/options.md.
    """

    source: VideoSource = "any"
    """The video that is shown; `any`: a shared screen, else a camera."""
    fps: float = 1.0
    """Maximum number of pictures a second; those between are dropped."""
    min_change: float = 0.01
    """Share of a picture that must have changed since the last one that was kept, 0 to 1; 0 keeps each. A line of text
    on a screen is about 0.01.
    """
    max_size: int = 1024
    """Pixels of a picture's longer side; a larger one is made smaller."""
    max_turn_images: int = 3
    """Maximum number of pictures with one turn of the user (cascades only): the newest of those since the last turn."""
    max_images: int = 6
    """Maximum number of pictures in a request (cascades only): the newest of the conversation. The tokens of a
    `ContextWindow` go to words first, then to pictures; the newest one is sent in any case.
    """

    def __post_init__(self) -> None:
        check_choice("source", self.source, get_args(VideoSource))
        check_number("fps", self.fps, above=0, unit="pictures a second")
        check_number("min_change", self.min_change, at_least=0)
        if self.min_change > 1:
            raise ConfigurationError(f"need min_change <= 1, got {self.min_change!r}; it is a share of the picture")
        for name in ("max_size", "max_turn_images", "max_images"):
            check_whole(name, getattr(self, name), at_least=1)
        if self.max_images < self.max_turn_images:
            raise ConfigurationError(
                f"need max_images >= max_turn_images, got {self.max_images!r} and {self.max_turn_images!r}; each turn "
                "goes into a request whole"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class FileInputOptions:
    """Limits of the files that a caller may send.

    Each option: docs/options.md.
    """

    max_bytes: int = 10 * 1024 * 1024
    """Bytes of one file; it is held in memory until the event `file_received` was handled."""
    max_files: int = 20
    """Maximum number of files in a session."""
    media_types: frozenset[str] | None = None
    """Types that are taken, such as `{"application/pdf", "image/*"}`, as the caller's client names them; None: all."""

    def __post_init__(self) -> None:
        for name in ("max_bytes", "max_files"):
            check_whole(name, getattr(self, name), at_least=1)
        types = self.media_types
        if types is None:
            return
        if isinstance(types, str) or not isinstance(types, Collection) or not types:
            raise ConfigurationError(f"need media_types as a set of types or None, got {shown(types)}")
        for one in types:
            if not isinstance(one, str) or one.count("/") != 1 or one != one.lower():
                raise ConfigurationError(f"media_types need types such as 'image/*', in lower case, got {shown(one)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AvatarOptions:
    """An avatar: another participant, which gets the agent's audio and publishes it with its video; times in seconds.

    Each option: docs/options.md.
    """

    identity: str
    """Identity of the avatar's participant; `avatar_token()` makes its token."""
    join_limit: float = 10.0
    """How long the start waits for the avatar; below `SessionOptions.start_step`."""
    waits_for_video: bool = True
    """Whether the avatar counts as present only once it has published video; most are able to play only then."""
    is_required: bool = False
    """Whether the session fails without the avatar: at the start, and when the avatar leaves the call. Off: the agent's
    own track plays the speech, with an `error` event; if the avatar returns, it plays the next speech.
    """

    def __post_init__(self) -> None:
        check_text("identity", self.identity)
        if not self.identity.strip():
            raise ConfigurationError("an avatar needs the identity of its participant, got an empty one")
        check_number("join_limit", self.join_limit, above=0, unit="s")
        for name in ("waits_for_video", "is_required"):
            check_flag(name, getattr(self, name))


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomOptions:
    """How a session takes part in a room; limits and times in seconds.

    Each option: docs/options.md.
    """

    audio_input: bool = True
    """Listen to the linked participant's microphone."""
    pre_connect_audio: bool = True
    """Hear what the linked participant's client has recorded before the agent came (byte streams on topic
    `lk.agent.pre-connect-audio-buffer`), in front of its live audio.
    """
    video_input: VideoInputOptions | bool = False
    """Show the linked participant's video to the model; True: with the default options. A cascade shows pictures in the
    user's turns, and a realtime model that takes video gets them as they come. Other pipelines refuse it. In a LiveKit
    room it needs Pillow: `pip install 'vivavoce[video]'`.
    """
    text_input: bool = True
    """Take the linked participant's typed texts (text streams on topic `lk.chat`) as user turns, and its answers to the
    parts of rich replies (text streams on topic `vivavoce.parts`).
    """
    file_input: FileInputOptions | bool = True
    """Take files of the linked participant (byte streams on topic `vivavoce.parts`) while the application handles the
    event `file_received`; True: with the default limits. Without `text_input` none are taken.
    """
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
    input_rate: int = 16000
    """Hz of the caller's audio for the session."""
    output_rate: int = 24000
    """Hz of the agent's audio for the room; the room resamples it to Opus' 48 kHz."""
    track_name: str = "agent"
    """Name of the agent's audio track."""
    avatar: AvatarOptions | None = None
    """The avatar that plays the agent's audio, without background audio; None: the agent's own track plays it."""

    def __post_init__(self) -> None:
        for option in fields(self):
            if isinstance(option.default, bool) and option.name not in ("video_input", "file_input"):
                check_flag(option.name, getattr(self, option.name))
        if not isinstance(self.video_input, bool):
            check_instance("video_input", self.video_input, VideoInputOptions)
        if not isinstance(self.file_input, bool):
            check_instance("file_input", self.file_input, FileInputOptions)
        check_number("participant_grace", self.participant_grace, at_least=0, unit="s")
        check_choice("hangup", self.hangup, get_args(Hangup))
        check_text("track_name", self.track_name)
        check_instance("avatar", self.avatar, AvatarOptions, or_none=True)
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

    @property
    def video(self) -> VideoInputOptions | None:
        """Options of `video_input`; None without it."""
        if isinstance(self.video_input, VideoInputOptions):
            return self.video_input
        return VideoInputOptions() if self.video_input else None

    @property
    def files(self) -> FileInputOptions | None:
        """Limits of `file_input`; None without it, and without `text_input`."""
        if not self.text_input or self.file_input is False:
            return None
        return FileInputOptions() if self.file_input is True else self.file_input


DEFAULT_ROOM_OPTIONS = RoomOptions()
"""The options of a session that is given none; one object, since to check them takes a part of a session's start."""
