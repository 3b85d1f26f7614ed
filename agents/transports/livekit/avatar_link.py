"""AvatarLink: carries out the commands of an AvatarSink in a room, and hands it the avatar's reports.

Protocol: LiveKit's for avatars, as livekit-agents 1.8 speaks it. Audio: byte streams on topic `lk.audio_stream`, 16-bit
PCM, its format in the stream's attributes. RPC to the avatar: `lk.clear_buffer`. RPC from it: `lk.playback_started`,
`lk.playback_finished` (JSON with `playback_position` in seconds of the stream, and `interrupted`).
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import anyio
from livekit import rtc

from vivavoce.agents.transports.livekit.avatar_sink import AvatarSink, Command
from vivavoce.agents.transports.options import AvatarOptions
from vivavoce.pipelines.core.errors import AvatarError, describe
from vivavoce.pipelines.core.ids import new_id

logger = logging.getLogger(__name__)

AUDIO_TOPIC = "lk.audio_stream"
CLEAR_METHOD = "lk.clear_buffer"
PROBE_METHOD = "vivavoce.probe"
STARTED_METHOD = "lk.playback_started"
FINISHED_METHOD = "lk.playback_finished"
SEND_LIMIT = 2.0
"""Seconds for one command; an avatar that takes longer counts as lost."""
NOT_ALLOWED = 1000
BAD_REPORT = 1001
"""Error codes (of those that LiveKit leaves to applications) for another caller, and for a report of another form."""


class AvatarLink:
    """Follows the avatar's presence, and sends it the agent's audio while it is there.

    Args:
        on_lost: Called with the error when the avatar has left, or takes no audio any more.
    """

    def __init__(
        self, room: rtc.Room, options: AvatarOptions, sink: AvatarSink, on_lost: Callable[[AvatarError], None]
    ) -> None:
        self._room = room
        self._options = options
        self._sink = sink
        self._on_lost = on_lost
        self._present: rtc.RemoteParticipant | None = None
        self._broken: rtc.RemoteParticipant | None = None
        """The participant that took no audio: only another one, of the same identity, is used again."""
        self._writer: rtc.ByteStreamWriter | None = None
        self.is_ready = False
        """Whether the avatar plays audio that is sent to it."""

    def look(self) -> None:
        """Compare with the present state of the room."""
        found = self._room.remote_participants.get(self._options.identity)
        if self._present is not None and found is not self._present:
            self._present = None
            self._lose("has left the room")
        if found is None or found is self._broken or self.is_ready:
            return
        kinds = {publication.kind for publication in found.track_publications.values()}
        if not self._options.waits_for_video or rtc.TrackKind.KIND_VIDEO in kinds:
            self._present, self.is_ready = found, True
            logger.info("the avatar %r plays the agent's audio", self._options.identity)

    def close(self) -> None:
        """Send nothing more."""
        self.is_ready = False

    def error(self, problem: str) -> AvatarError:
        """Return the error for a problem with the avatar, with its consequence."""
        identity, is_required = self._options.identity, self._options.is_required
        consequence = "the session needs it and closes" if is_required else "the agent's own track plays its speech"
        return AvatarError(
            f"the avatar {identity!r} {problem}; {consequence}",
            identity=identity,
            outcome="closed" if is_required else "own_audio",
        )

    def give_up(self, problem: str) -> None:
        """Use this participant no more: it is there, and does not play."""
        self._broken = self._present
        self._lose(problem)

    def _lose(self, problem: str) -> None:
        if self.is_ready:
            self.is_ready = False
            self._writer = None
            self._on_lost(self.error(problem))

    # --- the avatar's reports

    @contextmanager
    def methods(self) -> Iterator[None]:
        """Offer the methods by which the avatar reports, for the length of the block."""
        local = self._room.local_participant
        local.register_rpc_method(STARTED_METHOD, self._on_started)
        local.register_rpc_method(FINISHED_METHOD, self._on_finished)
        try:
            yield
        finally:
            local.unregister_rpc_method(STARTED_METHOD)
            local.unregister_rpc_method(FINISHED_METHOD)

    def _check_caller(self, data: rtc.RpcInvocationData) -> None:
        if data.caller_identity != self._options.identity:
            raise rtc.RpcError(NOT_ALLOWED, "only the avatar reports its playback")

    def _on_started(self, data: rtc.RpcInvocationData) -> str:
        self._check_caller(data)
        self._sink.started()
        return "ok"

    def _on_finished(self, data: rtc.RpcInvocationData) -> str:
        self._check_caller(data)
        try:
            report = json.loads(data.payload)
            seconds, interrupted = float(report["playback_position"]), bool(report["interrupted"])
        except (ValueError, TypeError, LookupError) as error:
            raise rtc.RpcError(BAD_REPORT, "need JSON with playback_position (s) and interrupted") from error
        if not math.isfinite(seconds):
            raise rtc.RpcError(BAD_REPORT, "need playback_position (s) as a finite number")
        self._sink.finished(seconds, interrupted=interrupted)
        return "ok"

    # --- the commands

    async def run(self) -> None:
        """Send the sink's commands until cancelled."""
        while True:
            command = await self._sink.next_command()
            if not self.is_ready:
                continue  # it was lost, and with it the speech
            try:
                with anyio.fail_after(SEND_LIMIT):
                    await self._send(command)
            except Exception as error:  # noqa: BLE001 - the SDK raises bare Exceptions too
                cause = f"no answer within {SEND_LIMIT:g} s" if isinstance(error, TimeoutError) else describe(error)
                self.give_up(f"takes no audio ({cause})")

    async def _send(self, command: Command) -> None:
        local = self._room.local_participant
        if isinstance(command, bytes):
            if self._writer is not None:
                await self._writer.write(command)
        elif command == "open":
            self._writer = await local.stream_bytes(
                new_id("speech"),
                topic=AUDIO_TOPIC,
                destination_identities=[self._options.identity],
                attributes={"sample_rate": str(self._sink.capabilities.sample_rate), "num_channels": "1"},
            )
        elif command == "probe":
            await self._probe()
        else:
            writer, self._writer = self._writer, None
            if writer is not None:
                await writer.aclose()
            if command == "clear":
                await local.perform_rpc(
                    destination_identity=self._options.identity,
                    method=CLEAR_METHOD,
                    payload="",
                    response_timeout=SEND_LIMIT,
                )

    async def _probe(self) -> None:
        """Ask for a sign of life: that the avatar knows no such method is one.

        Raises:
            rtc.RpcError: There is none.
        """
        try:
            await self._room.local_participant.perform_rpc(
                destination_identity=self._options.identity,
                method=PROBE_METHOD,
                payload="",
                response_timeout=SEND_LIMIT,
            )
        except rtc.RpcError as error:
            if error.code != rtc.RpcError.ErrorCode.UNSUPPORTED_METHOD:
                raise
        self._sink.lives()
