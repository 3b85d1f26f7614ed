"""Laws of a session whose components fail at random: the call continues, and the last turn is answered."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.pipeline import Judge
from vivavoce.agents import Agent
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.testing import (
    ScriptedLLM,
    ScriptedRealtimeModel,
    ScriptedSTT,
    ScriptedTTS,
    ScriptedVAD,
    SessionHarness,
)
from vivavoce.pipelines.cascading import CascadingPipeline
from vivavoce.pipelines.core.errors import ProviderError
from vivavoce.pipelines.denoise.base import Denoiser, DenoiseStream
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.realtime import RealtimePipeline

METHODS = {
    "stt": ("open", "push", "speech_started", "flush", "discard", "events", "aclose"),
    "vad": ("open", "push", "reset", "close"),
    "denoise": ("push", "close"),
    "turn_detector": ("push", "predict", "close"),
    "llm": ("generate",),
    "tts": ("synthesize",),
    "model": ("open", "push", "commit", "clear", "append", "truncate", "refuse", "events", "generate", "say", "aclose"),
}
RAISED: list[Any] = [KeyError("secret"), ProviderError("broken", provider="x", retryable=True), SystemExit(3)]
RETURNED: list[Any] = [None, 7, "words", [None], object()]


class Reopened(ScriptedSTT):
    """Misses the words that come while no stream is open, as a recogniser that reconnects does."""

    def final(self, text: str, *, audio_seconds: float = 0.0) -> None:
        if not self.streams[-1].is_closed:
            super().final(text, audio_seconds=audio_seconds)


class Plain(Denoiser, DenoiseStream):
    """Leaves audio unchanged."""

    def open(self) -> DenoiseStream:
        return self

    def push(self, frame: AudioFrame) -> AudioFrame:
        return frame


class Faults:
    """Makes certain calls fail: (part, method) → the number of the call, over all streams, and the fault."""

    def __init__(self, plan: dict[tuple[str, str], tuple[int, Any]]) -> None:
        self.plan = plan
        self.calls: dict[tuple[str, str], int] = {}
        self.happened: list[tuple[str, str]] = []

    def infect(self, part: str, thing: Any) -> None:
        for method in METHODS[part]:
            works = getattr(thing, method, None)
            if works is None or (method == "open" and part == "denoise"):
                continue

            def call(*args: Any, works: Any = works, key: tuple[str, str] = (part, method)) -> Any:
                self.calls[key] = self.calls.get(key, 0) + 1
                number, how = self.plan.get(key, (0, None))
                if self.calls[key] == number:
                    self.happened.append(key)
                    if isinstance(how, Exception):
                        raise how
                    return how
                result = works(*args)
                return result if key[1] != "open" else self._opened(key[0], result)

            setattr(thing, method, call)

    def _opened(self, part: str, stream: Any) -> Any:
        if hasattr(stream, "__await__"):

            async def opened() -> Any:
                thing = await stream
                self.infect(part, thing)
                return thing

            return opened()
        self.infect(part, stream)
        return stream


def plans(*parts: str) -> st.SearchStrategy[dict[tuple[str, str], tuple[int, Any]]]:
    keys = st.sampled_from([(part, method) for part in parts for method in METHODS[part]])
    faults = st.tuples(st.integers(1, 60), st.sampled_from(RAISED + RETURNED))
    return st.dictionaries(keys, faults, min_size=1, max_size=4).filter(
        lambda plan: all(method != "open" or number > 1 for (_, method), (number, _) in plan.items())
    )


def talk(harness: SessionHarness, faults: Faults) -> None:
    for number, at in enumerate((0.5, 4.0, 8.0, 12.0)):
        harness.caller.says(f"question {number}", at, at + 1.0)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(2.6)
        harness.session.input.clear_turn()
        await harness.session.interrupt()
        await harness.until(20.0)
        faults.plan = {}  # from here on all is well
        harness.caller.says("last question", 20.5, 21.5)
        await harness.until(26.0)
        assert harness.session.agent_state in ("idle", "listening"), faults.happened

    harness.run(scenario, limit=600.0)
    told = harness.recording.of(ErrorOccurred)
    assert len(told) <= 4 * len(faults.happened) + 1, [(event.source, event.error) for event in told]
    assert all("secret" not in str(event.error) for event in told)
    assert harness.messages[-2:] == [("user", "last question"), ("assistant", "All is well.")], faults.happened
    assert harness.session.turns[-1].outcome == "completed", faults.happened


@pytest.mark.timeout(120)
@settings(max_examples=15, deadline=None)
@given(plans("stt", "vad", "denoise", "turn_detector", "llm", "tts"))
def test_wherever_a_cascades_parts_go_wrong_the_last_turn_is_answered(plan: dict[Any, Any]) -> None:
    faults = Faults(plan)
    parts: dict[str, Any] = {
        "stt": Reopened(),
        "llm": ScriptedLLM(default="All is well."),
        "tts": ScriptedTTS(),
        "vad": ScriptedVAD(),
        "denoise": Plain(),
        "turn_detector": Judge(complete=True, needs_audio=True),
    }
    for part, thing in parts.items():
        faults.infect(part, thing)
    talk(SessionHarness(Agent("Help."), stt=parts["stt"], pipeline=CascadingPipeline(**parts)), faults)


@pytest.mark.timeout(120)
@settings(max_examples=15, deadline=None)
@given(plans("stt", "model"))
def test_wherever_a_realtime_model_goes_wrong_the_last_turn_is_answered(plan: dict[Any, Any]) -> None:
    faults = Faults(plan)
    stt, model = Reopened(), ScriptedRealtimeModel(*["All is well."] * 30)
    faults.infect("stt", stt)
    opens = model.connect

    def connect(setup: Any) -> Any:
        connection = opens(setup)
        faults.infect("model", connection)
        return connection

    model.connect = connect  # type: ignore[method-assign]
    talk(SessionHarness(Agent("Help."), stt=stt, pipeline=RealtimePipeline(model, stt=stt, vad=ScriptedVAD())), faults)
