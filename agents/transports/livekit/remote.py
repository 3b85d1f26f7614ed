"""Remote procedure calls: the caller's client asks the agent to stop speaking, and answers that all texts arrived."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import anyio
from livekit import rtc

from vivavoce.agents.transports.livekit.outbound import SDK_ERRORS

logger = logging.getLogger(__name__)

INTERRUPT_METHOD = "vivavoce.interrupt"
RECEIVED_METHOD = "vivavoce.received"
"""A client offers no such method: the error that it answers is enough."""
READERS = (rtc.ParticipantKind.PARTICIPANT_KIND_STANDARD, rtc.ParticipantKind.PARTICIPANT_KIND_AGENT)
"""Kinds of participants that run a LiveKit client. A telephone reads no texts and answers no call."""
ASKED_AT_ONCE = 20
"""Clients that are asked at a time whether the texts arrived."""
NOT_ALLOWED = 1000
"""Error code (the first that LiveKit leaves to applications) for a caller other than the linked participant."""


@contextmanager
def interrupt_method(
    participant: rtc.LocalParticipant, interrupt: Callable[[], None] | None, *, is_allowed: Callable[[str], bool]
) -> Iterator[None]:
    """Offer the method `vivavoce.interrupt` for the length of the block; its payload and answer are empty.

    Args:
        participant: The agent.
        interrupt: Called for each allowed call; None offers nothing.
        is_allowed: Whether the participant of this identity may interrupt.
    """
    if interrupt is None:
        yield
        return

    def on_call(data: rtc.RpcInvocationData) -> str:
        if not is_allowed(data.caller_identity):
            raise rtc.RpcError(NOT_ALLOWED, "only the participant whom the agent talks to can interrupt it")
        interrupt()
        return ""

    participant.register_rpc_method(INTERRUPT_METHOD, on_call)
    try:
        yield
    finally:
        participant.unregister_rpc_method(INTERRUPT_METHOD)


async def texts_arrived(room: rtc.Room, first: str | None) -> None:
    """Return when the clients in the room have read what was sent to them; the caller of this function sets a limit.

    The room acknowledges no text, and a client gives up the open texts of a participant that has left. So each client
    is called: a LiveKit client answers every call, and reads it from the channel of the texts, behind them.

    Args:
        first: The identity of the client that is asked before the others: the caller's.
    """
    limiter = anyio.CapacityLimiter(ASKED_AT_ONCE)

    async def ask(identity: str) -> None:
        try:
            async with limiter:
                await room.local_participant.perform_rpc(
                    destination_identity=identity, method=RECEIVED_METHOD, payload=""
                )
        except rtc.RpcError as error:
            logger.debug("%s was asked whether the texts arrived: %s", identity, error.message)
        except SDK_ERRORS as error:
            logger.debug("%s could not be asked whether the texts arrived: %s", identity, error)

    async with anyio.create_task_group() as tasks:
        for participant in sorted(room.remote_participants.values(), key=lambda each: each.identity != first):
            if participant.kind in READERS:
                tasks.start_soon(ask, participant.identity)
