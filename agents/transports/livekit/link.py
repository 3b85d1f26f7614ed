"""ParticipantLink: decides which participant the session talks to, and which track it hears. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Literal, NamedTuple, Protocol

from livekit import rtc

from vivavoce.agents.transports.options import RoomOptions

MICROPHONE_EVENTS: tuple[rtc.room.EventTypes, ...] = (
    "participant_connected",
    "participant_disconnected",
    "track_published",
    "track_unpublished",
    "track_subscribed",
    "track_unsubscribed",
    "track_muted",
    "track_unmuted",
)
"""Events of a room after which `find_microphone` may find another one, or none."""


class Participant(Protocol):
    """The part of an `rtc.RemoteParticipant` that this module uses."""

    @property
    def identity(self) -> str: ...

    @property
    def kind(self) -> rtc.ParticipantKind.ValueType: ...


class LinkChange(NamedTuple):
    """The linked participant has come or gone."""

    what: Literal["linked", "left"]
    identity: str
    comes_back: bool = True
    """Whether one that has left may come back within the grace."""


class ParticipantLink:
    """Links one participant: the requested one, else the first of an accepted kind.

    It receives the present state of the room, not single events, so that a burst of events costs one look.

    Args:
        identity: Whom to link; None for the first of `options.participant_kinds`.
        options: Kinds, grace and what happens after it.
    """

    def __init__(self, identity: str | None, options: RoomOptions) -> None:
        self._is_fixed = identity is not None
        self._options = options
        self._identity = identity
        self._participant: Participant | None = None
        self._left_at: float | None = None
        self._grace = options.participant_grace
        self._is_suspended = False
        """Whether the agent itself is out of the room for now: the room looks empty then, and no participant counts as
        gone.
        """

    @property
    def identity(self) -> str | None:
        """The linked participant's identity, kept while it is away."""
        return self._identity

    @property
    def is_present(self) -> bool:
        """Whether the linked participant is in the room."""
        return self._participant is not None

    def suspend(self) -> None:
        """The agent itself is out of the room for now."""
        self._is_suspended = True

    def resume(self) -> None:
        """The agent is back in the room."""
        self._is_suspended = False

    def update(
        self,
        participants: Mapping[str, Participant],
        *,
        now: float,
        is_reachable: Callable[[str], bool],
        comes_back: Callable[[Participant], bool] = lambda _: True,
    ) -> list[LinkChange]:
        """Compare with the room's participants by identity; return the changes in order.

        If the session has begun to talk before, a participant that comes is linked once `is_reachable(identity)`:
        speech continues at once then, and a server reports only the first subscription to the agent's track.

        Args:
            comes_back: Whether a participant that has left may come back; for one that does not, no grace counts.
        """
        changes: list[LinkChange] = []
        if self._is_suspended:
            return changes
        if self._participant is not None and participants.get(self._participant.identity) is not self._participant:
            may_return = comes_back(self._participant)
            changes.append(LinkChange("left", self._participant.identity, may_return))
            self._grace = self._options.participant_grace if may_return else 0.0
            self._participant = None
            self._left_at = now
        if self._participant is None:
            found = self._find(participants, now)
            if found is not None and (self._left_at is None or is_reachable(found.identity)):
                self._participant, self._identity, self._left_at = found, found.identity, None
                changes.append(LinkChange("linked", found.identity))
        return changes

    def deadline(self, *, now: float) -> float | None:
        """Return when `update` should run again even without an event of the room."""
        over_at = None if self._is_suspended else self._grace_over_at()
        return over_at if over_at is not None and over_at > now else None

    def _grace_over_at(self) -> float | None:
        if self._left_at is None or self._is_fixed or self._options.close_on_disconnect:
            return None
        return self._left_at + self._grace

    def _find(self, participants: Mapping[str, Participant], now: float) -> Participant | None:
        if self._identity is not None and self._identity in participants:
            return participants[self._identity]
        over_at = self._grace_over_at()
        if self._identity is None or (over_at is not None and now >= over_at):
            return self._first(participants.values())
        return None

    def _first(self, participants: Iterable[Participant]) -> Participant | None:
        kinds = self._options.participant_kinds
        return next((each for each in participants if kind_name(each.kind) in kinds), None)


def kind_name(kind: rtc.ParticipantKind.ValueType) -> str:
    """Return LiveKit's kind as `RoomOptions.participant_kinds` spells it; `"kind_7"` if this SDK has no name for it."""
    try:
        return rtc.ParticipantKind.Name(kind).removeprefix("PARTICIPANT_KIND_").lower()
    except ValueError:
        return f"kind_{int(kind)}"


def reason_name(reason: rtc.DisconnectReason.ValueType) -> str:
    """Return why LiveKit ended a connection, for example `"room_deleted"`; `"reason_99"` if this SDK has no name for
    it.
    """
    try:
        return rtc.DisconnectReason.Name(reason).lower()
    except ValueError:
        return f"reason_{int(reason)}"


def is_reachable(participant: rtc.RemoteParticipant) -> bool:
    """Return whether it can hear by now: its media arrives, or the server reports it, up to a second later."""
    has_media = any(each.track is not None for each in participant.track_publications.values())
    return has_media or participant.state == rtc.ParticipantState.PARTICIPANT_STATE_ACTIVE


def find_microphone(participant: rtc.RemoteParticipant) -> rtc.RemoteTrackPublication | None:
    """Return the audio track to hear: a microphone, else audio of no named source, never that of a shared screen."""
    audio = [each for each in participant.track_publications.values() if each.kind == rtc.TrackKind.KIND_AUDIO]
    for source in (rtc.TrackSource.SOURCE_MICROPHONE, rtc.TrackSource.SOURCE_UNKNOWN):
        # the newest of a source: after a reconnect the old publication may still be listed
        for publication in reversed(audio):
            if publication.source == source:
                return publication
    return None
