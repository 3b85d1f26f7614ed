"""Remote procedure calls of a caller's client to the agent: stop speaking."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from livekit import rtc

INTERRUPT_METHOD = "vivavoce.interrupt"
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
