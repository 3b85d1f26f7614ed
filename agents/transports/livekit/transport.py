"""LiveKitTransport: a session's link to its caller through a connected `rtc.Room`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus
from livekit import rtc

from vivavoce.agents.server_access import Credentials
from vivavoce.agents.transports.livekit import phone
from vivavoce.agents.transports.livekit.avatar import Avatar
from vivavoce.agents.transports.livekit.callbacks import callbacks
from vivavoce.agents.transports.livekit.hangup import checked, disconnect
from vivavoce.agents.transports.livekit.inbound import MicrophoneReader, TextReader
from vivavoce.agents.transports.livekit.link import (
    MICROPHONE_EVENTS,
    ParticipantLink,
    find_microphone,
    is_reachable,
    reason_name,
)
from vivavoce.agents.transports.livekit.outbound import StateSender, TextSender
from vivavoce.agents.transports.livekit.parts import RoomParts
from vivavoce.agents.transports.livekit.pre_connect import PreConnectAudio
from vivavoce.agents.transports.livekit.publishing import publish, unpublish
from vivavoce.agents.transports.livekit.remote import interrupt_method, texts_arrived
from vivavoce.agents.transports.livekit.sink import LiveKitSink
from vivavoce.agents.transports.livekit.video import VideoReader, check_encoder, find_video
from vivavoce.agents.transports.options import RoomOptions, VideoInputOptions
from vivavoce.pipelines.core.clock import Clock, TimerHandle
from vivavoce.pipelines.core.errors import RoomError
from vivavoce.pipelines.io import AudioSink, CallerInfo, PartMessage, TranscriptSegment, Transport, TransportEvents

logger = logging.getLogger(__name__)

CHAT_TOPIC = "lk.chat"
FLUSH_LIMIT = 1.0
"""Seconds at the end to send waiting texts."""
ARRIVAL_LIMIT = 1.0
"""Seconds at the end until the clients in the room have the texts. A client that answers takes a round trip."""
END_LIMIT = 5.0
"""Seconds that `leave` and `aclose` wait for `run` to end."""
LEAVE_LIMIT = 3.0
TAIL = 0.3
"""Seconds for the encoder, the network and the caller's jitter buffer; on one machine it is 0.07."""
AVATAR_TAIL = 0.3
"""Seconds for the avatar to make its video, by which it delays the audio, beside the second way through the room."""

WAKING_EVENTS: tuple[rtc.room.EventTypes, ...] = (
    *MICROPHONE_EVENTS,
    "participant_active",
    "participant_attributes_changed",
)
"""Events after which the transport looks at the room again."""


class LiveKitTransport(Transport):
    """Links a session to one participant of a room.

    The SDK's callbacks only wake a task, which then looks at the present state of the room: participants and tracks.

    Args:
        room: A connected room. It stays with its owner: only `leave()` disconnects it.
        participant: Identity of the participant to talk to; None for the first of an accepted kind.
        options: How to take part.
        clock: Session time.
        credentials: For the server's API, which disconnects callers; None: it cannot.
    """

    def __init__(
        self,
        room: rtc.Room,
        *,
        participant: str | None = None,
        options: RoomOptions,
        clock: Clock,
        credentials: Credentials | None = None,
    ) -> None:
        self.credentials = credentials
        self.room = self._room = room
        self._options = options
        self._clock = clock
        self.input_rate = options.input_rate
        self._sink = LiveKitSink(clock, sample_rate=options.output_rate)
        self._avatar = None if options.avatar is None else Avatar(room, options.avatar, self._sink, clock)
        self._link = ParticipantLink(participant, options)
        self._track: rtc.LocalAudioTrack | None = None
        self._publication: rtc.LocalTrackPublication | None = None
        self._microphone_sid: str | None = None
        self._requested: set[str] = set()
        self._is_subscribed = False
        self._on_audible: list[Callable[[], None]] = []
        self._parts = RoomParts(room, options)
        self._recordings = PreConnectAudio(
            room,
            clock,
            options.input_rate,
            is_wanted=options.audio_input and options.pre_connect_audio,
            on_change=self._wake,
        )
        self._texts: TextSender | None = None
        self._states: StateSender | None = None
        self._closed_reason: str | None = None
        self._is_gone = False
        self._changed = anyio.Event()
        self._running = anyio.CancelScope()
        self._ended: anyio.Event | None = None

    @property
    def wants_turn_records(self) -> bool:
        return self._options.publish_turns

    @property
    def tail(self) -> float:
        return TAIL if self._avatar is None else TAIL + AVATAR_TAIL

    @property
    def sink(self) -> AudioSink:
        return self._sink if self._avatar is None else self._avatar.sink

    async def run(self, events: TransportEvents, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        if not self._room.isconnected():
            raise RoomError(
                "the room is not connected; await ctx.connect() or room.connect(url, token) before the session starts"
            )
        if self._options.video_input:
            check_encoder()
        self._ended = anyio.Event()
        self._texts = TextSender(self._room.local_participant)
        self._states = StateSender(self._room.local_participant)
        try:
            with self._running:
                await self._serve(events, task_status)
        finally:
            self._stop_sinks()
            await self._flush(self._texts)
            self._ended.set()

    async def _serve(self, events: TransportEvents, task_status: TaskStatus[None]) -> None:
        assert self._texts is not None
        assert self._states is not None
        recordings = self._recordings
        microphone = MicrophoneReader(self._options.input_rate, recordings.frame, recordings.stopped, self._clock)
        typed = TextReader(self._link.identity, events.text)
        wanted = self._options.video or VideoInputOptions()
        video = VideoReader(events.wants_video, events.video, events.video_stopped, max_size=wanted.max_size)
        taking_parts = self._parts.taking(self._link.identity, events)
        with self._listening(typed), self._taking_keys(events), taking_parts, recordings.taking(events):
            await self._publish()
            if self._avatar is None:
                await self._run_parts(events, microphone, typed, video, task_status)
                return
            with self._avatar.linked(events):
                await self._avatar.wait()
                await self._run_parts(events, microphone, typed, video, task_status)

    async def _run_parts(
        self,
        events: TransportEvents,
        microphone: MicrophoneReader,
        typed: TextReader,
        video: VideoReader,
        task_status: TaskStatus[None],
    ) -> None:
        assert self._texts is not None
        assert self._states is not None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._sink.pump)
            if self._avatar is not None:
                tasks.start_soon(self._avatar.run)
            tasks.start_soon(self._texts.run)
            tasks.start_soon(self._states.run)
            tasks.start_soon(self._parts.run)
            if self._options.audio_input:
                tasks.start_soon(microphone.run)
                tasks.start_soon(self._recordings.run)
            if self._options.text_input:
                tasks.start_soon(typed.run)
            if self._options.video_input:
                tasks.start_soon(video.run)
            with interrupt_method(
                self._room.local_participant,
                events.interrupt if self._options.remote_interrupt else None,
                is_allowed=lambda identity: identity == self._link.identity,
            ):
                task_status.started()
                await self._follow(events, microphone, typed, video)

    # --- the room, at present

    async def _follow(
        self, events: TransportEvents, microphone: MicrophoneReader, typed: TextReader, video: VideoReader
    ) -> None:
        timer: TimerHandle | None = None
        try:
            while True:
                self._changed = anyio.Event()
                self._look(events, microphone, typed)
                video.follow(self._shown())
                if timer is not None:
                    timer.cancel()
                deadline = self._link.deadline(now=self._clock.now())
                timer = None if deadline is None else self._clock.call_at(deadline, self._wake)
                await self._changed.wait()
        finally:
            if timer is not None:
                timer.cancel()

    def _look(self, events: TransportEvents, microphone: MicrophoneReader, typed: TextReader) -> None:
        if self._closed_reason is not None:
            reason, self._closed_reason = self._closed_reason, None
            microphone.follow(None)
            events.closed(reason)
        if self._is_gone:
            return
        present = {name: one for name, one in self._room.remote_participants.items() if not phone.is_ringing(one)}
        if self._avatar is not None:
            present.pop(self._avatar.identity, None)
        for change in self._link.update(
            present,
            now=self._clock.now(),
            is_reachable=lambda identity: is_reachable(present[identity]),
            comes_back=lambda one: not phone.has_hung_up(one),
        ):
            logger.debug("participant %r has %s", change.identity, change.what)
            if change.what == "left":
                microphone.follow(None)
                self._parts.drop()
                events.participant_left(change.identity, comes_back=change.comes_back)
            else:
                self._parts.link(change.identity)
                events.participant_linked(change.identity)
                typed.link(change.identity)
        publication = self._microphone()
        self._recordings.follow(present.get(self._link.identity or ""), publication)
        track = None if publication is None else publication.track
        if publication is not None and isinstance(track, rtc.RemoteAudioTrack):
            microphone.follow(track, is_muted=publication.muted)
        else:
            microphone.follow(None)
        if self.is_audible:
            waiting, self._on_audible = self._on_audible, []
            for callback in waiting:
                callback()

    def _shown(self) -> rtc.RemoteVideoTrack | None:
        """Return the track that the linked participant shows, if its video is wanted."""
        participant = self._room.remote_participants.get(self._link.identity or "")
        wanted = self._options.video
        if wanted is None or participant is None or self._is_gone:
            return None
        publication = find_video(participant, wanted.source)
        if publication is None:
            return None
        if publication.track is None and publication.sid not in self._requested:
            self._requested.add(publication.sid)
            publication.set_subscribed(True)  # the room may have been connected with auto_subscribe off
        return publication.track if isinstance(publication.track, rtc.RemoteVideoTrack) else None

    def _microphone(self) -> rtc.RemoteTrackPublication | None:
        participant = self._room.remote_participants.get(self._link.identity or "")
        publication = None if participant is None else find_microphone(participant)
        if publication is None:
            return None
        self._microphone_sid = publication.sid
        if publication.track is None and self._options.audio_input and publication.sid not in self._requested:
            self._requested.add(publication.sid)
            publication.set_subscribed(True)  # the room may have been connected with auto_subscribe off
        return publication

    # --- callbacks of the SDK: they only record and wake

    def _wake(self) -> None:
        self._changed.set()

    def _note_subscribed(self, track: rtc.LocalAudioTrack) -> None:
        if track is self._track:
            self._is_subscribed = True
            self._changed.set()

    def _note_reconnecting(self) -> None:
        self._link.suspend()

    def _note_reconnected(self) -> None:
        self._link.resume()
        if self._states is not None:
            self._states.show_again()
        self._changed.set()

    def _stop_sinks(self) -> None:
        self._sink.stop()
        if self._avatar is not None:
            self._avatar.stop()

    def _note_disconnected(self, reason: rtc.DisconnectReason.ValueType) -> None:
        self._stop_sinks()
        if self._texts is not None:
            self._texts.drop()
        self._parts.drop()
        self._is_gone = True
        self._closed_reason = reason_name(reason)
        self._changed.set()

    @contextmanager
    def _taking_keys(self, events: TransportEvents) -> Iterator[None]:
        """Take the keys that the linked participant presses on a telephone, within the block."""

        def take(pressed: rtc.SipDTMF) -> None:
            if pressed.participant is not None and pressed.participant.identity == self._link.identity:
                events.key(pressed.digit.upper())  # LiveKit's A to D come in lower case

        with callbacks(self._room, {"sip_dtmf_received": take}):
            yield

    @contextmanager
    def _listening(self, typed: TextReader) -> Iterator[None]:
        """Register the room's callbacks within the block."""
        if self._options.text_input:
            try:
                self._room.register_text_stream_handler(CHAT_TOPIC, typed.add)
            except ValueError as error:
                raise RoomError(
                    f"text streams on topic {CHAT_TOPIC!r} of this room are taken by somebody else already, perhaps by "
                    "another session; close that one first, or pass RoomOptions(text_input=False)"
                ) from error
        handlers: dict[rtc.room.EventTypes, Callable[..., None]] = {
            **dict.fromkeys(WAKING_EVENTS, self._wake),
            "local_track_subscribed": self._note_subscribed,
            "reconnecting": self._note_reconnecting,
            "reconnected": self._note_reconnected,
            "disconnected": self._note_disconnected,
        }
        try:
            with callbacks(self._room, handlers):
                yield
        finally:
            if self._options.text_input:
                self._room.unregister_text_stream_handler(CHAT_TOPIC)

    # --- the agent's track

    async def _publish(self) -> None:
        self._track = rtc.LocalAudioTrack.create_audio_track(self._options.track_name, self._sink.open())
        self._publication = await publish(self._room, self._track)

    @property
    def is_audible(self) -> bool:
        """Whether the linked participant is present, and was heard so far, and the agent's track has a subscriber.

        The room does not name the subscriber: with other listeners in the room it may be one of them.
        """
        return self._is_subscribed and self._link.is_present and not self._recordings.is_awaited

    def on_audible(self, callback: Callable[[], None]) -> None:
        if self.is_audible:
            callback()
        else:
            self._on_audible.append(callback)

    @property
    def caller(self) -> CallerInfo | None:
        participant = self._room.remote_participants.get(self._link.identity or "")
        return None if participant is None else phone.caller_of(participant)

    # --- output of the session beside audio

    async def send_keys(self, keys: str) -> bool:
        return await phone.send_keys(self._room, keys)

    def send_transcript(self, segment: TranscriptSegment) -> None:
        if self._texts is None or self._is_gone or not self._options.transcription:
            return
        if segment.who == "agent":
            sid = None if self._publication is None else self._publication.sid
            self._texts.add_transcript(segment, sender=None, track_sid=sid)
        else:
            self._texts.add_transcript(segment, sender=self._link.identity, track_sid=self._microphone_sid)

    def send_agent_state(self, state: str) -> None:
        if self._states is not None and not self._is_gone:
            self._states.show(state)

    def send_turn_record(self, json_text: str) -> None:
        receiver = self._link.identity
        if self._texts is not None and not self._is_gone and self._options.publish_turns and receiver is not None:
            self._texts.add_record(json_text, receiver=receiver)

    def send_part(self, message: PartMessage) -> None:
        receiver = self._link.identity
        if receiver is not None and self._link.is_present and not self._is_gone:
            self._parts.send(message, receiver=receiver)

    async def _flush(self, texts: TextSender) -> None:
        if not self._room.isconnected():
            return
        with anyio.move_on_after(FLUSH_LIMIT, shield=True) as limit:
            await texts.finish()
            await self._parts.finish()
        if limit.cancelled_caught:
            logger.warning("some texts were not sent to the room within %s s", FLUSH_LIMIT)
            return
        with anyio.move_on_after(ARRIVAL_LIMIT, shield=True):
            await texts_arrived(self._room, self._link.identity)

    # --- the end

    def check_hangup(self) -> None:
        checked(self.credentials)

    async def hangup(self) -> None:
        credentials, identity = checked(self.credentials), self._link.identity
        if identity is not None or self._options.hangup == "room":
            if self._texts is not None and self._room.isconnected():
                with anyio.move_on_after(ARRIVAL_LIMIT):
                    await self._texts.sent()
                    await texts_arrived(self._room, identity)
            await disconnect(credentials, self._room.name, identity or "", whom=self._options.hangup)

    async def leave(self) -> None:
        await self._end_run()
        with anyio.move_on_after(LEAVE_LIMIT, shield=True) as limit:
            await self._room.disconnect()
        if limit.cancelled_caught:
            logger.warning("the room did not confirm that the agent left within %s s", LEAVE_LIMIT)

    async def aclose(self) -> None:
        await self._end_run()
        publication, self._publication = self._publication, None
        await unpublish(self._room, publication)
        await self._sink.aclose()

    async def _end_run(self) -> None:
        """End `run` if it runs: no code may feed the native library while the room closes."""
        self._stop_sinks()
        self._running.cancel()
        if self._ended is not None:
            with anyio.move_on_after(END_LIMIT, shield=True):
                await self._ended.wait()
