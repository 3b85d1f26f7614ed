"""A job that goes on without a session and without a room."""

from __future__ import annotations

from vivavoce.agents.current_job import required_job


def keep_job() -> None:
    """Attach a session without content to the running job, which then goes on after its entrypoint has returned."""
    required_job().attach_session(_nothing_to_close)


async def _nothing_to_close(reason: str) -> None:
    """Do nothing."""
