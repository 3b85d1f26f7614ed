"""SilentPipeline: the pipeline of a session without a voice: it hears and answers nothing, and given texts go out as
they are."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from vivavoce.pipelines.core.errors import CapabilityError
from vivavoce.pipelines.llm.base import GenerateRequest, LLMEvent
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.pipeline import (
    Pipeline,
    PipelineCapabilities,
    PipelineConnection,
    PipelineContext,
    check_free,
)
from vivavoce.pipelines.speaking.text_voice import TextVoice
from vivavoce.pipelines.speech import ComponentSet
from vivavoce.pipelines.tts.base import AudioChunk

REMEDY = (
    "give the session a pipeline with an llm, such as CascadingPipeline(llm=...), a flow, or its graph "
    "PatternIntents(), a body for each state and fallback bodies"
)
_CAPABILITIES = PipelineCapabilities(can_listen=False, speaks=False, can_reply=False, sends_transcripts=False)


class SilentPipeline(Pipeline):
    """Hears nothing, answers nothing, and sends the texts of `say()`, of a flow and of a graph in writing.

    With components it becomes a `CascadingPipeline`: by `update_components()`, or while an agent with overrides has the
    conversation.
    """

    name = "silent"

    def __init__(self) -> None:
        self._connection: SilentConnection | None = None

    @property
    def capabilities(self) -> PipelineCapabilities:
        return _CAPABILITIES

    is_prepared = True

    def prepare(self) -> None:
        """Do nothing: there is no audio and no provider."""

    def _composed(self, components: ComponentSet) -> Pipeline:
        from vivavoce.pipelines.cascading import CascadingPipeline

        return CascadingPipeline(
            stt=components.stt,
            llm=components.llm,
            tts=components.tts,
            vad=components.vad,
            denoise=components.denoise,
            turn_detector=components.turn_detector,
        )

    def _is_like(self, other: Pipeline) -> bool:
        return isinstance(other, SilentPipeline)

    def open(self, context: PipelineContext) -> SilentConnection:
        check_free(self, self._connection)
        self._connection = SilentConnection()
        return self._connection


class SilentConnection(PipelineConnection):
    """Writes given texts."""

    def __init__(self) -> None:
        self._voice = TextVoice(_CAPABILITIES.output_rate)

    async def run(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        task_status.started()
        await anyio.Event().wait()

    def push_audio(self, frame: AudioFrame) -> None:
        """Take nothing: there are no ears."""

    def generate(self, request: GenerateRequest) -> AsyncGenerator[LLMEvent | AudioChunk, None]:
        """Refuse to answer.

        Raises:
            CapabilityError: Always.
        """
        raise CapabilityError(SilentPipeline.name, "can_reply", REMEDY)

    def speak(self, text: str | AsyncIterator[str]) -> AsyncGenerator[AudioChunk, None]:
        return self._voice.speak(text)

    async def aclose(self) -> None:
        self.is_closed = True
