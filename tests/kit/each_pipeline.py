"""Runs a test on a realtime pipeline, in place of the cascade that `SessionHarness` makes of the test's parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Unpack

import pytest

from vivavoce.agents.testing import Listening, SessionHarness
from vivavoce.pipelines.llm.base import LLM
from vivavoce.pipelines.pipeline import Pipeline, PipelineContext
from vivavoce.pipelines.realtime import RealtimePipeline, RealtimePipelineConnection
from vivavoce.pipelines.testing import ScriptedSTT, ScriptedTTS

Make = Callable[..., Pipeline]


@contextmanager
def harness_on(make: Make, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have harnesses make their pipelines by `make`; a test in which no realtime pipeline was made or opened fails."""
    opened: list[RealtimePipeline] = []

    def open_and_note(pipeline: RealtimePipeline, context: PipelineContext) -> RealtimePipelineConnection:
        opened.append(pipeline)
        return open_as_ever(pipeline, context)

    open_as_ever = RealtimePipeline.open
    monkeypatch.setattr(RealtimePipeline, "open", open_and_note)
    made: list[Pipeline] = []

    def make_and_note(llm: LLM, stt: ScriptedSTT, tts: ScriptedTTS, **listening: Unpack[Listening]) -> Pipeline:
        made.append(make(llm, stt, tts, **listening))
        return made[-1]

    monkeypatch.setattr(SessionHarness, "pipeline_of", staticmethod(make_and_note))
    yield
    assert made or opened, "it ran on no realtime pipeline; say why it is only about a cascade"
