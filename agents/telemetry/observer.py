"""SessionObserver: the interface by which a session reports to its telemetry. This one does nothing and costs nothing.

The session calls it for each step of the turn machine, for each note of its log, at the begin and end of each turn, and
around foreign code (models, voices, tools, hooks, steps of start and close), so that a span can be current there. Its
subclass is `vivavoce.agents.telemetry.session_telemetry`, which is loaded only with telemetry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from vivavoce.agents.turn.effects import Effect
from vivavoce.agents.turn.inputs import TurnInput
from vivavoce.pipelines.core.incidents import FellBack
from vivavoce.pipelines.llm.base import GenerateRequest, LLMEvent
from vivavoce.pipelines.llm.tools import ToolCall, ToolOutput
from vivavoce.pipelines.tts.base import AudioChunk

if TYPE_CHECKING:
    from vivavoce.agents.events import SessionEvent
    from vivavoce.agents.records import DropReason, TurnRecord
    from vivavoce.agents.turn_records.parts import TurnParts

StepOf = Literal["start", "close"]


class Watch(AbstractContextManager["Watch"]):
    """Watches one piece of work, entered and left in one task. This one does nothing."""

    __slots__ = ()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def take(self, event: LLMEvent | AudioChunk) -> None:
        """A model sent an event, or audio."""

    def first_byte(self, seconds: float | None) -> None:
        """A voice sent its first audio, `seconds` after the request."""

    def spoken(self, characters: int, seconds: float) -> None:
        """A voice spoke so many characters, and made so many seconds of audio of them."""

    def settled(self, output: ToolOutput) -> None:
        """A tool call has its output."""

    def cancelled(self) -> None:
        """The work was cancelled, though it ends without an error."""

    def failed(self, error: BaseException) -> None:
        """The work failed with `error`, though it may end by a cancellation."""


NO_WATCH = Watch()


class SessionObserver:
    """Does nothing. All methods are called on the session's event loop, never block and never raise."""

    is_on = False
    trace_id = ""
    """The id of the session's trace, 32 hexadecimal digits; empty where it is not recorded."""

    # --- the session's life

    def session(self) -> AbstractContextManager[object]:
        """Watch the session's task."""
        return NO_WATCH

    def phase(self, which: StepOf) -> Watch:
        """Watch all of the start or of the close."""
        return NO_WATCH

    def phase_step(self, which: StepOf, name: str) -> Watch:
        """Watch one step of it."""
        return NO_WATCH

    def ends(self, reason: str, error: Exception | None = None) -> None:
        """The session has closed for `reason`, with `error` if there is one; only the flush is left."""

    async def flush(self) -> None:
        """Send all that was collected; returns within a small limit of its own, whatever the endpoint does."""

    # --- the conversation

    def step(self, event: TurnInput, effects: Sequence[Effect]) -> None:
        """The turn machine took `event` and returned `effects`."""

    def noted(self, event: type[SessionEvent], fields: Mapping[str, Any]) -> None:
        """The log notes an event, with or without handlers."""

    def fell_back(self, fell: FellBack) -> None:
        """A component failed and another one takes its place."""

    def turn_opened(self, parts: TurnParts) -> None:
        """The user's turn is open; called for each step while it is. `parts` grow until it is over."""

    def turn_committed(self, parts: TurnParts, speech_id: str) -> None:
        """The user's turn is committed, and that speech answers it."""

    def turn_dropped(self, parts: TurnParts, reason: DropReason) -> None:
        """The user's turn will not be answered."""

    def turn_ended(self, record: TurnRecord, parts: TurnParts) -> None:
        """A turn, a `say` or a `reply` has its outcome."""

    def asked(self, speech_id: str, kind: str) -> None:
        """`say()` or `reply()` was called; the current span is that of the calling code."""

    # --- foreign code, with a span that is current in the calling task

    def speech(self, speech_id: str) -> Watch:
        """Make the span of a speech's turn current in the speech's task."""
        return NO_WATCH

    def model_step(self, component: str, number: int = 0, request: GenerateRequest | None = None) -> Watch:
        """Watch step `number` (from 0) of a model ("llm") with its `request`, or a part of the text of code."""
        return NO_WATCH

    def embeddings(self, provider: str, model: str, dimensions: int) -> Watch:
        """Watch a request to an embedder."""
        return NO_WATCH

    def attempt(self, attempt_id: str, turn_id: str) -> Watch:
        """Watch an answer begun before its turn is over."""
        return NO_WATCH

    def attempt_taken(self, attempt_id: str, speech_id: str) -> None:
        """That speech uses that attempt."""

    def voice(self) -> Watch:
        """Watch a synthesis."""
        return NO_WATCH

    def tool(self, call: ToolCall, *, is_known: bool = True) -> Watch:
        """Watch a tool call; `is_known`: whether a tool of that name exists."""
        return NO_WATCH

    def hook(self, name: str, **attributes: str | int) -> Watch:
        """Watch a callback of the application, or a handoff."""
        return NO_WATCH


NO_OBSERVER = SessionObserver()
