"""Extension: a part that an application adds to sessions. Attached: its part of one session. Host: that session."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeAlias

from vivavoce.agents.core.context import Additions, SessionContext
from vivavoce.agents.core.speech_handle import SpeechHandle
from vivavoce.agents.history.history import HistoryControl
from vivavoce.agents.states import CloseReason
from vivavoce.agents.turn.inputs import InterruptRequested, TextReceived

if TYPE_CHECKING:
    from vivavoce.agents.agent import Agent
    from vivavoce.agents.extension.turn_in_hand import TurnInHand
    from vivavoce.agents.extension.withheld_speech import WithheldSpeech
    from vivavoce.agents.records import StageOwner, TurnRecord
    from vivavoce.agents.turn.trace.record import TraceStep
    from vivavoce.pipelines.io import Transport
    from vivavoce.pipelines.llm.tools import ToolCall
    from vivavoce.pipelines.pipeline import Pipeline

Judges = Literal["nothing", "words", "turn"]
"""What an extension must know before an answer begins: nothing, so that answers may be begun ahead; the words, which
may still change; or the whole turn, so that none is begun ahead."""
RecordStep: TypeAlias = "Callable[[TraceStep], None]"
"""Takes a step of a machine; it only enqueues the step."""
CloseAfter = Literal["tools", "on_exit", "handlers", "history"]
"""The step of the close behind which an extension is closed."""


class Attached:
    """The part that an extension has in one session. Each method does nothing by default."""

    face: object = None
    """The object that an application gets by `session.extension(Kind)`."""
    turn_limit: float | None = None
    """Seconds for `on_turn` and `on_tool_result`, without the speech that they ask for; None for `hook_timeout`."""
    stage: tuple[str, StageOwner] | None = None
    """Name of the wait for `on_turn` in the turn's record, and the part that could make it shorter; None for the key
    and `user_code`."""
    close_after: CloseAfter = "handlers"

    @property
    def judges(self) -> Judges:
        """What it must know before an answer begins, now."""
        return "nothing" if type(self).on_turn is Attached.on_turn else "turn"

    @property
    def lost_writes(self) -> int:
        """The number of its own writes that were not made, for the report of the close."""
        return 0

    # --- the start

    def check(self, agent: Agent, pipeline: Pipeline) -> None:
        """Check that agent and pipeline fit. Called in the constructor, and for each agent or pipeline that is to
        replace them.

        Raises:
            ConfigurationError, CapabilityError: They do not.
        """

    def restore(self, data: Any) -> None:
        """Continue with the data of a snapshot; called before `open`."""

    def open(self) -> Awaitable[None] | None:
        """Open what the part needs, before the room is joined. An error fails the start.

        Returns:
            An awaitable, if there is something to wait for: `open` may be an `async def`.
        """
        return None

    def link(self, transport: Transport) -> None:
        """Take the transport; the session takes no inputs yet. Any error but the one below is an `error` event.

        Raises:
            ConfigurationError: The transport lacks something, which fails the start.
        """

    async def begin(self) -> None:
        """Begin to work: all parts of the session run, and `on_enter` comes next. An error fails the start."""

    def entered(self) -> None:
        """Note that `on_enter` is over."""

    # --- turns and tools

    async def on_turn(self, turn: TurnInHand) -> None:
        """Look at a turn before its answer. An error is one `error` event, and the turn goes on.

        It is cancelled when the turn is taken back, before `undo`, and when the close begins.

        A turn that is ahead (`TurnInHand.is_ahead`) comes only while `judges` is "words", and in a task of the answer
        that is begun ahead. It does not come again when it is over, if its words are the same.
        """

    def undo(self, turn: TurnInHand) -> None:
        """Take back the effect of a turn: the caller went on speaking, or its answer was withdrawn before it was heard.

        `on_turn` has ended by then. It gets no other turn before this call, unless `on_turn` ignores its cancellation.
        """

    async def on_tool_result(self, call: ToolCall, output: str) -> bool:
        """Look at the result of a tool before a model gets it; return whether that was the answer to it."""
        return False

    def turn_over(self, record: TurnRecord) -> None:
        """Note the end of a turn, or of a speech without one. An error here, in `undo` or in `end` is one `error`
        event."""

    # --- snapshots

    def take(self) -> Callable[[], Any] | None:
        """Take the state as it is now, for a snapshot; the returned call makes its JSON data, from any thread.

        Data that are not JSON are one `error` event; the snapshot then has no data of this extension.
        """
        return None

    def check_taken(self, data: Any) -> None:
        """Check that `restore` can take that data.

        Raises:
            ConfigurationError: It cannot.
        """

    # --- the close

    def end(self) -> None:
        """Stop taking anything: the close begins."""

    @property
    def has_work(self) -> bool:
        """Whether `aclose` is a step of the close now."""
        return type(self).aclose is not Attached.aclose

    async def aclose(self) -> None:
        """Close what is open, as a step of the close."""

    def release(self) -> None:
        """Free objects that sessions share: the session is over."""


class CallEnd(Protocol):
    """The speeches of a call, and its end."""

    @property
    def handles(self) -> list[SpeechHandle]: ...

    async def heard(self, before: Sequence[SpeechHandle]) -> None: ...

    def end_call(self, reason: CloseReason) -> None: ...


class Keeper(Protocol):
    """Keeps the conversation outside of the session."""

    def changed(self) -> None: ...

    async def kept(self, limit: float) -> None: ...


class Others(Protocol):
    """All extensions of the session, as the host of one of them knows them."""

    def of(self, kind: type[Extension]) -> Attached | None: ...

    def add_to_agent(self, key: str, additions: Additions) -> None: ...

    @property
    def withheld_speech(self) -> WithheldSpeech: ...

    @property
    def call_end(self) -> CallEnd: ...

    def changed(self) -> None: ...

    async def kept(self, limit: float) -> None: ...


class Host:
    """Given to an extension's `attach`.

    Args:
        context: Of the session: its clock, task group, events, errors, and the runs of application code.
        history: Of the conversation.
        hook_timeout: Seconds for one run of the application's code (`SpeechLimits.hook_timeout`).
        record: Writes a step of a machine into the session's trace; None without a trace.
    """

    def __init__(
        self,
        key: str,
        context: SessionContext,
        history: HistoryControl,
        others: Others,
        *,
        hook_timeout: float,
        record: RecordStep | None = None,
    ) -> None:
        self._key = key
        self.context = context
        self.history = history
        self.hook_timeout = hook_timeout
        self.record = record
        self._others = others

    def attached(self, kind: type[Extension]) -> Attached | None:
        """Return the part of another extension, which comes before this one in the session, or None if it has none.

        The part of exactly this class comes first, else the first of a subclass.
        """
        return self._others.of(kind)

    # --- the agent

    def add_to_agent(self, additions: Additions) -> None:
        """Give the agent these instructions and tools, in place of the ones that this extension gave it before.

        A tool replaces the agent's of the same name. Of two extensions' tools with one name, the first is taken.

        Raises:
            ConfigurationError: Two of the tools have one name.
        """
        self._others.add_to_agent(self._key, additions)

    # --- speech

    def say(self, text: str | AsyncIterator[str], *, interruptible: bool = True, priority: int = 0) -> SpeechHandle:
        """Speak, as `session.say()`.

        Raises:
            VoiceError: The session cannot speak now, or has no voice.
        """
        self.context.check_open()
        return self.context.session.say(text, interruptible=interruptible, priority=priority)

    def speeches(self) -> list[SpeechHandle]:
        """Return the speeches that are not over.

        Raises:
            SessionNotStartedError: It was called in `attach`, as of `heard` and `hang_up`.
        """
        return self._others.call_end.handles

    async def heard(self, speeches: Sequence[SpeechHandle]) -> None:
        """Wait until the caller has heard them.

        Raises:
            SessionNotStartedError: The session is not in its room yet.
        """
        await self._others.call_end.heard(speeches)

    def interrupt(self, *, force: bool = False) -> None:
        """Stop the agent's speech, as `session.interrupt()`."""
        self.context.inbox.post(InterruptRequested(force=force))

    def withhold_speech(self, is_withheld: bool) -> None:
        """Let no speech of the agent begin from now on, or let each begin again, in its order.

        A speech that has begun goes on. Speech that waits meanwhile is not cut by the caller's words. Speech is
        withheld as long as any extension withholds it, until the close begins.
        """
        self._others.withheld_speech.note(self._key, is_withheld)

    # --- the call

    def take_text(self, text: str) -> None:
        """Take a text as a turn of the user."""
        self.context.inbox.post(TextReceived(text))

    def hang_up(self, reason: CloseReason) -> None:
        """Disconnect the caller at once and close the session, for that reason. If disconnecting fails, only close."""
        self._others.call_end.end_call(reason)

    def changed(self) -> None:
        """Have the conversation stored for a crash, since the state of the extension has changed outside of a turn."""
        self._others.changed()

    async def kept(self, limit: float) -> None:
        """Wait until the conversation is stored with all that `changed()` has noted: for so many seconds at most, for
        each of its stores.

        It returns at once in a session without a store. A store that is late or fails is one `error` event, and nothing
        waits for it until it has written again.
        """
        await self._others.kept(limit)


class Extension(ABC):
    """A part that an application adds to sessions: an immutable value that sessions may share.

    Give it by `SessionOptions(extensions=(…,))`. How it is called: `vivavoce.agents.extension`.
    """

    key: ClassVar[str]
    """Its name in snapshots, in the steps of start and close, and as the source of `error` events; no other part of a
    session has it (`vivavoce.agents.extension.keys`)."""

    @abstractmethod
    def attach(self, host: Host) -> Attached:
        """Make the part for one session, in the session's constructor; nothing runs yet.

        Raises:
            ConfigurationError: It does not fit the session.
        """
