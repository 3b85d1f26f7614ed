"""Agent: instructions, tools and hooks, written by the application's author."""

from __future__ import annotations

import inspect
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from vivavoce.agents.mcp_servers import MCPServer
from vivavoce.agents.states import AgentState, UserState
from vivavoce.agents.turn.inputs import WhenBusy
from vivavoce.pipelines.core.errors import (
    ConfigurationError,
    SessionClosedError,
    SessionError,
    SessionNotStartedError,
)
from vivavoce.pipelines.llm.chat_context import ChatContext
from vivavoce.pipelines.llm.tools import Tool, ToolChoice, function_tool
from vivavoce.pipelines.media.frame import AudioFrame, VideoFrame

if TYPE_CHECKING:
    from collections.abc import Generator

    from vivavoce.pipelines.pipeline import Pipeline


class Speech(Protocol):
    """What an agent's code needs of a SpeechHandle."""

    @property
    def outcome(self) -> Any: ...
    @property
    def interrupted(self) -> bool: ...
    @property
    def interruptible(self) -> bool: ...
    @property
    def heard_text(self) -> str: ...
    def interrupt(self, *, force: bool = False) -> None: ...
    def disallow_interruptions(self) -> None: ...
    def __await__(self) -> Generator[Any, Any, None]: ...


class AgentChange(Protocol):
    """What an agent's code needs of a Handoff, or of a PipelineChange."""

    @property
    def outcome(self) -> Any: ...
    def __await__(self) -> Generator[Any, Any, None]: ...


class Session(Protocol):
    """What an agent's code needs of its AgentSession."""

    @property
    def id(self) -> str: ...
    @property
    def agent(self) -> Agent: ...
    @property
    def pipeline(self) -> Pipeline: ...
    @property
    def userdata(self) -> Any: ...
    @property
    def history(self) -> Any: ...
    @property
    def turns(self) -> Any: ...
    @property
    def usage(self) -> Any: ...
    @property
    def user_state(self) -> UserState: ...
    @property
    def agent_state(self) -> AgentState: ...
    @property
    def current_speech(self) -> Speech | None: ...
    @property
    def conversation_flow(self) -> Any: ...
    @property
    def input(self) -> Any: ...
    @property
    def wake_up_timer(self) -> Any: ...
    @property
    def on_wake_up(self) -> Callable[..., Any] | None: ...
    @on_wake_up.setter
    def on_wake_up(self, callback: Callable[..., Any] | None) -> None: ...
    def say(
        self,
        text: str | AsyncIterator[str],
        *,
        audio: AudioFrame | AsyncIterator[AudioFrame] | str | os.PathLike[str] | None = None,
        interruptible: bool = True,
        add_to_history: bool = True,
        priority: int = 0,
        when_busy: WhenBusy = "queue",
    ) -> Speech: ...
    def reply(
        self,
        instructions: str,
        wait_for_playback: bool = True,
        *,
        interruptible: bool = True,
        frames: Sequence[VideoFrame] | None = None,
        tool_choice: ToolChoice | None = None,
        priority: int = 0,
        when_busy: WhenBusy = "discard",
    ) -> Speech: ...
    def interrupt(self, *, force: bool = False) -> Awaitable[None]: ...
    def update_agent(self, agent: Agent) -> AgentChange: ...
    def change_pipeline(self, pipeline: Pipeline, *, within: float = 60.0) -> AgentChange: ...
    def set_conversation_flow(self, flow: Any) -> None: ...
    def play_background_audio(self, source: Any) -> None: ...
    def stop_background_audio(self) -> None: ...
    def snapshot(self) -> dict[str, Any]: ...
    def on(self, event: Any, handler: Any) -> Any: ...
    def once(self, event: Any, handler: Any) -> Any: ...
    def off(self, event: Any, handler: Any) -> None: ...
    async def close(self) -> Any: ...
    async def leave(self) -> Any: ...


class StopResponse(Exception):  # noqa: N818 - a signal, named as the field does
    """Raised in `on_user_turn_completed` to drop the turn: no item in the history, no answer."""


@dataclass(slots=True)
class CompletedTurn:
    """A user turn that has just been committed. The hook may change `text` and add `instructions`.

    Args:
        text: What the user said; a changed text replaces it in the history.
        instructions: Given to the model for this answer only, such as passages that were looked up.
        history: The conversation, the turn's message included; a copy.
    """

    turn_id: str
    text: str = field(repr=False)
    history: ChatContext
    instructions: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class EmptyReply:
    """The model, or the conversation flow, had nothing to say where an answer was due.

    Args:
        text: What the user had said; empty where the agent was to speak by itself.
        tools: Those that the reply called before; one may have said all there was to say.
    """

    turn_id: str
    text: str = field(repr=False)
    tools: tuple[str, ...] = ()


class Agent:
    """Who talks to the caller. Subclass it, give it tools and hooks.

    Args:
        instructions: What the model is told to be and do.
        tools: Functions beside the methods marked with `function_tool`.
        mcp_servers: Servers with further tools, connected while the agent is in a session.
        id: For records; the class's name by default.
    Raises:
        ConfigurationError: Two tools have one name, a tool's parameters cannot be told to a model, an audio hook is
            async, or a server is none.
    """

    def __init__(
        self,
        instructions: str,
        *,
        tools: Sequence[Tool[..., Any] | Callable[..., Any]] = (),
        mcp_servers: Sequence[MCPServer] = (),
        id: str | None = None,
    ) -> None:
        self.instructions = instructions
        self.id = id or type(self).__name__
        self._session: Session | None = None
        self._was_in_session = False
        for hook in ("on_speech_in", "on_speech_out"):
            if inspect.iscoroutinefunction(getattr(self, hook)):
                raise ConfigurationError(
                    f"{type(self).__name__}.{hook} is called on the audio path and must be sync, got an async one; "
                    "let it put the frame into a queue that a task of yours reads"
                )
        self.hears = self.overrides("on_speech_in")
        self.is_heard = self.overrides("on_speech_out")
        """Whether the subclass observes audio, so that those that do not pay nothing."""
        found = [getattr(self, name) for name, value in _class_attributes(type(self)) if isinstance(value, Tool)]
        found += [tool if isinstance(tool, Tool) else function_tool(tool) for tool in tools]
        names = [tool.name for tool in found]
        if len(set(names)) < len(names):
            double = sorted({name for name in names if names.count(name) > 1})
            raise ConfigurationError(f"tools of one agent need names of their own, got {double!r} twice")
        for tool in found:
            tool.check()
        for server in mcp_servers:
            if not isinstance(server, MCPServer):
                raise ConfigurationError(
                    f"mcp_servers needs MCPServerStdio(...) or MCPServerHTTP(...), got a {type(server).__name__}"
                )
        self.mcp_servers = tuple(mcp_servers)
        self._own_tools = tuple(found)
        self._tools = self._own_tools

    @property
    def tools(self) -> tuple[Tool[..., Any], ...]:
        """All tools of this agent; in a session also those of its MCP servers."""
        return self._tools

    @property
    def server_tools(self) -> tuple[Tool[..., Any], ...]:
        """Those of them that its connected MCP servers bring."""
        return self._tools[len(self._own_tools) :]

    def take_server_tools(self, tools: Sequence[Tool[..., Any]]) -> None:
        """Called by the session: these are the tools of the connected MCP servers."""
        self._tools = (*self._own_tools, *tools)

    @property
    def session(self) -> Session:
        """The session that this agent is in.

        Raises:
            SessionNotStartedError: It is in none.
            SessionClosedError: It is in it no more, such as in a sync tool that outlives the session.
        """
        if self._session is None and self._was_in_session:
            raise SessionClosedError(
                f"agent {self.id!r} is in its session no more: that closed, or went to another agent"
            )
        if self._session is None:
            raise SessionNotStartedError(f"agent {self.id!r} is in no session; use it in an AgentSession and start()")
        return self._session

    def attach(self, session: Session) -> None:
        """For the session: the agent is to be part of it, and stays so until the session has closed.

        Raises:
            SessionError: It is in another session.
        """
        if self._session is not None and self._session is not session:
            raise SessionError(
                f"agent {self.id!r} is in session {self._session.id!r}; an agent serves one session at a time, "
                "make one for each session"
            )
        self._session = session

    def detach(self, session: Session) -> None:
        """For the session: it needs the agent no more."""
        if self._session is session:
            self._session, self._was_in_session = None, True

    async def on_enter(self) -> None:
        """The agent takes the conversation over; a good place for a greeting."""

    async def on_exit(self) -> None:
        """The agent gives the conversation up, or the session closes; it may still `say`."""

    async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
        """A user turn was committed and will be answered; edit it, add to it, or raise `StopResponse`."""

    async def on_empty_reply(self, reply: EmptyReply) -> None:
        """The model's answer was empty, which is silence to the caller; a good place for "Pardon?".

        It runs beside the conversation, within `hook_timeout` (speech apart), and may `say` and await it.
        """

    def on_speech_in(self, frame: AudioFrame) -> None:
        """20 ms of the caller, as the pipeline gets them. On the audio path: must not block."""

    def on_speech_out(self, frame: AudioFrame) -> None:
        """A frame as it is written to the room. On the audio path: must not block."""

    async def cleanup(self) -> None:
        """The session is over; free what the agent holds."""

    def overrides(
        self, hook: Literal["on_empty_reply", "on_speech_in", "on_speech_out", "on_user_turn_completed"]
    ) -> bool:
        """Tell whether a subclass has its own `hook`, so that those of others cost nothing."""
        return getattr(type(self), hook) is not getattr(Agent, hook)


def _class_attributes(cls: type) -> list[tuple[str, object]]:
    seen: dict[str, object] = {}
    for base in reversed(cls.__mro__):
        seen.update(vars(base))
    return list(seen.items())
