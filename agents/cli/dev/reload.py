"""Reload: moves the calls of one child to the next, one after the other, each with its conversation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import anyio

from vivavoce.agents.cli.demo.place import Place
from vivavoce.agents.cli.dev.agent_process import AgentProcess
from vivavoce.agents.cli.dev.wire import Message
from vivavoce.agents.server_access import Credentials
from vivavoce.agents.worker.agent_token import agent_token
from vivavoce.agents.worker.options import AgentPermissions
from vivavoce.pipelines.core.errors import WorkerError

ANSWER_LIMIT = 5.0
"""Seconds for a process to answer a request that takes no waiting."""
READY_LIMIT = 30.0
"""Seconds for the new code to join, to open its pipeline and to publish its track."""
QUIET_LIMIT = 15.0
"""Seconds to wait for a moment in which both sides are silent and no answer is due."""


@dataclass(frozen=True, slots=True)
class Moved:
    """The result of moving one call.

    Args:
        error: Why it did not move; empty: it has moved, or was over.
        was_over: Whether the call had ended by itself, so that there was nothing to move.
    """

    room: str
    error: str = ""
    was_over: bool = False


async def move_calls(old: AgentProcess, new: AgentProcess, place: Place, note: Callable[[str], None]) -> list[Moved]:
    """Move every call of `old` to `new`; calls that cannot move stay."""
    moved: list[Moved] = []
    while left := [room for room in old.jobs if room not in {one.room for one in moved}]:
        try:
            has_moved = await _move(left[0], old, new, place, note)
        except WorkerError as error:
            moved.append(Moved(left[0], str(error)))
        else:
            moved.append(Moved(left[0], was_over=not has_moved))
    return moved


async def begin_anew(room: str, job: dict[str, Any], new: AgentProcess, place: Place) -> None:
    """Have `new` join a room whose agent died; the conversation begins again from nothing."""
    await new.send("take", **_taking(job, new, place), is_takeover=False)


async def _move(room: str, old: AgentProcess, new: AgentProcess, place: Place, note: Callable[[str], None]) -> bool:
    """Move a call; return False if it was over.

    Raises:
        WorkerError: The new code cannot go on with it.
    """
    job = old.jobs[room]
    old.forget(room)
    seen = await _preview(room, old)
    if seen.get("is_over"):
        return False
    preview = seen.get("conversation")
    if seen.get("problem"):
        note(seen["problem"])
    await new.send("take", **_taking(job, new, place), is_takeover=True, preview=preview)
    try:
        _check(await new.answer("ready", "call_failed", "call_over", room=room, limit=READY_LIMIT))
    except WorkerError:
        if not (await _preview(room, old)).get("is_over"):
            raise
        await new.send("drop", room=room)
        return False
    await old.send("hand_over", room=room, quiet_limit=QUIET_LIMIT)
    with anyio.CancelScope(shield=True):  # between the two steps no process has the call
        given = await old.answer("handed_over", room=room, limit=QUIET_LIMIT + ANSWER_LIMIT)
        if given.get("is_over"):
            await new.send("drop", room=room)
            return False
        conversation = preview if given["is"] == "died" else given["conversation"]
        await new.send("go_on", room=room, conversation=conversation)
    answer = await new.answer("resumed", "call_failed", "call_over", room=room, limit=ANSWER_LIMIT)
    if answer.get("is_hung_up"):
        return False
    _check(answer)
    return True


async def _preview(room: str, old: AgentProcess) -> Message:
    await old.send("preview", room=room)
    return await old.answer("preview", room=room, limit=ANSWER_LIMIT)


def _taking(job: dict[str, Any], new: AgentProcess, place: Place) -> dict[str, Any]:
    # Another identity than before: with the same one the server would remove the old agent from the room too early.
    account = Credentials(url=place.url, api_key=place.api_key, api_secret=place.api_secret)
    token = agent_token(account, job["room"], f"agent-{job['id']}-{new.number}", AgentPermissions())
    return {"job": job, "token": token}


def _check(answer: Message) -> None:
    match answer["is"]:
        case "died":
            raise WorkerError(f"the new code's process died with status {answer['status']}")
        case "call_failed":
            raise WorkerError(answer["error"])
        case "call_over":
            raise WorkerError("the new code left the call by itself")
