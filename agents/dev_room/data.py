"""Data packets between participants: sets the sender's name and resolves the receivers; the rest of a packet is
opaque.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from livekit.protocol import models

from vivavoce.agents.dev_room.peer import LOSSY, RELIABLE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from livekit.protocol.room import SendDataRequest

    from vivavoce.agents.dev_room.participant import Participant
    from vivavoce.agents.dev_room.room import Room

logger = logging.getLogger(__name__)

_STREAM_PARTS = ("stream_header", "stream_chunk", "stream_trailer")


def forward_data(room: Room, sender: Participant, label: str, packet: models.DataPacket) -> None:
    """Forward a data packet, under its sender's true name, to its receivers or to all others.

    Args:
        room: The room of the sender.
        sender: The participant that sent it.
        label: The channel on which it came and is forwarded.
        packet: Changed in place.
    """
    kind = packet.WhichOneof("value")
    if kind is None or kind == "speaker":
        return
    # Agents publish captions on behalf of the caller: in streams the given name stays.
    if not (sender.is_agent and kind in _STREAM_PARTS and packet.participant_identity):
        packet.participant_identity = sender.info.identity
    packet.participant_sid = sender.info.sid
    destinations = set(packet.destination_identities)
    if kind == "user":
        packet.user.participant_identity = sender.info.identity
        packet.user.participant_sid = sender.info.sid
        destinations |= set(packet.user.destination_identities)
    others = room.others(sender)
    _send(room, [p for p in others if not destinations or p.info.identity in destinations], label, packet)


def send_from_server(room: Room, request: SendDataRequest) -> None:
    """Send data of the server API to the named participants, by identity or sid, or to everyone in the room."""
    user = models.UserPacket(
        payload=request.data,
        topic=request.topic if request.HasField("topic") else None,
        destination_identities=request.destination_identities,
        destination_sids=request.destination_sids,
        nonce=request.nonce,
    )
    packet = models.DataPacket(kind=request.kind, user=user, destination_identities=request.destination_identities)
    identities, sids = set(request.destination_identities), set(request.destination_sids)
    is_for_all = not identities and not sids
    meant = [p for p in room.participants.values() if is_for_all or p.info.identity in identities or p.info.sid in sids]
    _send(room, meant, LOSSY if request.kind == models.DataPacket.LOSSY else RELIABLE, packet)


def _send(room: Room, receivers: Iterable[Participant], label: str, packet: models.DataPacket) -> None:
    data = packet.SerializeToString()
    for receiver in list(receivers):
        if receiver.peer is None:
            logger.debug("%s has no transport yet and misses data", receiver.info.identity)
        elif not receiver.peer.send_data(label, data):
            logger.warning("%s does not read its data: removed from room %s", receiver.info.identity, room.name)
            room.remove(receiver, models.STATE_MISMATCH)
