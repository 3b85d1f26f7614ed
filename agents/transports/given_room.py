"""The room that `AgentSession.start()` is given: its check, and its transport."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vivavoce.agents.current_job import server_credentials
from vivavoce.pipelines.core.checks import shown
from vivavoce.pipelines.core.clock import Clock
from vivavoce.pipelines.core.errors import AvatarError, CapabilityError, ConfigurationError
from vivavoce.pipelines.io import Transport

if TYPE_CHECKING:
    from livekit import rtc

    from vivavoce.agents.transports.options import RoomOptions


def check_room(room: object) -> None:
    """Refuse a room of another kind.

    Raises:
        ConfigurationError: It is neither a LiveKit room nor a transport, nor None.
    """
    if room is not None and not isinstance(room, Transport) and not hasattr(type(room), "local_participant"):
        raise ConfigurationError(
            f"need room as a connected rtc.Room, a Transport, or None in a job, got {shown(room)}; "
            "start() in a job takes the job's room"
        )


def transport_of(room: rtc.Room | Transport, participant: str | None, options: RoomOptions, clock: Clock) -> Transport:
    """Return `room` itself if it is a transport, else one for a LiveKit room.

    Args:
        participant: Identity of the participant to talk to; None: the first caller in the room.
    Raises:
        ConfigurationError: A participant is given for a ready transport.
        CapabilityError: The avatar is required, and no avatar plays the audio of a ready transport.
    """
    if not isinstance(room, Transport):
        from vivavoce.agents.transports.livekit import LiveKitTransport

        credentials = server_credentials()
        return LiveKitTransport(room, participant=participant, options=options, clock=clock, credentials=credentials)
    if participant is not None:
        raise ConfigurationError(f"participant={participant!r} goes with a LiveKit room, not with a ready transport")
    if options.avatar is not None and options.avatar.is_required and not room.sink.capabilities.is_remote:
        remedy = "start the session in a LiveKit room, or leave out AvatarOptions.is_required"
        raise CapabilityError(type(room).__name__, f"an avatar ({options.avatar.identity!r} is required)", remedy)
    return room


def missing_avatar(transport: Transport, options: RoomOptions) -> AvatarError | None:
    """Return the error for an avatar of the options that a ready transport has no place for; None without one."""
    if options.avatar is None or transport.sink.capabilities.is_remote:
        return None
    return AvatarError(
        f"the avatar {options.avatar.identity!r} cannot come: {type(transport).__name__} has no avatars, and the "
        "agent's own audio plays its speech; start the session in a LiveKit room, or leave out RoomOptions.avatar",
        identity=options.avatar.identity,
        outcome="own_audio",
    )
