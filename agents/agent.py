"""Agent: instructions, tools and hooks, written by the application's author."""

from __future__ import annotations

import inspect
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias, get_args

from vivavoce.agents.mcp_servers import MCPServer
from vivavoce.agents.session_type import Session
from vivavoce.agents.streams import Stream, StreamItem
from vivavoce.agents.turn.options import EndpointingOptions, InterruptionOptions
from vivavoce.pipelines.core.checks import check_instance, check_items, check_overrides, check_text, control_of, shown
from vivavoce.pipelines.core.errors import ConfigurationError, SessionClosedError, SessionError, SessionNotStartedError
from vivavoce.pipelines.events import UserFinal, UserInterim
from vivavoce.pipelines.llm.base import GenerateRequest, LLMEvent
from vivavoce.pipelines.llm.chat_context import ChatContext
from vivavoce.pipelines.llm.context_window import ContextPolicy
from vivavoce.pipelines.llm.tools import Tool, check_class_attribute
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.speech import ComponentSet
from vivavoce.pipelines.tts.base import AudioChunk

logger = logging.getLogger(__name__)

Hook = Literal[
    "llm_stage",
    "on_empty_reply",
    "on_speech_in",
    "on_speech_out",
    "on_stream",
    "on_user_turn_completed",
    "stt_stage",
    "tts_stage",
]
"""The hooks that a session looks for in an agent's class before it calls them."""

_HOOKS = (*get_args(Hook), "cleanup", "on_enter", "on_exit")
_STAGES = {
    "stt_node": "stt_stage",
    "llm_node": "llm_stage",
    "tts_node": "tts_stage",
    "transcription_node": "",
    "realtime_audio_output_node": "llm_stage",
}
"""LiveKit's name of a method → the stage here that can do the same; empty if none can."""

Generate: TypeAlias = Callable[[GenerateRequest], AsyncIterator[LLMEvent | AudioChunk]]
"""The model of a pipeline, for `Agent.llm_stage`."""
Speak: TypeAlias = Callable[[str | AsyncIterator[str]], AsyncIterator[AudioChunk]]
"""The voice of a pipeline, for `Agent.tts_stage`."""


class StopResponse(Exception):  # noqa: N818 - a signal, named as the field does
    """Raised in `on_user_turn_completed` to give the turn no answer.

    Args:
        is_taken: Whether the agent has used the turn: its words stay in the history, and its outcome is `completed`.
            Otherwise it is dropped: no item in the history, outcome `discarded`.
    """

    def __init__(self, *args: object, is_taken: bool = False) -> None:
        super().__init__(*args)
        check_instance("is_taken", is_taken, bool)
        self.is_taken = is_taken


@dataclass(slots=True)
class CompletedTurn:
    """A user turn that has just been committed. The hook may change `text` and add `instructions`.

    Args:
        text: The user's words; a changed text replaces them in the history.
        instructions: Instructions for this answer only, for example passages that were looked up.
        history: The conversation, the turn's message included; a copy.
    """

    turn_id: str
    text: str = field(repr=False)
    history: ChatContext
    instructions: str = field(default="", repr=False)

    def __setattr__(self, name: str, value: object) -> None:
        """Set an attribute.

        Raises:
            ConfigurationError: `text` or `instructions` is set to something other than a str.
        """
        if name in ("text", "instructions"):
            value = check_text(f"turn.{name}", value)
        object.__setattr__(self, name, value)


@dataclass(frozen=True, slots=True)
class EmptyReply:
    """The model, or the conversation flow, gave no words for an answer that was due.

    Args:
        text: The user's words; empty if the agent was to speak by itself.
        tools: Tools that the reply called before; the preamble of one may have been the whole answer.
    """

    turn_id: str
    text: str = field(repr=False)
    tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentUpdate:
    """A change of an agent that is in a session.

    Args:
        instructions: The new ones; None if they did not change.
        tools_added, tools_removed: Names; a name whose tool has been replaced is in both.
    """

    instructions: str | None = field(default=None, repr=False)
    tools_added: tuple[str, ...] = ()
    tools_removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOverrides(ComponentSet):
    """Components and turn-taking of an agent, which hold while it has the conversation.

    They replace those of the pipeline and the session. They take over in the handoff to the agent, after the other
    agent's `on_exit` and before its own `on_enter`; in the handoff from it pipeline and session get their own back.
    Components that hear the caller, such as an stt, are opened when the handoff is asked for: it begins once they are
    open, and until then the agent before it answers the caller. The code that made a component closes it, when the
    session is over.

    Args:
        stt, llm, tts, vad, denoise, turn_detector: None: the pipeline's own.
        endpointing: When a pause ends the caller's turn. It holds for a turn that is open at the handoff too; only mode
            `manual` begins with the next turn. It replaces the session's as a whole; a changed copy of those is
            `replace(options.endpointing, min_delay=1.0)`. None: the session's.
        interruption: When the caller's speech takes the floor from the agent; likewise.
        context: Chooses the part of the earlier conversation that the agent's model gets: a function, also an async
            one, of a `ChatContext`, called in the handoff. `ContextWindow(max_items=10)` cuts it, `SummaryWindow(...)`
            summarises it, `lambda context: ChatContext()` drops it. None: all of it. `session.history` stays whole.
            If it fails, that is an `error` event, and the agent gets all of it.
    """

    endpointing: EndpointingOptions | None = None
    interruption: InterruptionOptions | None = None
    context: ContextPolicy | None = None

    def __post_init__(self) -> None:
        ComponentSet.__post_init__(self)
        check_instance("endpointing", self.endpointing, EndpointingOptions, or_none=True)
        check_instance("interruption", self.interruption, InterruptionOptions, or_none=True)
        if self.context is not None and not callable(self.context):
            raise ConfigurationError(f"context must be a function of a ChatContext, got {shown(self.context)}")


class Agent:
    """The side of a conversation that talks to the caller. Subclass it, give it tools and hooks.

    Args:
        instructions: The model's instructions: its role and its rules.
        tools: Functions beside the methods marked with `function_tool`.
        mcp_servers: Servers with further tools, connected while the agent is in a session.
        overrides: Components, turn-taking, and a view of the conversation, of its own.
        id: For records; the class's name by default.
    Raises:
        ConfigurationError: An argument has the wrong type, two tools have one name, a tool's parameters cannot be
            described to a model, or an audio hook is async. A subclass with a hook that cannot take its arguments is
            refused where the class is written.
    """

    takes_keys: ClassVar[bool] = False
    """Whether it handles `key_pressed` itself: `session.telephony` then makes no entry of the keys."""
    _is_task: ClassVar[bool] = False  # whether it is an `AgentTask`, which gives the conversation back

    def __init_subclass__(cls, **named: Any) -> None:
        """Check hooks and tools of a class, once; a method that is named as a stage of LiveKit is a warning.

        Raises:
            ConfigurationError: A hook cannot take the arguments that a session gives it, or a tool has no `self` or is
                hidden by a decorator.
        """
        super().__init_subclass__(**named)
        check_overrides(cls, Agent, _HOOKS)
        for name, value in _class_attributes(cls):
            check_class_attribute(cls, name, value)
        if "__dataclass_fields__" in vars(cls):  # made once more by dataclass(slots=True)
            return
        for name in sorted(_STAGES.keys() & vars(cls)):
            remedy = "there is no stage that changes captions only"
            if stage := _STAGES[name]:
                parameters = ", ".join(inspect.signature(getattr(Agent, stage)).parameters)
                remedy = f"the hook of that stage is {stage}({parameters})"
            logger.warning("The session does not call %s.%s; %s", cls.__name__, name, remedy)

    def __init__(
        self,
        instructions: str,
        *,
        tools: Sequence[Tool[..., Any] | Callable[..., Any]] = (),
        mcp_servers: Sequence[MCPServer] = (),
        overrides: AgentOverrides | None = None,
        id: str | None = None,
    ) -> None:
        self._instructions = check_text("instructions", instructions)
        if id is not None and not check_text("id", id):
            raise ConfigurationError("need id as a name or None, got ''")
        self.id = id or type(self).__name__
        for hook in ("on_speech_in", "on_speech_out"):
            if inspect.iscoroutinefunction(getattr(self, hook)):
                raise ConfigurationError(
                    f"{type(self).__name__}.{hook} is called on the audio path and must be sync, got an async one; "
                    "let it put the frame into a queue that a task of yours reads"
                )
        methods = [getattr(self, name) for name, value in _class_attributes(type(self)) if isinstance(value, Tool)]
        self._own_tools = _checked_tools([*methods, *_listed(tools)])
        remedy = "such as MCPServerStdio(...) or MCPServerHTTP(...)"
        self.mcp_servers = check_items(
            "mcp_servers", mcp_servers, MCPServer, remedy=remedy, show=lambda given: f"a {type(given).__name__}"
        )
        check_instance("overrides", overrides, AgentOverrides, or_none=True)
        self.overrides = overrides or AgentOverrides()
        self._control = AgentControl(self)

    @property
    def instructions(self) -> str:
        """The model's instructions: its role and its rules. Assigning them is `update_instructions()`."""
        return self._instructions

    @instructions.setter
    def instructions(self, instructions: str) -> None:
        self.update_instructions(instructions)

    def update_instructions(self, instructions: str) -> None:
        """Change the model's instructions from its next step on; its present answer continues.

        A realtime model receives them at once, also if its server decides turns. Works before and in a session, and
        from any thread. While the agent has the conversation, the history records the change (`ConfigChange`).

        Raises:
            ConfigurationError: They are no str.
        """
        instructions, old = check_text("instructions", instructions), self._instructions
        self._instructions = instructions
        if instructions != old:
            self._control.report_update(AgentUpdate(instructions=instructions))

    def update_tools(self, tools: Sequence[Tool[..., Any] | Callable[..., Any]]) -> None:
        """Let the model call these tools, and no others, from its next step on; running calls continue.

        They replace the methods marked with `function_tool` too: `agent.update_tools([*agent.tools, more])` adds one.
        Tools of MCP servers stay in any case. A realtime model receives the change at once, as with instructions.

        Raises:
            ConfigurationError: As in the constructor; the agent keeps its tools.
        """
        own = _checked_tools([tool for tool in _listed(tools) if tool not in self._control.server_tools])
        if self._control.is_in_session:
            for tool in own:
                tool.prepare()
        old, self._own_tools = self._own_tools, own
        if own != old:
            before, after = {tool.name: tool for tool in old}, {tool.name: tool for tool in own}
            added = tuple(name for name, tool in after.items() if before.get(name) is not tool)
            removed = tuple(name for name, tool in before.items() if after.get(name) is not tool)
            self._control.report_update(AgentUpdate(tools_added=added, tools_removed=removed))

    @property
    def tools(self) -> tuple[Tool[..., Any], ...]:
        """All tools of this agent; in a session also those of its MCP servers."""
        return (*self._own_tools, *self.server_tools)

    @property
    def server_tools(self) -> tuple[Tool[..., Any], ...]:
        """The tools of its connected MCP servers, except those with the name of one of its own tools."""
        own = {tool.name for tool in self._own_tools}
        return tuple(tool for tool in self._control.server_tools if tool.name not in own)

    @property
    def session(self) -> Session:
        """The session that this agent is in.

        Raises:
            SessionNotStartedError: It is in none.
            SessionClosedError: It has left its session, for example in a sync tool that outlives the session.
        """
        return self._control.session

    async def on_enter(self) -> None:
        """The agent takes the conversation over; a good place for a greeting."""

    async def on_exit(self) -> None:
        """The agent hands the conversation over, or the session closes; it may still `say`."""

    async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
        """A user turn was committed and will be answered; edit it, add to it, or raise `StopResponse`."""

    async def on_empty_reply(self, reply: EmptyReply) -> None:
        """The model's answer was empty, which is silence to the caller; a good place for "Pardon?".

        It runs beside the conversation, within `hook_timeout` (speech apart), and may `say` and await it.
        """

    async def on_stream(self, stream: Stream, item: StreamItem) -> None:
        """An item of a stream that matches the agent's tags (`memory.add_agent`); one after the other.

        It runs beside the conversation, within `hook_timeout` (its speech apart), and may `say` and await it. If it
        fails, that is an `error` event, and the next item comes. The stream's end is its last item (`item.is_end`).
        """

    async def stt_stage(
        self, transcripts: AsyncIterator[UserFinal | UserInterim]
    ) -> AsyncGenerator[UserFinal | UserInterim, None]:
        """Change the caller's transcripts: an async generator that reads them and yields those that the session takes.

        It may change words (`dataclasses.replace(transcript, text=…)`), leave a transcript out, or add one. One that it
        keeps for longer than `SpeechLimits.stt_stage`, or has when it raises, goes on unchanged.
        """
        async for transcript in transcripts:
            yield transcript

    async def llm_stage(
        self, request: GenerateRequest, generate: Generate
    ) -> AsyncGenerator[LLMEvent | AudioChunk | str, None]:
        """Change a model step: an async generator that asks the model by `generate(request)` and yields its events.

        It may change the request (`dataclasses.replace(request, extra_instructions=…)`), the events, or answer without
        the model; text may be yielded as `str`. The history and the voice get its text. An answer that a realtime
        model's server began is there already: changes of its request have no effect. A realtime model's audio is not
        changed by its text. One answer takes at most 100,000 characters, about two hours of speech.
        """
        async for event in generate(request):
            yield event

    async def tts_stage(self, text: AsyncIterator[str], speak: Speak) -> AsyncGenerator[AudioChunk, None]:
        """Change the voice: an async generator that has the text spoken by `speak(text)` and yields its audio.

        It may change the text, such as by tags or spellings for the voice, or the audio. The history keeps the text of
        the model. It does not get the audio that a realtime model makes itself.
        """
        async for chunk in speak(text):
            yield chunk

    def on_speech_in(self, frame: AudioFrame) -> None:
        """20 ms of the caller, as the pipeline receives them. On the audio path, in no task: must not block."""

    def on_speech_out(self, frame: AudioFrame) -> None:
        """A frame written to the room. On the audio path, in no task: must not block."""

    async def cleanup(self) -> None:
        """The session is over; release the agent's resources."""


class Membership:
    """The session that an object of the application serves: one at a time.

    Args:
        kind: "agent" or "flow", for messages.
        name: Returns the object's name, for messages.
    """

    def __init__(self, kind: str, name: Callable[[], str]) -> None:
        self._kind = kind
        self._name = name
        self._session: Session | None = None
        self._was_in_session = False

    @property
    def is_in_session(self) -> bool:
        """Whether it serves a session now."""
        return self._session is not None

    @property
    def session(self) -> Session:
        """The session that it serves.

        Raises:
            SessionNotStartedError: It has served none.
            SessionClosedError: Its session is over.
        """
        if self._session is not None:
            return self._session
        if self._was_in_session:
            raise SessionClosedError(
                f"{self._name()} is no longer in its session: the session closed or has another {self._kind}"
            )
        raise SessionNotStartedError(f"{self._name()} is in no session; give it to an AgentSession and start() that")

    def attach(self, session: Session) -> None:
        """Let it serve `session` until `detach()`.

        Raises:
            SessionError: It serves another session.
        """
        if self._session is not None and self._session is not session:
            raise SessionError(
                f"{self._name()} is in session {self._session.id!r}; one {self._kind} serves one session at a time, "
                "make one for each session"
            )
        self._session = session

    def detach(self, session: Session) -> None:
        """Free it for another session, if it serves this one."""
        if self._session is session:
            self._session, self._was_in_session = None, True


class AgentControl(Membership):
    """The session's side of an agent: its session, the tools of its servers, who receives its updates."""

    def __init__(self, agent: Agent) -> None:
        super().__init__("agent", lambda: f"agent {agent.id!r}")
        self._agent = agent
        self._on_update: Callable[[AgentUpdate], None] | None = None
        self.server_tools: tuple[Tool[..., Any], ...] = ()

    @staticmethod
    def of(agent: Agent) -> AgentControl:
        """Return the control of that agent.

        Raises:
            ConfigurationError: Its class does not call the constructor of `Agent`.
        """
        return control_of(agent, "_control", AgentControl, "instructions")

    def attach(self, session: Session, on_update: Callable[[AgentUpdate], None] | None = None) -> None:
        """Let the agent serve `session` until `detach()`.

        Args:
            on_update: Receives changes of its instructions and tools, in any thread.
        Raises:
            SessionError: It serves another session.
        """
        super().attach(session)
        self._on_update = on_update or self._on_update

    def detach(self, session: Session) -> None:
        """Free the agent for another session, if it serves this one."""
        if self.is_in_session and self.session is session:
            self._on_update = None
        super().detach(session)

    def report_update(self, update: AgentUpdate) -> None:
        """Report a change of the agent to its session, if it serves one."""
        if self._on_update is not None:
            self._on_update(update)

    @property
    def is_task(self) -> bool:
        """Whether the agent is an `AgentTask`."""
        return self._agent._is_task

    def set_server_tools(self, tools: Sequence[Tool[..., Any]]) -> None:
        """Set the tools of its connected MCP servers."""
        self.server_tools = tuple(tools)

    def overrides(self, hook: Hook) -> bool:
        """Return whether the agent's class has its own `hook`; a hook that it does not have costs nothing."""
        return getattr(type(self._agent), hook) is not getattr(Agent, hook)


def check_agent(agent: Agent, *, may_be_task: bool = True) -> None:
    """Refuse an object that is no agent, and a task unless it may be one.

    Raises:
        ConfigurationError: It is refused, or its class does not call the constructor of `Agent`.
    """
    if not isinstance(agent, Agent):
        raise ConfigurationError(f"agent must be an Agent, got {shown(agent)}; make one: Agent('You help.')")
    if AgentControl.of(agent).is_task and not may_be_task:
        raise ConfigurationError(f"agent must be no task, got {agent.id!r}; await the task, in a hook or a tool")


def is_default(hook: Callable[[], Awaitable[None]], default: Callable[[Agent], Awaitable[None]]) -> bool:
    """Return whether an agent's hook is the one of `Agent`, which does nothing."""
    return getattr(hook, "__func__", None) is default


def _listed(tools: object) -> list[Tool[..., Any]]:
    remedy = "give functions, or tools made by function_tool"
    found = check_items("tools", tools, object, remedy=remedy)
    return [tool if isinstance(tool, Tool) else Tool(tool) for tool in found]


def _checked_tools(tools: Sequence[Tool[..., Any]]) -> tuple[Tool[..., Any], ...]:
    names = [tool.name for tool in tools]
    if len(set(names)) < len(names):
        double = sorted({name for name in names if names.count(name) > 1})
        raise ConfigurationError(f"tools of one agent need names of their own, got {double!r} twice")
    for tool in tools:
        tool.check()
    return tuple(tools)


def _class_attributes(cls: type) -> list[tuple[str, object]]:
    seen: dict[str, object] = {}
    for base in reversed(cls.__mro__):
        seen.update(vars(base))
    return list(seen.items())
