"""SessionObserver: where a session tells what happens, as it happens; this one listens to nothing and costs nothing.

The session calls it at few places: each step of the turn machine (`step`), each note of its log (`noted`), and
around code that is not ours (models, voices, tools, hooks, steps of start and close), so that what listens can be
current there. `vivavoce.agents.telemetry.session_telemetry` listens; without telemetry nothing of it is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from vivavoce.agents.turn.effects import Effect
from vivavoce.agents.turn.inputs import TurnInput
from vivavoce.pipelines.llm.base import GenerateRequest, LLMEvent
from vivavoce.pipelines.llm.tools import ToolCall, ToolOutput
from vivavoce.pipelines.tts.base import AudioChunk

if TYPE_CHECKING:
    from vivavoce.agents.events import SessionEvent
    from vivavoce.agents.records import DropReason, TurnRecord
    from vivavoce.agents.turn_records.parts import TurnParts

StepOf = Literal["start", "close"]


class Watch(AbstractContextManager["Watch"]):
    """What watches one piece of work, from entering to leaving it in one task; this one looks away."""

    __slots__ = ()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def take(self, event: LLMEvent | AudioChunk) -> None:
        """A model sent this."""

    def first_byte(self, seconds: float | None) -> None:
        """A voice sent its first audio, `seconds` after it was asked."""

    def spoken(self, characters: int, seconds: float) -> None:
        """A voice made this much."""

    def settled(self, output: ToolOutput) -> None:
        """A tool call came to this."""

    def failed(self, error: BaseException) -> None:
        """The work failed with `error`, though it may end by a cancellation."""


NO_WATCH = Watch()


class SessionObserver:
    """Listens to nothing. All methods are called on the session's event loop, never block and never raise."""

    is_on = False
    trace_id = ""
    """Of the session's trace, 32 hexadecimal digits; empty where it is not recorded."""

    # --- the session's life

    def session(self, facts: Callable[[], Mapping[str, Any]]) -> AbstractContextManager[object]:
        """Watch the session's task; `facts` returns attributes of what the session is made of."""
        return NO_WATCH

    def phase(self, which: StepOf) -> Watch:
        """Watch all of the start or of the close."""
        return NO_WATCH

    def phase_step(self, which: StepOf, name: str) -> Watch:
        """Watch one step of it."""
        return NO_WATCH

    def ends(self, reason: str, error: Exception | None = None) -> None:
        """The session has closed for `reason`, by `error` if any, and nothing but the flush is still to come."""

    async def flush(self) -> None:
        """Have what was collected sent; returns within a small limit of its own, whatever the endpoint does."""

    # --- the conversation

    def step(self, event: TurnInput, effects: Sequence[Effect], open_turn_id: str) -> None:
        """The turn machine took `event` and wants `effects`; `open_turn_id` is the user's open turn after that."""

    def noted(self, event: type[SessionEvent], turn_id: str, fields: Mapping[str, Any]) -> None:
        """The log notes an event, whether anybody listens to it or not."""

    def turn_opened(self, parts: TurnParts) -> None:
        """The user's turn is open; called for each step while it is. `parts` grow until it is over."""

    def turn_committed(self, parts: TurnParts, speech_id: str) -> None:
        """The user's turn is committed, and that speech answers it."""

    def turn_dropped(self, parts: TurnParts, reason: DropReason) -> None:
        """The user's turn will not be answered."""

    def turn_ended(self, record: TurnRecord, parts: TurnParts) -> None:
        """A turn, a `say` or a `reply` has its outcome."""

    def asked(self, speech_id: str, kind: str) -> None:
        """`say()` or `reply()` was called; what is current is what called it."""

    # --- code that is not ours, current in the calling task

    def speech(self, speech_id: str) -> Watch:
        """Be current in a speech's task."""
        return NO_WATCH

    def model_step(
        self, component: Literal["llm", "flow"], number: int = 0, request: GenerateRequest | None = None
    ) -> Watch:
        """Watch step `number` (from 0) of a model that is asked for `request`, or what a conversation flow says."""
        return NO_WATCH

    def attempt(self, attempt_id: str, turn_id: str) -> Watch:
        """Watch an answer begun before its turn is over."""
        return NO_WATCH

    def attempt_taken(self, attempt_id: str, speech_id: str) -> None:
        """That speech goes on with that attempt."""

    def voice(self) -> Watch:
        """Watch a synthesis."""
        return NO_WATCH

    def tool(self, call: ToolCall, *, is_known: bool = True) -> Watch:
        """Watch a tool call; `is_known`: whether there is such a tool."""
        return NO_WATCH

    def hook(self, name: str, **attributes: str | int) -> Watch:
        """Watch a callback of the application, or a handoff."""
        return NO_WATCH


NO_OBSERVER = SessionObserver()
