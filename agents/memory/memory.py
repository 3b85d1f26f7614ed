"""SessionMemory: the memory of a session, in its own process or in another one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

import anyio

from vivavoce.agents.agent import Agent, AgentControl
from vivavoce.agents.memory.base import MemoryBase, attached_base
from vivavoce.agents.memory.created import created_base
from vivavoce.agents.memory.history.chat import checked_time, newest
from vivavoce.agents.memory.history.memory_history import MemoryHistory
from vivavoce.agents.memory.history.reasoning import SAVED_KINDS, ReasoningEvent, SavedKind
from vivavoce.agents.memory.namespace import Namespace
from vivavoce.agents.memory.posted_parts import PostedParts
from vivavoce.agents.memory.private import PrivateData
from vivavoce.agents.memory.session_side import SessionSide
from vivavoce.agents.memory.session_state import SessionState
from vivavoce.agents.memory.stores.store import METADATA, SessionStore
from vivavoce.agents.memory.streams.items import checked_name
from vivavoce.agents.memory.streams.registry import AgentMember
from vivavoce.agents.memory.streams.streams import Streams
from vivavoce.agents.memory.streams.tags import checked_wanted
from vivavoce.agents.replies.part import Part, check_part
from vivavoce.agents.states import CloseReason
from vivavoce.agents.streams import Stream, StreamItem
from vivavoce.pipelines.core.checks import check_choice, check_number, check_whole, shown
from vivavoce.pipelines.core.errors import ConfigurationError, StoreError

if TYPE_CHECKING:
    from vivavoce.agents.core.values import Json
    from vivavoce.pipelines.llm.chat_context import ChatMessage


class SessionMemory:
    """State that outlives the call, if the session's options name a store; other processes may share it.

    Args:
        side: The session's own parts; None in another process, which has attached itself.

    A method that reaches the store raises StoreUnavailable if that does not answer within `MemoryOptions.timeout`.
    """

    def __init__(self, base: MemoryBase, side: SessionSide | None) -> None:
        self._base = base
        self._side = side
        self._state = SessionState(base)
        self._streams = Streams(base, lambda: "") if side is None else side.streams.streams
        self._posts = PostedParts(base)
        self._history = MemoryHistory(base, None) if side is None else side.history

    def __repr__(self) -> str:
        return f"SessionMemory({self._base.id if self._base.is_open else ''!r})"

    @classmethod
    @asynccontextmanager
    async def attach(
        cls,
        store: SessionStore,
        session_id: str,
        *,
        timeout: float = 2.0,  # noqa: ASYNC109 - the limit of each call
    ) -> AsyncIterator[Self]:
        """Share the memory of a session that another process runs, or that has ended.

        Args:
            timeout: Seconds for a call to the store; then it raises StoreUnavailable.
        Raises:
            StoreError: The store has no such session.
            ConfigurationError: An argument is of another kind.
        """
        yield cls(await attached_base(store, session_id, timeout), None)

    @classmethod
    @asynccontextmanager
    async def create(
        cls,
        store: SessionStore,
        session_id: str,
        *,
        user: str = "",
        name: str = "",
        keep: float | None = None,
        timeout: float = 2.0,  # noqa: ASYNC109 - the limit of each call
    ) -> AsyncIterator[Self]:
        """Begin a session without a call, for programs whose agents have no caller; share it if it is there.

        It goes on behind the block, until `stop()`; then this call begins it again. A call may begin under its id.

        Args:
            user, name, keep: As in `MemoryOptions`.
            timeout: Seconds for a call to the store; then it raises StoreUnavailable.
        Raises:
            StoreError: The store has it as a session of another user.
            ConfigurationError: An argument is of another kind.
        """
        yield cls(await created_base(store, session_id, user=user, name=name, keep=keep, timeout=timeout), None)

    @property
    def id(self) -> str:
        """The session's id in the store; a resumed session has that of the session which it continues."""
        return self._base.id

    # --- data

    @property
    def metadata(self) -> Namespace:
        """Facts about the session. At the begin they are `created_date`, `user`, `name` and `pinned`."""
        return self._base.namespace(METADATA)

    @property
    def data(self) -> Namespace:
        """The application's values, for all agents."""
        return self._base.namespace("data")

    def agent_data(self, agent: Agent | str) -> Namespace:
        """Return the values of one agent.

        Args:
            agent: The agent, or its id.
        Raises:
            ValueError: It is none.
        """
        return self._base.namespace(f"agent:{_name('agent', agent.id if isinstance(agent, Agent) else agent)}")

    def stream_data(self, stream: Stream | str) -> Namespace:
        """Return the values of one stream.

        Args:
            stream: The stream, or its name.
        Raises:
            ValueError: It is none.
        """
        return self._base.namespace(f"stream:{_name('stream', stream.name if isinstance(stream, Stream) else stream)}")

    @property
    def private(self) -> PrivateData:
        """Values that only the session's own process has. Its snapshots carry them, also the snapshot in its store.

        Raises:
            StoreError: This is another process.
        """
        if self._side is None:
            raise StoreError("private data are in the session's own process only; share values by memory.data")
        return self._side.private

    async def to_dict(self) -> dict[str, Any]:
        """Return the memory's id, metadata and agents."""
        agents = [agent.to_json() for agent in await self.list_agents()]
        return {
            "id": self.id,
            "metadata": await self.metadata.get_all(),
            "agents": agents,
        }

    # --- agents and streams

    async def add_agent(
        self,
        agent: Agent | str,
        *,
        tags: Sequence[str | tuple[str, ...]] = (),
        exclude: Sequence[str | tuple[str, ...]] = (),
    ) -> bool:
        """Add an agent, whose `on_stream` receives the items of matching streams, old ones first.

        The hook runs in the session's own process; another one reads by `subscribe()`.

        Args:
            agent: The agent, or its id.
            tags: It gets the streams with one of these tags. A tuple stands for tags that must all match.
            exclude: The streams that it does not get, in the same form.
        Returns:
            False if the agent was there already; it is unchanged then. Remove it first to give it other tags.
        Raises:
            ConfigurationError: An argument is of another kind; or this is another process, which never calls the
                `on_stream` of that object.
            SessionError: The agent is in another session.
            StoreError: The session has ended.
        """
        if self._side is None and isinstance(agent, Agent) and AgentControl.of(agent).overrides("on_stream"):
            raise ConfigurationError(
                f"agent must be an id in an attached memory, got {shown(agent)}, whose on_stream is never called here; "
                f"add {agent.id!r} and read by subscribe(), or add the agent in the session's own process"
            )
        tags, exclude = checked_wanted("tags", tags), checked_wanted("exclude", exclude)
        side = self._side if isinstance(agent, Agent) else None
        if side is not None and isinstance(agent, Agent):
            side.streams.join(agent)
        is_new = await self._streams.add_agent(_id_of(agent), tags, exclude)
        if side is not None and isinstance(agent, Agent):
            side.streams.deliver_to(agent)
        return is_new

    async def remove_agent(self, agent: Agent | str) -> bool:
        """Remove an agent; return whether it was there. The agent with the floor stays a member, without its tags."""
        return await self._streams.remove_agent(_id_of(agent))

    async def list_agents(self) -> list[AgentMember]:
        """Return the agents; the one that has the floor is always among them."""
        return await self._streams.list_agents()

    @property
    def stream(self) -> Stream:
        """The session's own stream, with the announcements of streams and agents as control messages."""
        return self._streams.session_stream

    async def open_stream(self, name: str, *, tags: Collection[str] = ()) -> Stream:
        """Return the stream of that name; announce it if the stream or one of the tags is new.

        Raises:
            ConfigurationError: An argument is of another kind.
            StoreError: The stream would be new, and the session has ended.
        """
        return await self._streams.open(name, tags)

    async def notify(self, agent: Agent | str, stream: Stream | str, tags: Collection[str]) -> bool:
        """Announce a stream of an agent, and later new tags of it. Return whether anything was new.

        Raises:
            ConfigurationError: An argument is of another kind.
            StoreError: The session has ended.
        """
        name = stream.name if isinstance(stream, Stream) else stream
        return await self._streams.announce(name, tags, checked_name("the agent's id", _id_of(agent)))

    def subscribe(
        self,
        tags: Sequence[str | tuple[str, ...]],
        *,
        exclude: Sequence[str | tuple[str, ...]] = (),
        start: Mapping[str, int] | None = None,
    ) -> AsyncGenerator[tuple[Stream, StreamItem], None]:
        """Return an iterator of the items of all matching streams, old and new, each with its stream.

        A stream's end is its last item (`item.is_end`). The iterator ends with the session.

        Args:
            tags, exclude: As for `add_agent()`.
            start: By the name of a stream, the index of its first item to return: a reader that has kept
                `item.index + 1` of each stream goes on there after an outage. Other streams come from their beginning.
        Raises:
            ConfigurationError: An argument is of another kind, or there are no tags.
            StoreUnavailable: From the iterator: the store did not answer in time.
            StoreError: From the iterator: the session was erased.
        """
        return self._streams.subscribe(tags, exclude, start)

    async def get_stream_debug_info(self) -> dict[str, dict[str, Any]]:
        """Return `creator`, `tags` and `length` of each stream, by name."""
        return await self._streams.debug_info()

    # --- history

    async def get_chat_history(
        self, n: int | None = None, until_timestamp: float | datetime | None = None
    ) -> list[ChatMessage]:
        """Return the words of both sides that were heard, oldest first. Each has `role`, `content` and `created_at`.

        They come from all calls under the session's id, in the order of time.

        Args:
            n: The number of newest messages to return; None for all.
            until_timestamp: Only messages up to and including this time, in seconds since the Unix epoch.
        Raises:
            ConfigurationError: An argument is of another kind.
        """
        check_whole("n", n, at_least=0, or_none=True)
        until = checked_time(until_timestamp)
        return newest(await self._history.messages(), n, until)

    async def save_reasoning_event(self, kind: SavedKind, payload: Json) -> None:
        """Keep a step of the agent's reasoning. In a turn's tools and hooks it belongs to that turn's reply.

        Args:
            kind: `reasoning_step` or `task_list_update`; tool calls and their results are kept without this call.
            payload: JSON, at most 1 MiB.
        Raises:
            ConfigurationError: `kind` is not one of these.
            StoreValueError: `payload` is not JSON, or is too long.
        """
        check_choice("kind", kind, SAVED_KINDS)
        await self._history.save(kind, payload)

    async def get_reasoning_events(self, until_timestamp: float | datetime | None = None) -> list[ReasoningEvent]:
        """Return the reasoning events, tool calls and results, oldest first, each with the id of its reply's message.

        Args:
            until_timestamp: Only those up to and including this time, in seconds since the Unix epoch.
        Raises:
            ConfigurationError: `until_timestamp` is no time.
        """
        until = checked_time(until_timestamp)
        return [event for event in await self._history.events() if until is None or event.at <= until]

    async def link_pending_reasoning_events(self) -> int:
        """Link the reasoning events of the newest call outside any turn to its newest reply; return their number.

        It is 0 while that call has no reply; events of earlier calls stay as they are.
        """
        return await self._history.link_pending()

    # --- rich replies

    async def post(self, part: Part) -> str:
        """Record a part of a rich reply and show it to the caller, again when the caller has come back; return its id.

        How parts reach a page, and their answers the session: `vivavoce.agents.replies`.

        Args:
            part: `Markdown`, `Image`, `File`, `Options`, `Form` or `Data`. From another process than the session's no
                form, and images and files of at most 512 KiB.
        Raises:
            ConfigurationError: `part` is not such a part, or another process cannot post it.
            SessionClosedError: The session is closed.
        """
        checked = check_part(part)
        if self._side is None:
            return await self._posts.post_from_outside(checked)
        self._side.context.check_not_closed()
        return self._side.replies.post(checked)

    # --- life

    async def stop(self) -> None:
        """Ask the session to close; `wait()` waits for the end. Without effect if it has ended."""
        if self._side is None:
            await self._state.ask_stop(self._streams.end)
        elif not (context := self._side.context).closing.is_over:
            context.check_open()
            context.closing.request(CloseReason.USER_INITIATED)

    async def wait(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - as in Blue and BAF
        """Wait until the session has ended; return whether it has.

        In the session's own process it works as `session.wait_closed()`: code that the close waits for must not call
        it.

        Args:
            timeout: Seconds; None for no limit, 0 to look only.
        """
        check_number("timeout", timeout, at_least=0, unit="s", or_none=True)
        if timeout == 0:
            return (await self._state.read()).has_ended if self._side is None else self._side.context.closing.is_over
        with anyio.move_on_after(timeout):
            if self._side is not None:
                await self._side.context.session.wait_closed()
            else:
                await self._state.ended()
            return True
        return False


def _id_of(agent: Agent | str) -> str:
    return agent.id if isinstance(agent, Agent) else agent


def _name(kind: str, name: object) -> str:
    if not isinstance(name, str) or not name or not name.isprintable():
        raise ValueError(f"need the {kind}, or its name as printable characters, got {shown(name)}")
    return name
