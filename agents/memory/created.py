"""A session without a call: it has a memory, which programs share, and no process of its own."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial

from vivavoce.agents.core.values import decode, encode
from vivavoce.agents.memory.base import MemoryBase, given_base
from vivavoce.agents.memory.session_state import SessionState
from vivavoce.agents.memory.stores.store import METADATA, SessionStore
from vivavoce.agents.memory.streams.registry import change_registry
from vivavoce.agents.memory.streams.streams import Streams
from vivavoce.pipelines.core.checks import check_number, check_text
from vivavoce.pipelines.core.errors import StoreError


async def created_base(
    store: SessionStore,
    session_id: str,
    *,
    user: str,
    name: str,
    keep: float | None,
    timeout: float,  # noqa: ASYNC109 - the limit of each call
) -> MemoryBase:
    """Begin a session without a call, unless it is there and has not ended; return the base of its memory.

    Args:
        user, name, keep: As in `MemoryOptions`.
    Raises:
        StoreError: It is that of another user.
        ConfigurationError: An argument is of another kind.
    """
    check_text("user", user)
    check_text("name", name)
    check_number("keep", keep, above=0, unit="s", or_none=True)
    base = given_base(store, session_id, timeout)
    state = SessionState(base)
    life = await state.read()
    is_there = (life.has_begun and not life.has_ended) or await base.within(store.is_held(session_id))
    owner = await base.within(store.read(base.place(METADATA), "user"))  # behind the state: who began it has set it
    if owner is not None and decode(owner) not in ("", user):
        raise _not_owned(session_id)
    if is_there:
        return base
    created = datetime.fromtimestamp(base.clock.wall(), UTC).isoformat()
    facts = {"user": user, "name": name, "pinned": False, "created_date": created}  # by the last one it can be found
    await base.within(store.keep(session_id, keep))
    for entry, value in facts.items():
        await base.within(store.write(base.place(METADATA), entry, encode(value), nx=True))
    if not await base.within(store.change(base.place(METADATA), "user", partial(_owned, user))):
        raise _not_owned(session_id)  # another program has created it at the same time
    await change_registry(base, lambda registry: None)
    await Streams(base, lambda: "").reopen()
    await state.create()
    return base


def _owned(user: str, text: str | None) -> tuple[str, bool]:
    """Make the session that of a user, unless it is that of another one: a `Change`."""
    owner = "" if text is None else decode(text)
    return encode(owner or user), owner in ("", user)


def _not_owned(session_id: str) -> StoreError:
    return StoreError(
        f"the session {session_id!r} is that of another user; take another id, or erase it before: "
        f"await store.delete({session_id!r})"
    )
