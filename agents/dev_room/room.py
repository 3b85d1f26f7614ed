"""One room: its participants and their subscriptions, data between them, and its end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from livekit.protocol import models, rtc

from vivavoce.agents.dev_room.info import new_sid
from vivavoce.agents.dev_room.options import LEAVE_LINGER
from vivavoce.agents.dev_room.participant import Participant
from vivavoce.agents.dev_room.tracks import PublishedTrack, Subscription
from vivavoce.pipelines.core.clock import LoopClock

if TYPE_CHECKING:
    from vivavoce.agents.dev_room.hub import Hub

logger = logging.getLogger(__name__)


class Room:
    """Participants by identity, and the effects of each on the others."""

    def __init__(self, hub: Hub, name: str, *, empty_timeout: float = 0.0, departure_timeout: float = 0.0) -> None:
        now = LoopClock().wall()
        self.hub = hub
        self.info = models.Room(
            sid=new_sid("RM"),
            name=name,
            creation_time=int(now),
            creation_time_ms=int(now * 1000),
            empty_timeout=int(empty_timeout or hub.options.empty_timeout),
            departure_timeout=int(departure_timeout or hub.options.departure_timeout),
        )
        self.participants: dict[str, Participant] = {}
        self.had_caller = False
        self.is_closed = False
        self._departure_timeout = departure_timeout or hub.options.departure_timeout
        self._expiry: asyncio.TimerHandle | None = None
        self._expire_in(empty_timeout or hub.options.empty_timeout)

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
                    self.subscribe(participant, track)
        logger.info("%s joined room %s", participant.info.identity, self.name)

    def others(self, participant: Participant) -> list[Participant]:
        return [p for p in self.participants.values() if p is not participant]

    def remove(self, participant: Participant, reason: models.DisconnectReason) -> None:
        """Remove a participant: the others learn it now, its transports close a little later."""
        if participant.is_gone:
            return
        participant.is_gone = True
        participant.cancel_timer()
        if self.participants.get(participant.info.identity) is participant:
            del self.participants[participant.info.identity]
        for track in list(participant.tracks.values()):
            self.unpublish(track)
        for subscription in participant.subscriptions.values():
            subscription.track.subscriptions.pop(participant.info.sid, None)
        participant.subscriptions.clear()
        info = participant.touch()
        info.state, info.disconnect_reason = models.ParticipantInfo.DISCONNECTED, reason
        self.send_update([info], to=self.participants.values())
        if reason != models.CLIENT_INITIATED:
            participant.send(rtc.SignalResponse(leave=rtc.LeaveRequest(reason=reason)))
        if participant.link is not None:
            participant.link.finish()
        if participant.peer is not None:
            self.hub.tasks.spawn(self._close_peer(participant), name="close peer")
        logger.info("%s left room %s (%s)", info.identity, self.name, models.DisconnectReason.Name(reason))
        if not participant.is_agent and not any(not p.is_agent for p in self.participants.values()):
            self._expire_in(self._departure_timeout)

    async def _close_peer(self, participant: Participant) -> None:
        assert participant.peer is not None
        await self.hub.linger(LEAVE_LINGER)
        await participant.peer.aclose()

    def lose_link(self, participant: Participant) -> None:
        """Keep a participant without a websocket for a while: it may resume."""
        if not participant.is_gone:
            participant.cancel_timer()
            participant.timer = asyncio.get_running_loop().call_later(
                self.hub.options.participant_grace, self.remove, participant, models.SIGNAL_CLOSE
            )

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

    def offer_track(self, track: PublishedTrack) -> None:
        """Subscribe all others that subscribe automatically to a new track."""
        for participant in self.others(track.publisher):
            if participant.auto_subscribe:
                self.subscribe(participant, track)
                participant.ask_for_offer()

    def subscribe(self, participant: Participant, track: PublishedTrack) -> None:
        """Add a subscription; no effect if it exists, or if the token does not allow it."""
        sid = track.info.sid
        if sid in participant.subscriptions or track.publisher is participant or not participant.grants.can_subscribe:
            return
        subscription = Subscription(track=track, subscriber=participant)
        participant.subscriptions[sid] = subscription
        track.subscriptions[participant.info.sid] = subscription
        participant.negotiation.subscribe(subscription)

    def unsubscribe(self, participant: Participant, track_sid: str) -> None:
        subscription = participant.subscriptions.pop(track_sid, None)
        if subscription is not None:
            subscription.track.subscriptions.pop(participant.info.sid, None)
            participant.negotiation.unsubscribe(subscription)

    def unpublish(self, track: PublishedTrack) -> None:
        """Remove a track from its publisher and all its subscribers."""
        track.publisher.drop_track(track)
        for subscription in list(track.subscriptions.values()):
            self.unsubscribe(subscription.subscriber, track.info.sid)
            subscription.subscriber.ask_for_offer()

    # End

    def close(self, reason: models.DisconnectReason) -> None:
        """Remove everyone and end the room's jobs; safe to repeat."""
        if self.is_closed:
            return
        self.is_closed = True
        for participant in list(self.participants.values()):
            self.remove(participant, reason)
        self._cancel_expiry()
        self.hub.forget(self)
        logger.info("room %s closed (%s)", self.name, models.DisconnectReason.Name(reason))

    def _expire_in(self, seconds: float) -> None:
        self._cancel_expiry()
        if not self.is_closed:
            self._expiry = asyncio.get_running_loop().call_later(seconds, self.close, models.ROOM_CLOSED)

    def _cancel_expiry(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
