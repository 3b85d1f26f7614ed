"""Owns data packets between participants: true senders' names and destinations; all else in them is opaque."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from livekit.protocol import models

if TYPE_CHECKING:
    from .participant import Participant

logger = logging.getLogger(__name__)

_STREAM_PARTS = ("stream_header", "stream_chunk", "stream_trailer")


def forward_data(sender: Participant, label: str, packet: models.DataPacket) -> None:
    """Send a data packet on, under its sender's true name, to those it is meant for or to all others.

    Args:
        sender: Who sent it.
        label: The channel it came on, and goes out on.
        packet: Changed in place.
    """
    kind = packet.WhichOneof("value")
    if kind is None or kind == "speaker":
        return
    # Agents publish captions on behalf of the caller: in streams the name they set stays.
    if not (sender.is_agent and kind in _STREAM_PARTS and packet.participant_identity):
        packet.participant_identity = sender.info.identity
    packet.participant_sid = sender.info.sid
    destinations = set(packet.destination_identities)
    if kind == "user":
        packet.user.participant_identity = sender.info.identity
        packet.user.participant_sid = sender.info.sid
        destinations |= set(packet.user.destination_identities)
    data = packet.SerializeToString()
    for other in sender.room.others(sender):
        if destinations and other.info.identity not in destinations:
            continue
        if other.peer is None:
            logger.debug("%s has no transport yet and misses data", other.info.identity)
        elif not other.peer.send_data(label, data):
            logger.warning("%s does not read its data: removed from room %s", other.info.identity, other.room.name)
            other.room.remove(other, models.STATE_MISMATCH)
