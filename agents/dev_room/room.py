"""One room: its participants and their subscriptions, data between them, and its end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from livekit.protocol import models, rtc

from vivavoce.agents.dev_room.info import new_sid
from vivavoce.agents.dev_room.options import LEAVE_LINGER
from vivavoce.agents.dev_room.participant import Participant
from vivavoce.agents.dev_room.peer import Peer
from vivavoce.agents.dev_room.shared import Shared
from vivavoce.agents.dev_room.tracks import PublishedTrack
from vivavoce.pipelines.core.clock import LoopClock

logger = logging.getLogger(__name__)


class Room:
    """Participants by identity, and the effects of each on the others."""

    def __init__(
        self,
        shared: Shared,
        name: str,
        *,
        on_closed: Callable[[Room], None],
        empty_timeout: float = 0.0,
        departure_timeout: float = 0.0,
    ) -> None:
        now = LoopClock().wall()
        self._shared = shared
        self._on_closed = on_closed
        self.info = models.Room(
            sid=new_sid("RM"),
            name=name,
            creation_time=int(now),
            creation_time_ms=int(now * 1000),
            empty_timeout=int(empty_timeout or shared.options.empty_timeout),
            departure_timeout=int(departure_timeout or shared.options.departure_timeout),
        )
        self.participants: dict[str, Participant] = {}
        self.had_caller = False
        self.is_closed = False
        self._departure_timeout = departure_timeout or shared.options.departure_timeout
        self._expiry: asyncio.TimerHandle | None = None
        self._expire_in(empty_timeout or shared.options.empty_timeout)

    @property
    def name(self) -> str:
        return self.info.name

    def describe(self) -> models.Room:
        """Return the description of the room for clients and the server API."""
        visible = [p for p in self.participants.values() if not p.info.permission.hidden]
        self.info.num_participants = len(visible)
        self.info.num_publishers = sum(1 for p in visible if p.tracks)
        return self.info

    def set_metadata(self, metadata: str) -> None:
        """Change the room's metadata; everyone receives it."""
        if metadata == self.info.metadata:
            return
        self.info.metadata = metadata
        response = rtc.SignalResponse(room_update=rtc.RoomUpdate(room=self.describe()))
        for participant in self.participants.values():
            participant.send(response)

    # Members

    def join(self, participant: Participant) -> None:
        """Add a participant; one of the same identity is removed first."""
        previous = self.participants.get(participant.info.identity)
        if previous is not None:
            self.remove(previous, models.DUPLICATE_IDENTITY)
        self.participants[participant.info.identity] = participant
        if not participant.is_agent:
            self.had_caller = True
            self._cancel_expiry()
        self.send_update([participant.touch()], to=self.others(participant))
        for other in self.others(participant):
            for track in other.tracks.values():
                if participant.auto_subscribe:
                    participant.subscribe(track)
        logger.info("%s joined room %s", participant.info.identity, self.name)

    def others(self, participant: Participant) -> list[Participant]:
        return [p for p in self.participants.values() if p is not participant]

    def remove(self, participant: Participant, reason: models.DisconnectReason) -> None:
        """Remove a participant: the others learn it now, its transports close a little later."""
        if participant.is_gone:
            return
        participant.leave()
        if self.participants.get(participant.info.identity) is participant:
            del self.participants[participant.info.identity]
        for track in list(participant.tracks.values()):
            self.unpublish(participant, track)
        participant.unsubscribe_all()
        info = participant.touch()
        info.state, info.disconnect_reason = models.ParticipantInfo.DISCONNECTED, reason
        self.send_update([info], to=self.participants.values())
        if reason != models.CLIENT_INITIATED:
            participant.send(rtc.SignalResponse(leave=rtc.LeaveRequest(reason=reason)))
        if participant.link is not None:
            participant.link.finish()
        if participant.peer is not None:
            self._shared.tasks.spawn(self._close_peer(participant.peer), name="close peer")
        logger.info("%s left room %s (%s)", info.identity, self.name, models.DisconnectReason.Name(reason))
        if not participant.is_agent and not any(not p.is_agent for p in self.participants.values()):
            self._expire_in(self._departure_timeout)

    async def _close_peer(self, peer: Peer) -> None:
        await self._shared.linger(LEAVE_LINGER)
        await peer.aclose()

    def lose_link(self, participant: Participant) -> None:
        """Keep a participant without a websocket for a while: it may resume, unless its transport has ended too."""
        if participant.is_gone:
            return
        if participant.peer is not None and participant.peer.endpoint.is_closed:
            self.remove(participant, models.SIGNAL_CLOSE)
        else:
            grace = self._shared.options.participant_grace
            participant.start_timer(grace, lambda: self.remove(participant, models.SIGNAL_CLOSE))

    # Descriptions

    def announce(self, participant: Participant) -> None:
        """Send a participant's changed description to everyone, itself included."""
        if not participant.is_gone:
            self.send_update([participant.touch()], to=self.participants.values())

    def send_update(self, infos: list[models.ParticipantInfo], *, to: Iterable[Participant]) -> None:
        """Send descriptions; those of hidden participants go only to themselves."""
        for participant in to:
            seen = [i for i in infos if not i.permission.hidden or i.sid == participant.info.sid]
            if seen:
                participant.send(rtc.SignalResponse(update=rtc.ParticipantUpdate(participants=seen)))

    # Tracks

    def find_track(self, sid: str) -> PublishedTrack | None:
        return next((p.tracks[sid] for p in self.participants.values() if sid in p.tracks), None)

    def offer_track(self, publisher: Participant, track: PublishedTrack) -> None:
        """Subscribe all others that subscribe automatically to a new track."""
        for participant in self.others(publisher):
            if participant.auto_subscribe:
                participant.subscribe(track)
                participant.ask_for_offer()

    def update_subscriptions(self, participant: Participant, sids: list[str], subscribe: bool) -> None:
        """Begin or end hearing tracks; for a missing track, this participant gets an error."""
        for sid in sids:
            track = self.find_track(sid)
            if not subscribe:
                participant.unsubscribe(sid)
            elif track is None:
                error = rtc.SubscriptionResponse(track_sid=sid, err=models.SE_TRACK_NOTFOUND)
                participant.send(rtc.SignalResponse(subscription_response=error))
            else:
                participant.subscribe(track)
        participant.ask_for_offer()

    def unpublish(self, publisher: Participant, track: PublishedTrack) -> None:
        """Remove a track from its publisher and all its subscribers."""
        publisher.drop_track(track)
        for participant in self.others(publisher):
            if track.info.sid in participant.subscriptions:
                participant.unsubscribe(track.info.sid)
                participant.ask_for_offer()

    # End

    def close(self, reason: models.DisconnectReason) -> None:
        """Remove everyone and end the room's jobs; safe to repeat."""
        if self.is_closed:
            return
        self.is_closed = True
        for participant in list(self.participants.values()):
            self.remove(participant, reason)
        self._cancel_expiry()
        self._on_closed(self)
        logger.info("room %s closed (%s)", self.name, models.DisconnectReason.Name(reason))

    def _expire_in(self, seconds: float) -> None:
        self._cancel_expiry()
        if not self.is_closed:
            self._expiry = asyncio.get_running_loop().call_later(seconds, self.close, models.ROOM_CLOSED)

    def _cancel_expiry(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
