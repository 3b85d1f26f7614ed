"""Caller: receives the caller's audio, text and presence from the transport, and opens the playout for the caller.

SessionInput is the application's input in the caller's place.
"""

from __future__ import annotations

import logging

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from vivavoce.agents.audio.background_audio import BackgroundAudio
from vivavoce.agents.audio.frame_hooks import FrameHooks
from vivavoce.agents.audio.playout import Playout
from vivavoce.agents.audio.recording.session_recording import RecordingControl
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.events import KeyPressed
from vivavoce.agents.replies.replies import RichReplies
from vivavoce.agents.speech.seeing import Seeing
from vivavoce.agents.states import CloseReason
from vivavoce.agents.transports.given_room import missing_avatar
from vivavoce.agents.transports.options import DEFAULT_ROOM_OPTIONS, RoomOptions
from vivavoce.agents.turn import inputs as i
from vivavoce.pipelines.core.checks import check_flag, check_text, check_whole, shown
from vivavoce.pipelines.core.clock import TimerHandle
from vivavoce.pipelines.core.errors import (
    AvatarError,
    ConfigurationError,
    RoomError,
    SessionNotStartedError,
    VoiceError,
    describe,
)
from vivavoce.pipelines.io import FileOutcome, OfferedFile, Transport, TransportEvents
from vivavoce.pipelines.media.frame import AudioFrame, VideoFrame

logger = logging.getLogger(__name__)

AUDIBLE_LIMIT = 10.0
"""Seconds that the playout waits for the linked participant to receive the agent's track."""
HANGUP_LIMIT = 10.0
"""Seconds for a transport to disconnect the caller, over any limit of its own."""

KEYS = ("0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "*", "#", "A", "B", "C", "D")
"""The keys of a telephone (RFC 4733)."""


class Caller(TransportEvents):
    """Receives the events of the transport. Audio goes straight to the pipeline; everything else is an input.

    The start calls `take()` with the transport, opens the pipeline, and then calls `open()`.
    """

    def __init__(
        self,
        context: SessionContext,
        playout: Playout,
        background: BackgroundAudio,
        recording: RecordingControl,
        frame_hooks: FrameHooks,
    ) -> None:
        self._context = context
        self._playout = playout
        self._background = background
        self._recording = recording
        self._frame_hooks = frame_hooks
        self.replies = RichReplies(context)
        """The answers and the files of the caller's page."""
        self.seeing = Seeing(context.live)
        """The pictures of the caller's video."""
        self._clock = context.clock
        self.expected: Transport | None = None
        """The transport that was there before the start; it is to be closed also where the start has not taken it."""
        self._transport: Transport | None = None
        self._options = DEFAULT_ROOM_OPTIONS
        self._is_muted = False
        self._is_waiting = False
        """Whether another session still has the conversation: this one hears nothing and plays nothing yet."""
        self._close_reason = CloseReason.ROOM_CLOSED
        self._has_hung_up = False
        """Whether the caller has left for good."""
        self._has_input = False
        """Whether the session hears and reads the caller."""
        self._limit: TimerHandle | None = None
        self._is_audible = False

    def expect(self, transport: Transport) -> None:
        """Claim a transport that is there before the start takes it.

        Raises:
            RoomError: Another session uses it, or has used it.
        """
        transport.claim()
        self.expected = transport

    def take(self, transport: Transport, options: RoomOptions, *, is_waiting: bool) -> None:
        """Take the connected transport.

        Args:
            is_waiting: Whether another session still has the conversation.
        """
        self._transport, self._options, self._is_waiting = transport, options, is_waiting

    @property
    def has_transport(self) -> bool:
        return self._transport is not None

    @property
    def transport(self) -> Transport:
        """The connected transport.

        Raises:
            SessionNotStartedError: There is none yet.
        """
        if self._transport is None:
            raise SessionNotStartedError("the session is not in its room yet; call this from on_enter on")
        return self._transport

    def mute(self, is_muted: bool) -> None:
        """Give the pipeline silence instead of the caller's audio, or the audio again."""
        self._is_muted = is_muted

    async def hang_up(self, reason: CloseReason) -> None:
        """Disconnect the caller; the session closes with `reason`, if it closes when its caller leaves.

        Raises:
            RoomError: The transport could not do it.
        """
        self._close_reason = reason  # the room may close before the server has answered
        try:
            with anyio.fail_after(HANGUP_LIMIT):
                await self.transport.hangup()
        except VoiceError:
            raise
        except Exception as error:  # noqa: BLE001 - foreign transports may raise anything, a TimeoutError too
            raise RoomError(f"the transport could not disconnect the caller: {describe(error)}") from error
        finally:
            self._close_reason = CloseReason.ROOM_CLOSED
        if self._options.close_on_disconnect:
            self._end("the caller was disconnected", reason)

    def open(self) -> None:
        """Give the caller's audio to the pipeline, which is open.

        Raises:
            CapabilityError: The options ask for video, and the pipeline takes none.
        """
        self.seeing.open(self._options.video)
        self._context.live.transport = self.transport
        self.replies.open(self._options.files)
        self._has_input = True
        if (missing := missing_avatar(self.transport, self._options)) is not None:
            self.failed(missing, is_fatal=False)

    async def run(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Serve the transport until cancelled."""
        try:
            await self.transport.run(self, task_status=task_status)
        finally:
            if self._limit is not None:
                self._limit.cancel()

    def end_wait(self) -> None:
        """Hear the caller, and play, now that the session has the conversation."""
        self._is_waiting = False
        if self._is_audible:
            self._playout.begin()

    def stop_input(self) -> None:
        """Hear and read nothing from now on."""
        self._has_input = False

    # --- TransportEvents

    def audio(self, frame: AudioFrame, late: float = 0.0) -> None:
        live = self._context.live
        if live.hear is None or not self._has_input:
            return
        if self._is_muted or self._is_waiting or self._context.hold.is_deaf:  # silence: speech that it cuts has to end
            frame = AudioFrame(bytes(len(frame.data)), frame.sample_rate, frame.num_channels)
        live.late = late
        live.hear(frame)
        live.late = 0.0
        self._recording.heard(frame)
        self._frame_hooks.heard(frame)

    def audio_stopped(self) -> None:
        if self._has_input:
            self._context.inbox.post(i.UserAudioStopped())

    def wants_video(self) -> bool:
        """Return whether a picture is due and the pipeline may see it."""
        if not self._has_input or self._is_muted or self._is_waiting or self._context.hold.is_deaf:
            return False
        return self.seeing.wants(self._clock.now())

    def video(self, frame: VideoFrame, thumbnail: bytes = b"") -> None:
        if self._has_input and not self._is_muted and self.seeing.take(frame, thumbnail):
            self._context.live.connection.conversation.show(frame)

    def video_stopped(self) -> None:
        self.seeing.stopped()

    def text(self, text: str) -> None:
        if not self._has_input or self._is_waiting or self._context.hold.is_deaf:
            return
        try:
            text = check_text("TransportEvents.text(text)", text, remedy="mend the transport; the text is left out")
        except ConfigurationError as error:
            self._context.report_error(error, "room")
            return
        self._context.inbox.post(i.TextReceived(text))

    def key(self, key: str) -> None:
        if not self._has_input or self._is_waiting:
            return
        if key not in KEYS:
            problem = f"TransportEvents.key(key) needs one of {KEYS!r}, got {shown(key)}; it is left out"
            self._context.report_error(ConfigurationError(problem), "room")
            return
        self._context.inbox.post(i.KeyPressed())
        self._context.log.note(KeyPressed, key=key)
        self._context.inbox.wake()

    def part_answered(self, json_text: str) -> None:
        if self._has_input and not self._is_waiting:
            self.replies.answered(json_text)
            self._context.inbox.wake()

    def file_offered(self, file: OfferedFile) -> int:
        if not self._has_input:
            return 0
        allowed = 0
        if self._is_waiting:
            self.replies.refuse(file, "not_wanted")
        else:
            allowed = self.replies.file_offered(file)
        self._context.inbox.wake()
        return allowed

    def file_ended(self, file: OfferedFile, outcome: FileOutcome, data: bytes = b"") -> None:
        if self._has_input:
            self.replies.file_ended(file, outcome, data)
            self._context.inbox.wake()

    def interrupt(self) -> None:
        """Ask the agent to stop, for the caller; protected speech goes on."""
        if self._has_input and not self._context.hold.is_deaf:
            self._context.inbox.post(i.InterruptRequested(force=False))

    def participant_linked(self, identity: str) -> None:
        self._has_hung_up = False
        self._context.inbox.post(i.ParticipantLinked())
        self._background.hold(False)
        if self._is_audible:
            self.replies.caller_reached()
        elif self._limit is None:
            if not self._context.live.capabilities.speaks:  # there is no audio to subscribe to
                self._begin_playout()
                return
            limit = self._clock.now() + AUDIBLE_LIMIT
            self._limit = self._clock.call_at(limit, self._on_audible_limit)
            self.transport.on_audible(self._begin_playout)

    def participant_left(self, identity: str, *, comes_back: bool = True) -> None:
        self.replies.caller_left()
        self._has_hung_up = not comes_back
        options = self._options
        if options.close_on_disconnect:  # otherwise the room continues without it
            self._background.hold(True)
        grace = options.participant_grace if comes_back else 0.0
        self._context.inbox.post(i.ParticipantLeft(grace if options.close_on_disconnect else None))

    def closed(self, reason: str) -> None:
        left = self._has_hung_up and self._close_reason is CloseReason.ROOM_CLOSED  # a line ends with its caller
        self._end(reason, CloseReason.PARTICIPANT_LEFT if left else self._close_reason)

    def failed(self, error: VoiceError, *, is_fatal: bool) -> None:
        source = "avatar" if isinstance(error, AvatarError) else "room"
        self._context.report_error(error, source, is_recovered=not is_fatal)
        if is_fatal:
            self._context.closing.request(CloseReason.ERROR, error)

    def _end(self, why: str, reason: CloseReason) -> None:
        logger.info("The room is gone: %s", why)
        self._context.closing.request(reason)

    # --- audio out

    def _begin_playout(self) -> None:
        if not self._is_audible:
            self._is_audible = True
            self.replies.caller_reached()
            if self._limit is not None:
                self._limit.cancel()
            if not self._is_waiting:
                self._playout.begin()

    def _on_audible_limit(self) -> None:
        if not self._is_audible:
            logger.warning("The caller has not subscribed to the agent's track within %s s; playing", AUDIBLE_LIMIT)
            self._begin_playout()


class SessionInput:
    """`session.input`: input that the application gives to a session in place of the caller."""

    def __init__(self, context: SessionContext, caller: Caller) -> None:
        self._context = context
        self._caller = caller

    def text(self, text: str) -> None:
        """Take `text` as a whole user turn: it interrupts and is answered like a spoken one.

        Raises:
            SessionNotStartedError, SessionClosedError: The session accepts no input now.
            ConfigurationError: `text` is no str.
        """
        self._context.post(i.TextReceived(check_text("input.text(text)", text)))

    def commit_turn(self) -> None:
        """End the user's turn now, with the words there are."""
        self._context.post(i.TurnCommitRequested())

    def clear_turn(self) -> None:
        """Drop the user's open turn."""
        self._context.post(i.TurnClearRequested())

    def mute(self, is_muted: bool = True) -> None:
        """Hear silence instead of the caller, or hear the caller again; words before the silence count."""
        check_flag("is_muted", is_muted)
        self._context.check_open()
        self._context.inbox.on_loop(lambda: self._caller.mute(is_muted))

    def frames(self, count: int = 1) -> tuple[VideoFrame, ...]:
        """Return the newest pictures of the caller's video, oldest first, for `reply(frames=…)`.

        There are fewer, or none, if the caller has not shown so many; at most `VideoInputOptions.max_images`.

        Args:
            count: At least 1.
        Raises:
            ConfigurationError: `count` is no such number.
            SessionNotStartedError, SessionClosedError: There is no call.
        """
        check_whole("input.frames(count)", count, at_least=1)
        self._context.check_open()
        return self._context.inbox.result_of(lambda: self._caller.seeing.newest(count))
