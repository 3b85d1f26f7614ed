"""Watches of models, voices, tools and steps: each holds a span current around one piece of work, and measures it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from vivavoce.agents.telemetry.texts import type_name
from vivavoce.agents.telemetry.tracing.model_messages import answered, asked
from vivavoce.agents.telemetry.tracing.spans import Attributes, SpanMaker, SpanWatch
from vivavoce.agents.turn_records.turn_record import EstimatedUsage
from vivavoce.pipelines.llm.base import Done, GenerateRequest, LLMEvent, TextDelta, Usage
from vivavoce.pipelines.llm.tools import ToolCall, ToolOutput
from vivavoce.pipelines.tts.base import AudioChunk

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from vivavoce.agents.telemetry.metrics.session_metrics import SessionMetrics


class StepWatch(SpanWatch):
    """A step of start or close.

    Args:
        measure: Called with its seconds when it is over.
    """

    __slots__ = ("_measure",)

    def __init__(self, maker: SpanMaker, span: Span, measure: Callable[[float], None]) -> None:
        super().__init__(maker, span)
        self._measure = measure

    def _over(self, error: BaseException | None) -> None:
        self._measure(self.seconds)


class PhaseWatch(StepWatch):
    """All steps together; its first exit counts, since the session's end may come first."""

    __slots__ = ("_is_over",)
    is_current = False

    def __init__(self, maker: SpanMaker, span: Span, measure: Callable[[float], None]) -> None:
        super().__init__(maker, span, measure)
        self._is_over = False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._is_over:
            self._is_over = True
            super().__exit__(kind, error, trace)


class ModelWatch(SpanWatch):
    """A model's step."""

    __slots__ = ("_asked", "_calls", "_capture", "_first_at", "_is_estimated", "_metrics", "_reason", "_text", "_usage")

    def __init__(
        self,
        maker: SpanMaker,
        span: Span,
        metrics: SessionMetrics,
        request: GenerateRequest | None,
        *,
        capture: bool,
    ) -> None:
        super().__init__(maker, span)
        self._metrics = metrics
        self._capture = capture
        self._asked = request if capture else None
        self._first_at: float | None = None
        self._usage: Usage | None = None
        self._is_estimated = False
        self._reason = ""
        self._text: list[str] = []
        self._calls: list[ToolCall] = []

    def take(self, event: LLMEvent | AudioChunk) -> None:
        """Note the first output of the model, its texts and its usage."""
        if isinstance(event, Usage):
            self._is_estimated = isinstance(event, EstimatedUsage)
            before = self._usage or Usage()
            self._usage = Usage(
                input_tokens=before.input_tokens + event.input_tokens,
                output_tokens=before.output_tokens + event.output_tokens,
                cached_tokens=before.cached_tokens + event.cached_tokens,
                cache_write_tokens=before.cache_write_tokens + event.cache_write_tokens,
            )
        elif isinstance(event, Done):
            self._reason = event.reason
        else:
            if self._first_at is None:
                self._first_at = self._maker.now()
            if self._capture and isinstance(event, TextDelta):
                self._text.append(event.text)
            elif self._capture and isinstance(event, ToolCall):
                self._calls.append(event)

    def _over(self, error: BaseException | None) -> None:
        usage, first = self._usage, None
        if self._first_at is not None:
            self._maker.event(self.span, "first_token", at=self._first_at)
            first = self._first_at - self.began_at
        attributes: dict[str, Any] = {
            "gen_ai.response.time_to_first_chunk": first,
            "gen_ai.response.finish_reasons": [self._reason] if self._reason else None,
        }
        if usage is not None:
            attributes["gen_ai.usage.input_tokens"] = usage.input_tokens
            attributes["gen_ai.usage.output_tokens"] = usage.output_tokens
            attributes["gen_ai.usage.cache_read.input_tokens"] = usage.cached_tokens
            attributes["gen_ai.usage.cache_creation.input_tokens"] = usage.cache_write_tokens
            attributes["vivavoce.llm.usage_is_estimated"] = self._is_estimated or None
        if self._asked is not None:
            attributes |= asked(self._asked)
        if self._capture:
            attributes |= answered("".join(self._text), self._calls, self._reason)
        self._maker.set(self.span, attributes)
        self._metrics.model_step(self.seconds, first, None if self._is_estimated else usage, error)


class EmbeddingsWatch(SpanWatch):
    """A request to an embedder.

    Args:
        facts: Its attributes in metrics.
    """

    __slots__ = ("_facts", "_metrics", "_tokens")

    def __init__(self, maker: SpanMaker, span: Span, metrics: SessionMetrics, facts: Mapping[str, str]) -> None:
        super().__init__(maker, span)
        self._metrics = metrics
        self._facts = facts
        self._tokens: int | None = None

    def take(self, event: LLMEvent | AudioChunk) -> None:
        """Note the usage, unless it is an estimate."""
        if isinstance(event, Usage) and not isinstance(event, EstimatedUsage):
            self._tokens = event.input_tokens

    def _over(self, error: BaseException | None) -> None:
        self._maker.set(self.span, {"gen_ai.usage.input_tokens": self._tokens})
        self._metrics.embeddings(self._facts, self.seconds, self._tokens, error)


class VoiceWatch(SpanWatch):
    """A synthesis."""

    __slots__ = ("_characters", "_first", "_first_at", "_metrics", "_seconds")

    def __init__(self, maker: SpanMaker, span: Span, metrics: SessionMetrics) -> None:
        super().__init__(maker, span)
        self._metrics = metrics
        self._first: float | None = None
        self._first_at: float | None = None
        self._characters = 0
        self._seconds = 0.0

    def first_byte(self, seconds: float | None) -> None:
        """Note the first audio."""
        if self._first_at is None:
            self._first, self._first_at = seconds, self._maker.now()

    def spoken(self, characters: int, seconds: float) -> None:
        """Note how much it was."""
        self._characters, self._seconds = characters, seconds

    def _over(self, error: BaseException | None) -> None:
        if self._first_at is not None:
            self._maker.event(self.span, "first_byte", at=self._first_at)
        attributes: Attributes = {
            "vivavoce.tts.first_byte": self._first,
            "vivavoce.tts.characters": self._characters,
            "vivavoce.tts.audio_seconds": self._seconds,
        }
        self._maker.set(self.span, attributes)
        self._metrics.voice(self._first, self._characters, self._seconds)


class ToolWatch(SpanWatch):
    """A tool call."""

    __slots__ = ("_capture", "_metrics", "_name", "_output")

    def __init__(self, maker: SpanMaker, span: Span, metrics: SessionMetrics, name: str, *, capture: bool) -> None:
        super().__init__(maker, span)
        self._metrics = metrics
        self._name = name
        self._capture = capture
        self._output: ToolOutput | None = None

    def settled(self, output: ToolOutput) -> None:
        """Note the output."""
        self._output = output

    def _over(self, error: BaseException | None) -> None:
        output = self._output
        is_error = output is not None and output.is_error
        self._maker.set(
            self.span,
            {
                "vivavoce.tool.is_error": is_error,
                "gen_ai.tool.call.result": output.output if output is not None and self._capture else None,
            },
        )
        if is_error and error is None:
            self._maker.mark_failed(self.span, "tool_error")
        name = type_name(type(error)) if error is not None else "tool_error" if is_error else ""
        self._metrics.tool(self._name, self.seconds, name)
