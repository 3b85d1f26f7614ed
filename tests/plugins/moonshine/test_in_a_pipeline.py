"""moonshine and hibari in one CascadingPipeline, with Silero and the turn detector that it finds: all real weights."""

from __future__ import annotations

import anyio
import anyio.to_thread
import pytest

from kit.servers import install
from kit.servers.missing import missing
from kit.speech import frames, padded, spoken_naturally
from vivavoce.pipelines.cascading import CascadingPipeline
from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.core.words import words_of
from vivavoce.pipelines.events import PipelineEvent, UserFinal, UserTurnPredicted
from vivavoce.pipelines.pipeline import PipelineContext
from vivavoce.plugins import hibari, moonshine, silero


@pytest.mark.timeout(60)
async def test_a_spoken_sentence_is_heard_and_judged_to_be_over(monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        folder = await anyio.to_thread.run_sync(install.smart_turn_weights)
    except install.InstallError as error:
        missing("smart_turn's weights", str(error))
    monkeypatch.setenv("VIVAVOCE_MODELS", str(folder))
    sentence = "I would like to book a table for the four of us on Sunday evening."
    (speech,) = await spoken_naturally(sentence)
    told: list[PipelineEvent] = []
    came = {UserFinal: anyio.Event(), UserTurnPredicted: anyio.Event()}

    def emit(event: PipelineEvent) -> None:
        told.append(event)
        if type(event) in came:
            came[type(event)].set()

    pipeline = CascadingPipeline(stt=moonshine.STT(), vad=silero.VAD(), tts=hibari.TTS())
    connection = pipeline.open(PipelineContext(clock=LoopClock(), emit=emit))
    async with anyio.create_task_group() as tasks:
        await tasks.start(connection.run)
        for frame in frames(padded(speech, before=0.5, after=1.0)):
            connection.push_audio(frame)
        await came[UserFinal].wait()
        (final,) = [event for event in told if isinstance(event, UserFinal)]
        connection.predict_end_of_turn(final.text, "How can I help you?")
        await came[UserTurnPredicted].wait()
        tasks.cancel_scope.cancel()
    await connection.aclose()
    assert words_of(final.text) == words_of(sentence)
    assert [event.complete for event in told if isinstance(event, UserTurnPredicted)] == [True]
