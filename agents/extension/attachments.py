"""Attachments: the extensions of one session, and the calls to them in their order."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

from vivavoce.agents.core.application_code import application_code
from vivavoce.agents.core.context import NO_ADDITIONS, Additions, SessionContext
from vivavoce.agents.extension.extension import (
    Attached,
    CallEnd,
    CloseAfter,
    Extension,
    Host,
    Judges,
    Keeper,
    RecordStep,
)
from vivavoce.agents.extension.given import (
    check_json,
    close_after_of,
    judges_of,
    lost_writes_of,
    stage_of,
    turn_limit_of,
)
from vivavoce.agents.extension.keys import BUILT_IN
from vivavoce.agents.extension.turn_in_hand import TurnInHand
from vivavoce.agents.extension.withheld_speech import WithheldSpeech
from vivavoce.agents.history.history import HistoryControl
from vivavoce.pipelines.core.checks import shown
from vivavoce.pipelines.core.errors import ConfigurationError, SessionNotStartedError, VoiceError, describe
from vivavoce.pipelines.core.owned_call import UNWIND_LIMIT

if TYPE_CHECKING:
    from vivavoce.agents.agent import Agent
    from vivavoce.agents.core.speech_handle import SpeechHandle
    from vivavoce.agents.records import TurnRecord
    from vivavoce.pipelines.io import Transport
    from vivavoce.pipelines.llm.tools import Tool, ToolCall
    from vivavoce.pipelines.pipeline import Pipeline

logger = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Part:
    """An extension and its part of the session."""

    kind: type[Extension]
    key: str
    attached: Attached


class Attachments:
    """The extensions of one session.

    Args:
        extensions: In their order.
        limit: Seconds for `on_turn` and `on_tool_result` of an extension without a limit of its own.
        record: Writes a step of a machine into the session's trace; None without a trace.
    Raises:
        ConfigurationError: Two extensions have one key, or one does not fit the session.
    """

    def __init__(
        self,
        context: SessionContext,
        history: HistoryControl,
        extensions: Sequence[Extension],
        *,
        limit: float,
        record: RecordStep | None = None,
    ) -> None:
        self._context = context
        self._limit = limit
        self._parts: list[_Part] = []
        self._additions: dict[str, Additions] = {}
        """Those of all extensions to the agent, by key, in their order."""
        self.withheld_speech = WithheldSpeech(context)
        self._turns: dict[str, TurnInHand] = {}
        """The turns whose answers are not over, by the ids of the answering speeches."""
        self._running: dict[TurnInHand, _Part] = {}
        """The turns at which an `on_turn` is looking, and the extension it is of."""
        self._has_ended = False
        """Whether the close has begun."""
        self._reached: set[str] = set()
        """The keys of the extensions whose `open` was called."""
        self._told: set[tuple[str, str]] = set()
        """The faults that have been reported: the key with the name of the call, the property or the tool."""
        self._call_end: CallEnd | None = None
        self._keepers: Sequence[Keeper] = ()
        """They keep the conversation outside of the session; empty while the session is being made."""
        for extension in extensions:
            if any(part.key == extension.key for part in self._parts):
                remedy = f"; give it once, as SessionOptions({extension.key}=…)" if extension.key in BUILT_IN else ""
                raise ConfigurationError(
                    f"a session needs each extension once, got two with the key {extension.key!r}{remedy}"
                )
            self._additions[extension.key] = NO_ADDITIONS
            host = Host(extension.key, context, history, self, hook_timeout=limit, record=record)
            attached = extension.attach(host)
            if not isinstance(attached, Attached):
                raise ConfigurationError(
                    f"attach() of the extension {extension.key!r} needs to return an Attached, got {shown(attached)}"
                )
            self._parts.append(_Part(type(extension), extension.key, attached))

    # --- what extensions use

    def of(self, kind: type[Extension]) -> Attached | None:
        """Return the part of the extension of exactly that class, else of the first of a subclass; None without one."""
        of_kind = [part for part in self._parts if issubclass(part.kind, kind)]
        return next((part.attached for part in sorted(of_kind, key=lambda part: part.kind is not kind)), None)

    def face(self, kind: type[Extension]) -> object:
        """Return the `face` of the extension of that kind.

        Raises:
            ConfigurationError: The session has none of that kind.
        """
        if isinstance(kind, type) and issubclass(kind, Extension) and (attached := self.of(kind)) is not None:
            return attached.face
        keys = ", ".join(part.key for part in self._parts)
        raise ConfigurationError(
            f"need the class of an extension of the session, got {shown(kind)}; the session has {keys}; give it "
            "another one by SessionOptions(extensions=(…,))"
        )

    def add_to_agent(self, key: str, additions: Additions) -> None:
        """Set the instructions and tools that the extension with that key gives the agent.

        Of tools with one name, that of the first extension is taken.

        Raises:
            ConfigurationError: Two of these tools have one name.
        """
        names = [tool.name for tool in additions.tools]
        if len(set(names)) < len(names):
            double = sorted({name for name in names if names.count(name) > 1})
            raise ConfigurationError(f"tools of the extension {key!r} need names of their own, got {double!r} twice")
        if additions == self._additions[key]:
            return
        self._additions[key] = additions
        live, given = self._context.live, self._additions.values()
        instructions = "\n\n".join(one.instructions for one in given if one.instructions)
        live.additions = Additions(instructions, tuple(self._tools()))
        if live.is_connected:
            live.connection.update(live.instructions, live.tools, is_history_changed=False)

    def _tools(self) -> Iterable[Tool[..., Any]]:
        tools: dict[str, tuple[str, Tool[..., Any]]] = {}
        for key, additions in self._additions.items():
            for tool in additions.tools:
                first, _ = tools.setdefault(tool.name, (key, tool))
                if first != key and (key, f"tool {tool.name}") not in self._told:
                    self._told.add((key, f"tool {tool.name}"))
                    problem = f"{first!r} and {key!r} have a tool {tool.name!r}; the model gets that of {first!r}"
                    logger.warning("The extensions %s", problem)
        return (tool for _, tool in tools.values())

    @property
    def call_end(self) -> CallEnd:
        """The speeches of the call, and its end.

        Raises:
            SessionNotStartedError: The session is being made.
        """
        if self._call_end is None:
            raise SessionNotStartedError("the session is being made; call this from open() of the extension on")
        return self._call_end

    def changed(self) -> None:
        """Note that the conversation has changed outside of a turn."""
        for keeper in self._keepers:  # without any the session is being made, and its start keeps the conversation
            keeper.changed()

    async def kept(self, limit: float) -> None:
        """Wait until all stores have the changes, for so many seconds at most for each."""
        for keeper in self._keepers:
            await keeper.kept(limit)

    # --- the start

    def open(self, call_end: CallEnd, keepers: Sequence[Keeper]) -> None:
        """Take the parts of the session that are built after this object."""
        self._call_end, self._keepers = call_end, keepers

    def check(self, agent: Agent, pipeline: Pipeline) -> None:
        """Check that agent and pipeline fit all extensions.

        Raises:
            ConfigurationError, CapabilityError: They do not.
        """
        for part in self._parts:
            part.attached.check(agent, pipeline)

    def to_open(self) -> Iterator[tuple[str, Callable[[], Awaitable[None]]]]:
        """Open the extensions, before the room is joined; yield the name and the call of each extension that waits."""
        for part in self._parts:
            self._reached.add(part.key)
            with application_code(f"open of the extension {part.key!r}"):
                opening = part.attached.open()
            if opening is not None:
                yield part.key, partial(_awaited, opening)

    def link(self, transport: Transport) -> None:
        """Link the extensions to the call. An extension that fails costs an `error` event.

        Raises:
            VoiceError: An extension refuses the transport.
        """
        for part in self._parts:
            self._call(part, "link", partial(part.attached.link, transport), None, lets_out=(VoiceError,))

    def to_begin(self) -> Iterator[tuple[str, Callable[[], Awaitable[None]]]]:
        """Yield the names and the calls of the extensions that begin to work when all parts run."""
        for part in self._parts:
            if type(part.attached).begin is not Attached.begin:
                yield part.key, part.attached.begin

    def entered(self) -> None:
        """Note that `on_enter` is over."""
        self._each("entered", lambda attached: attached.entered())

    # --- turns and tools

    @property
    def judges(self) -> Judges:
        """What the strictest extension must know before an answer begins, now."""
        wanted = {self._judges(part) for part in self._parts}
        return "turn" if "turn" in wanted else "words" if "words" in wanted else "nothing"

    def _judges(self, part: _Part) -> Judges:
        nothing: Judges = "nothing"
        return self._read(part, "judges", judges_of, nothing)

    async def look_ahead(self, turn: TurnInHand) -> None:
        """Pass a turn that is not over to the extensions that judge words, until one answers or drops it."""
        for part in self._parts:
            if self._judges(part) == "words" and turn.awaits(part.key) and not (turn.is_settled or turn.is_cut):
                await self._take_turn(part, turn)

    async def take_turn(self, turn: TurnInHand) -> None:
        """Pass a turn to the extensions until one answers or drops it. An extension that had it ahead is left out."""
        asked = [part for part in self._parts if type(part.attached).on_turn is not Attached.on_turn]
        for part in asked:
            if turn.awaits(part.key):
                await self._take_turn(part, turn)
            await checkpoint_if_cancelled()  # the speech was cut at the moment at which the wait ended
            if turn.is_cut and not turn.is_remote:
                await anyio.sleep_forever()  # the close cuts the speech next: no model is asked meanwhile
            if turn.is_cut:
                return
            if not turn.is_remote:
                self._mark(part, turn)
            if turn.settled_by == part.key:
                return

    def _mark(self, part: _Part, turn: TurnInHand) -> None:
        name, owner = self._read(part, "stage", stage_of, None) or (part.key, "user_code")
        turn.record.mark(name, owner, self._context.clock.now())

    def hold(self, turn: TurnInHand) -> None:
        """Remember a turn for `undo` until its answer is over."""
        if turn.handle.id not in self._turns:
            self._turns[turn.handle.id] = turn
            turn.handle.add_done_callback(self._forget)

    async def _take_turn(self, part: _Part, turn: TurnInHand) -> None:
        await self._cut_ones_ended(part)
        if turn.is_cut or self._has_ended:
            return
        is_waiting = not (turn.is_ahead or turn.is_remote)
        self._running[turn] = part
        scope = turn.begin(part.key)

        async def take() -> None:
            with scope:
                await part.attached.on_turn(turn)

        try:
            run = await self._context.hooks.run(
                "turn hook",
                f"on_turn of the extension {part.key!r}",
                take,
                self._limit_of(part),
                "without its speeches" if is_waiting else "always",
                source=part.key,
                answer_id=turn.handle.id if is_waiting else "",
            )
            if run.error is not None:
                turn.unsettle(part.key)
        finally:
            turn.end()
            if self._running.pop(turn, None) is not None and turn.is_undone:
                self._undo(turn, lambda one: one is part)

    async def _cut_ones_ended(self, part: _Part) -> None:
        """Wait until each cancelled `on_turn` of that extension has ended, so that its next call comes after them."""
        with anyio.move_on_after(UNWIND_LIMIT):
            for turn in [turn for turn, one in self._running.items() if one is part and turn.is_cut]:
                await turn.ended()

    def _forget(self, handle: SpeechHandle) -> None:
        self._turns.pop(handle.id, None)

    def undo(self, speech_id: str) -> None:
        """Have the extensions take back the turn that this speech would have answered."""
        if (turn := self._turns.get(speech_id)) is not None:
            self.undo_turn(turn)

    def undo_turn(self, turn: TurnInHand) -> None:
        """Have the extensions that had this turn take it back. An extension whose `on_turn` runs does so after its
        end."""
        turn.take_back()
        self._undo(turn, lambda part: turn.had(part.key) and self._running.get(turn) is not part)

    def _undo(self, turn: TurnInHand, which: Callable[[_Part], bool]) -> None:
        self._each("undo", lambda attached: attached.undo(turn), which)

    async def take_tool_result(self, call: ToolCall, output: str) -> bool:
        """Pass the result of a tool to the extensions; return whether one of them has answered it."""
        is_answered = False
        for part in self._parts:
            if type(part.attached).on_tool_result is not Attached.on_tool_result:
                is_answered |= await self._tool_result(part, call, output)
        return is_answered

    async def _tool_result(self, part: _Part, call: ToolCall, output: str) -> bool:
        answered: list[bool] = []

        async def take() -> None:
            answered.append(await part.attached.on_tool_result(call, output))

        await self._context.hooks.run(
            "tool result",
            f"on_tool_result of the extension {part.key!r}",
            take,
            self._limit_of(part),
            "without its speeches",
            source=part.key,
        )
        return any(answered)

    def _limit_of(self, part: _Part) -> float:
        limit = self._read(part, "turn_limit", turn_limit_of, None)
        return self._limit if limit is None else limit

    def turn_over(self, record: TurnRecord) -> None:
        """Note the end of a turn."""
        self._each("turn_over", lambda attached: attached.turn_over(record))

    # --- snapshots

    def take(self) -> Callable[[], dict[str, Any]]:
        """Take the states of all extensions as they are now; the returned call, from any thread, makes their data."""
        taken: dict[str, Callable[[], Any]] = {}
        for part in self._parts:
            if (made := self._read(part, "take", lambda attached: attached.take(), None)) is not None:
                taken[part.key] = made
        return partial(self._data_of, taken)

    def _data_of(self, taken: Mapping[str, Callable[[], Any]]) -> dict[str, Any]:
        """Make the data, in any thread. An extension that fails has none."""
        made: dict[str, Any] = {}
        for key, call in taken.items():
            try:
                with application_code(f"take of the extension {key!r}"):
                    data = call()
                    if key not in BUILT_IN:
                        check_json(key, data)
                made[key] = data
            except Exception as error:  # noqa: BLE001 - the user-callback boundary
                self._context.inbox.on_loop(partial(self._failed, key, "take", error))
        return made

    def check_taken(self, data: Mapping[str, Any]) -> None:
        """Check that `restore` can take these data.

        Raises:
            ConfigurationError: It cannot.
        """
        for part in self._parts:
            if part.key in data:
                name = f"check_taken of the extension {part.key!r}"
                try:
                    with application_code(name):
                        part.attached.check_taken(data[part.key])
                except VoiceError:
                    raise
                except Exception as error:  # noqa: BLE001 - the user-callback boundary
                    raise ConfigurationError(f"{name} failed: {describe(error)}") from error

    def restore(self, data: Mapping[str, Any]) -> None:
        """Restore the data of a snapshot. An extension that fails begins without them, with an `error` event.

        Raises:
            VoiceError: An extension refuses them.
        """
        for part in self._parts:
            if part.key in data:
                restore = partial(part.attached.restore, data[part.key])
                self._call(part, "restore", restore, None, lets_out=(VoiceError,))

    # --- the close

    def end(self) -> None:
        """Make all extensions stop taking anything."""
        self._has_ended = True
        for turn in self._running:
            turn.cut()
        self._each("end", lambda attached: attached.end())

    def closings(self) -> Mapping[CloseAfter, list[tuple[str, Callable[[], Awaitable[None]]]]]:
        """Return the steps that close the extensions, by the step of the close behind which they come."""
        usual: CloseAfter = "handlers"
        behind: dict[CloseAfter, list[tuple[str, Callable[[], Awaitable[None]]]]] = {}
        for part in reversed(self._parts):
            if part.key in self._reached:
                step = self._read(part, "close_after", close_after_of, usual)
                if self._read(part, "has_work", lambda attached: attached.has_work, True):
                    behind.setdefault(step, []).append((part.key, partial(self._close, part)))
        return behind

    async def _close(self, part: _Part) -> None:
        await self._cut_ones_ended(part)
        await part.attached.aclose()

    @property
    def lost_writes(self) -> int:
        """The number of writes of all extensions that were not made."""
        return sum(self._read(part, "lost_writes", lost_writes_of, 0) for part in self._parts)

    def release(self) -> None:
        """Free the objects that sessions share."""
        self._running.clear()
        self._each("release", lambda attached: attached.release(), reports=False)

    def _each(
        self,
        what: str,
        call: Callable[[Attached], None],
        which: Callable[[_Part], bool] = lambda part: True,
        *,
        reports: bool = True,
    ) -> None:
        """Call each extension synchronously. An error of one is logged, and the others are still called.

        Args:
            reports: Whether an error is an `error` event too.
        """
        for part in filter(which, self._parts):
            self._told.discard((part.key, what))
            self._read(part, what, call, None, reports=reports)

    def _read(self, part: _Part, what: str, read: Callable[[Attached], T], default: T, *, reports: bool = True) -> T:
        return self._call(part, what, partial(read, part.attached), default, reports=reports)

    def _call(
        self,
        part: _Part,
        what: str,
        call: Callable[[], T],
        default: T,
        *,
        reports: bool = True,
        lets_out: tuple[type[Exception], ...] = (),
    ) -> T:
        """Return the result of a call of an extension. After an error, which is reported once, return the default;
        raise `lets_out`."""
        try:
            with application_code(f"{what} of the extension {part.key!r}"):
                return call()
        except lets_out:
            raise
        except Exception as error:  # noqa: BLE001 - the user-callback boundary
            self._failed(part.key, what, error, reports=reports)
            return default

    def _failed(self, key: str, what: str, error: Exception, *, reports: bool = True) -> None:
        if (key, what) not in self._told:
            self._told.add((key, what))
            self._context.hooks.failed(f"{what} of the extension {key!r}", error, key if reports else "")


async def _awaited(opening: Awaitable[None]) -> None:
    await opening
