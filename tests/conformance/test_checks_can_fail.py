"""Each conformance check fails on a provider that breaks a promise, and says which one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any

import anyio
import pytest

from vivavoce.pipelines.core.errors import CapabilityError, ProviderConnectionError, ProviderError
from vivavoce.pipelines.denoise.base import Denoiser, DenoiseStream
from vivavoce.pipelines.llm.base import LLM, Done, GenerateRequest, LLMEvent, TextDelta
from vivavoce.pipelines.llm.chat_context import ChatContext, FunctionCall
from vivavoce.pipelines.llm.tools import ToolCall, function_tool
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.realtime_model.base import RealtimeCapabilities
from vivavoce.pipelines.stt.base import (
    STT,
    STTCapabilities,
    STTEagerEndOfTurn,
    STTEndOfTurn,
    STTEvent,
    STTFinal,
    STTInterim,
    STTStream,
    STTTurnResumed,
)
from vivavoce.pipelines.testing import (
    HANG,
    ScriptedLLM,
    ScriptedRealtimeModel,
    ScriptedSTT,
    ScriptedSTTStream,
    ScriptedTTS,
    check_denoiser,
    check_failure,
    check_llm,
    check_realtime_model,
    check_stt,
    check_tts,
    check_turn_detector,
    check_vad,
    run_virtual,
    words_at,
)
from vivavoce.pipelines.testing.script import tone, tone_chunks
from vivavoce.pipelines.tts.base import TTS, AudioChunk, TTSCapabilities, Word
from vivavoce.pipelines.turn_detector.base import (
    EndOfTurnPrediction,
    TurnContext,
    TurnDetector,
    TurnDetectorStream,
)
from vivavoce.pipelines.vad.base import (
    VAD,
    VADCapabilities,
    VADEvent,
    VADSpeechEnded,
    VADSpeechStarted,
    VADStream,
    VADVoicePaused,
    VADVoiceResumed,
)

SPEECH = tone(16000, 16000)
REQUEST = GenerateRequest(context=ChatContext())


def fails(check: Coroutine[Any, Any, object], promise: str) -> None:
    with pytest.raises(AssertionError, match=promise):
        run_virtual(check)


class Voice(TTS):
    """Speaks the chunks that it is given."""

    provider = "broken"

    def __init__(self, chunks: Sequence[AudioChunk], *, emits_words: bool = False) -> None:
        self._chunks = chunks
        self._emits_words = emits_words

    @property
    def capabilities(self) -> TTSCapabilities:
        return TTSCapabilities(sample_rate=24000, emits_words=self._emits_words)

    async def synthesize(self, text: str) -> AsyncGenerator[AudioChunk, None]:
        for chunk in self._chunks:
            yield chunk


def voice(*words: Word, rate: int = 24000, emits_words: bool = False) -> Voice:
    frames = tone_chunks(1.0, rate)
    chunks = [AudioChunk(frame, words if number == 0 else ()) for number, frame in enumerate(frames)]
    return Voice(chunks, emits_words=emits_words)


@pytest.mark.parametrize(
    ("tts", "promise"),
    [
        (voice(rate=16000), "audio of 24000 Hz"),
        (Voice([AudioChunk(AudioFrame.silence(1, 24000))]), "audible"),
        (Voice([AudioChunk(AudioFrame(b"\1\0\1\0", 24000, 2))]), "mono"),
        (voice(Word("one", 0, 0.5)), "no word times"),
        (voice(Word("one", 0, 0.5), emits_words=True), "all words"),
        (voice(Word("one", 0.5, 0.9), Word("two", 0.1, 0.2), emits_words=True), "words in order"),
        (voice(Word("one", 0.5, 0.9), Word("two", 1.1, 1.2), emits_words=True), "inside the 1.000 s"),
        (ScriptedTTS(first_byte=HANG), "speech to end within 10.0 s"),
    ],
)
def test_a_voice_that_breaks_a_promise_is_found_out(tts: TTS, promise: str) -> None:
    fails(check_tts(lambda: tts, text="one two"), promise)


class Collecting(ScriptedTTS):
    """Takes text as it comes, and speaks when it has all of it."""

    async def stream(self, text: AsyncIterator[str]) -> AsyncGenerator[AudioChunk, None]:
        whole = "".join([piece async for piece in text])
        async for chunk in self.synthesize(whole):
            yield chunk


def test_a_voice_that_waits_for_the_text_behind_a_sentence_is_found_out() -> None:
    fails(check_tts(lambda: Collecting(streams_text=True)), "audio of a sentence with a space behind it")


class Inventing(ScriptedTTS):
    """Tells that words were heard which it was not given."""

    async def stream(self, text: AsyncIterator[str]) -> AsyncGenerator[AudioChunk, None]:
        async for chunk in super().stream(text):
            yield replace(chunk, heard=self._heard)

    async def _heard(self, seconds: float) -> str | None:
        return "Good evening"


def test_a_voice_that_tells_other_words_than_it_spoke_is_found_out() -> None:
    fails(check_tts(lambda: Inventing(streams_text=True)), "a beginning of 'Hello there")


class Model(LLM):
    """Answers with the events that it is given."""

    provider = "broken"

    def __init__(self, *events: LLMEvent) -> None:
        self._events = events

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[LLMEvent, None]:
        for event in self._events:
            yield event


@pytest.mark.parametrize(
    ("llm", "promise"),
    [
        (Model(TextDelta("hello")), "exactly one Done"),
        (Model(Done(), TextDelta("hello")), "exactly one Done"),
        (Model(Done()), "text or a tool call"),
        (Model(ToolCall(call_id="1", name="fly", arguments="{}"), Done()), "a tool of"),
        (ScriptedLLM([HANG]), "an answer within"),
    ],
)
def test_a_model_that_breaks_a_promise_is_found_out(llm: LLM, promise: str) -> None:
    fails(check_llm(lambda: llm, REQUEST), promise)


class Particular(Model):
    """Refuses the calls with an extra, or its own calls only."""

    def __init__(self, *events: LLMEvent, takes: str = "") -> None:
        super().__init__(*events)
        self._takes = takes

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[LLMEvent, None]:
        calls = [item for item in request.context if isinstance(item, FunctionCall)]
        if any(call.call_id != self._takes for call in calls):
            raise ProviderError("malformed", provider=self.provider)
        async for event in super().generate(request):
            yield event


@function_tool
def book() -> str:
    """Book a table."""
    return "ok"


def test_a_model_that_refuses_the_calls_of_another_provider_is_found_out() -> None:
    model = Particular(TextDelta("hello"), Done())
    fails(check_llm(lambda: model, REQUEST), "an answer to a history with the call of another provider")


def test_a_model_that_refuses_its_own_calls_is_found_out() -> None:
    call = ToolCall(call_id="1", name="book", arguments="{}", extra="signed")
    model = Particular(call, Done(), takes="foreign")
    fails(check_llm(lambda: model, replace(REQUEST, tools=(book,))), "an answer to a history with its own calls")


class Ear(VAD):
    """Returns scripted values, by the number of frames so far."""

    provider = "broken"

    def __init__(self, plan: dict[int, VADEvent], edge_delay: float | None = None) -> None:
        self._plan = plan
        self._edge_delay = edge_delay

    @property
    def capabilities(self) -> VADCapabilities:
        return VADCapabilities(edge_delay=self._edge_delay)

    def open(self) -> VADStream:
        return EarStream(self._plan)


class EarStream(VADStream):
    def __init__(self, plan: dict[int, VADEvent]) -> None:
        self._plan = plan
        self._number = 0

    def push(self, frame: AudioFrame) -> Sequence[VADEvent]:
        self._number += 1
        return [self._plan[self._number]] if self._number in self._plan else []


@pytest.mark.parametrize(
    ("plan", "promise"),
    [
        ({10: VADSpeechStarted(0.0)}, "no events in silence"),
        ({110: VADSpeechStarted(0.0), 111: VADSpeechStarted(0.0)}, "alternate"),
        ({110: VADSpeechStarted(0.0)}, "every speech to end"),
        ({110: VADSpeechStarted(5.0)}, "0 <= ago"),
        ({110: VADSpeechStarted(0.0), 120: VADSpeechEnded(0.1)}, "min_silence"),
        ({}, "speech found"),
    ],
)
def test_a_vad_that_breaks_a_promise_is_found_out(plan: dict[int, VADEvent], promise: str) -> None:
    fails(check_vad(lambda: Ear(plan), SPEECH), promise)


@pytest.mark.parametrize(
    ("edge_delay", "plan", "promise"),
    [
        (None, {110: VADSpeechStarted(0.0), 120: VADVoicePaused(0.0)}, "no pauses of the voice"),
        (0.0, {110: VADVoicePaused(0.0)}, "within speech only"),
        (0.0, {110: VADSpeechStarted(0.0), 120: VADVoiceResumed(0.0)}, "that alternate"),
        (0.0, {110: VADSpeechStarted(0.0), 160: VADSpeechEnded(0.2)}, "ends where its last pause was"),
    ],
)
def test_a_vad_whose_pauses_break_a_promise_is_found_out(
    edge_delay: float | None, plan: dict[int, VADEvent], promise: str
) -> None:
    ended = {**plan, 160: VADSpeechEnded(0.2)} if 110 in plan and 120 in plan else plan
    fails(check_vad(lambda: Ear(ended, edge_delay), SPEECH), promise)


class Recogniser(STT):
    """Opens streams of the class that it is given."""

    provider = "broken"

    def __init__(self, stream: Callable[[], STTStream], capabilities: STTCapabilities | None = None) -> None:
        self._stream = stream
        self._capabilities = capabilities or STTCapabilities()

    @property
    def capabilities(self) -> STTCapabilities:
        return self._capabilities

    async def open(self) -> STTStream:
        return self._stream()


class Endless(STTStream):
    """Never ends its events."""

    def push(self, frame: AudioFrame) -> None: ...

    async def events(self) -> AsyncIterator[STTEvent]:
        async for event in ScriptedEvents():
            yield event

    async def aclose(self) -> None: ...


class ScriptedEvents:
    """One final with words, then nothing for ever."""

    def __init__(self) -> None:
        self._is_first = True

    def __aiter__(self) -> ScriptedEvents:
        return self

    async def __anext__(self) -> STTEvent:
        if not self._is_first:
            await anyio.sleep_forever()
        self._is_first = False
        return STTFinal(text="hello")


class Judging(STTStream):
    """Reports the events that it is given, the final of a flush last."""

    def __init__(self, *events: STTEvent) -> None:
        self._events = events

    def push(self, frame: AudioFrame) -> None: ...

    async def events(self) -> AsyncIterator[STTEvent]:
        for event in (*self._events, STTFinal(text="hello")):
            yield event

    async def aclose(self) -> None: ...


@pytest.mark.parametrize(
    ("events", "decides", "promise"),
    [
        ((STTEndOfTurn(),), False, "no STTEndOfTurn"),
        ((STTEagerEndOfTurn("hello"),), False, "no STTEagerEndOfTurn"),
        ((STTTurnResumed(),), False, "no STTTurnResumed"),
        ((STTTurnResumed(),), True, "an eager end before STTTurnResumed"),
        ((STTEagerEndOfTurn("hello"), STTEndOfTurn()), True, "the final of its words before STTEndOfTurn"),
        ((STTInterim(text="hello"), STTEndOfTurn()), True, "the final of its words before STTEndOfTurn"),
    ],
)
def test_a_recogniser_whose_judgements_break_a_promise_is_found_out(
    events: tuple[STTEvent, ...], decides: bool, promise: str
) -> None:
    capabilities = STTCapabilities(emits_end_of_turn=decides)
    fails(check_stt(lambda: Recogniser(lambda: Judging(*events), capabilities), SPEECH), promise)


def test_a_recogniser_that_judges_turns_keeps_the_promises() -> None:
    words = STTInterim(text="hello")
    events = words, STTEagerEndOfTurn(), STTTurnResumed(), STTEagerEndOfTurn("hello"), STTTurnResumed(), STTEndOfTurn()
    said = (*events[:-2], STTFinal(text=""), STTEndOfTurn())
    capabilities = STTCapabilities(emits_end_of_turn=True)
    run_virtual(check_stt(lambda: Recogniser(lambda: Judging(*said), capabilities), SPEECH))


def test_a_recogniser_that_breaks_a_promise_is_found_out() -> None:
    fails(check_stt(lambda: ScriptedSTT(), SPEECH), "a final transcript")
    fails(check_stt(lambda: ScriptedSTT(["good bye"]), SPEECH, expected="hello"), "the words 'hello'")
    fails(check_stt(lambda: ScriptedSTT(["hello"] * 3), SPEECH, expected="hello"), "after a flush in mid-speech")
    fails(check_stt(lambda: ScriptedSTT(open_delay=HANG), SPEECH), "return a stream")
    fails(check_stt(lambda: Recogniser(Endless), SPEECH), "events to end")


def test_a_recogniser_that_says_what_it_did_not_promise_is_found_out() -> None:
    async def main() -> None:
        stt = ScriptedSTT(["hello"], capabilities=STTCapabilities(emits_interims=False))

        async def talk() -> None:
            await anyio.sleep(0.1)
            stt.streams[0].emit(STTInterim(text="hel"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(talk)
            await check_stt(lambda: stt, SPEECH, pace=0.02)

    with pytest.raises(ExceptionGroup) as caught:
        run_virtual(main())
    assert caught.group_contains(AssertionError, match="no interims")


WORDS = words_at(1.0, "Hello there.")


@pytest.mark.parametrize(
    ("can", "final", "promise"),
    [
        ("words", STTFinal(text="Hello there."), "words with the letters of 'Hello there.'"),
        ("words", STTFinal(text="Hello there.", words=WORDS[:1]), "words with the letters"),
        ("words", STTFinal(text="Hello there.", words=words_at(0.0, "Hello there.")), "words in their order between"),
        ("words", STTFinal(text="Hello there.", words=words_at(4.0, "Hello there.")), "words in their order between"),
        ("words", STTFinal(text="There. Hello", words=(WORDS[1], WORDS[0])), "words in their order between"),
        ("words", STTFinal(text="Hello.", words=(replace(WORDS[0], text="Hello.", confidence=2.0),)), "of each word"),
        ("", STTFinal(text="Hello there.", words=WORDS[:1]), "words with the letters"),
        ("speakers", STTFinal(text="Hello there."), "a speaker of each final"),
    ],
)
def test_a_recogniser_whose_words_break_a_promise_is_found_out(can: str, final: STTFinal, promise: str) -> None:
    capabilities = STTCapabilities(emits_words=can == "words", diarizes=can == "speakers")

    class Misreporting(ScriptedSTTStream):
        def flush(self) -> None:
            self.emit(final)

    class Misreporter(ScriptedSTT):
        async def open(self) -> ScriptedSTTStream:
            return Misreporting(lambda: None, 0.0, 0.0)

    fails(check_stt(lambda: Misreporter(capabilities=capabilities), SPEECH), promise)


def test_a_recogniser_that_lies_about_key_terms_is_found_out() -> None:
    class Refusing(ScriptedSTT):
        async def open_with_key_terms(self, terms: Sequence[str]) -> ScriptedSTTStream:
            raise CapabilityError(self.provider, "takes_key_terms", "use another one")

    class Taking(ScriptedSTT):
        async def open_with_key_terms(self, terms: Sequence[str]) -> ScriptedSTTStream:
            return await self.open()

    can = STTCapabilities(takes_key_terms=True)
    fails(check_stt(lambda: Refusing(["hello"] * 2, capabilities=can), SPEECH), "key terms taken")
    fails(check_stt(lambda: Taking(["hello"] * 2), SPEECH), "a CapabilityError for key terms")


class Shortener(Denoiser, DenoiseStream):
    """Returns half of its input."""

    provider = "broken"

    def open(self) -> DenoiseStream:
        return self

    def push(self, frame: AudioFrame) -> AudioFrame:
        return AudioFrame(frame.data[: frame.samples // 2 * 2], frame.sample_rate)


class Copier(Shortener):
    """Returns its input."""

    def push(self, frame: AudioFrame) -> AudioFrame:
        return frame


def test_a_denoiser_that_loses_samples_is_found_out() -> None:
    fails(check_denoiser(Shortener, SPEECH), "320 mono samples")
    run_virtual(check_denoiser(Copier, SPEECH))


class Judge(TurnDetector, TurnDetectorStream):
    """Answers with the probabilities that it is given, by text."""

    provider = "broken"

    def __init__(self, **probabilities: float) -> None:
        self._probabilities = probabilities

    def open(self) -> TurnDetectorStream:
        return self

    async def predict(self, context: TurnContext) -> EndOfTurnPrediction:
        probability = self._probabilities[context.text]
        await anyio.sleep(100.0 if probability == HANG else 0.0)
        return EndOfTurnPrediction(complete=probability > 0.5, probability=probability)


def test_a_turn_detector_that_breaks_a_promise_is_found_out() -> None:
    done, open_ = TurnContext(text="done"), TurnContext(text="and")
    run_virtual(check_turn_detector(lambda: Judge(done=0.9, **{"and": 0.1}), done, open_))
    fails(check_turn_detector(lambda: Judge(done=1.9, **{"and": 0.1}), done, open_), "0 <= probability <= 1")
    fails(check_turn_detector(lambda: Judge(done=0.1, **{"and": 0.9}), done, open_), "higher probability")
    fails(check_turn_detector(lambda: Judge(done=HANG, **{"and": 0.9}), done, open_), "a verdict within")


def test_a_realtime_model_that_breaks_a_promise_is_found_out() -> None:
    silent = ScriptedRealtimeModel("One.", seconds_per_word=0.0)
    fails(check_realtime_model(lambda: silent, REQUEST, SPEECH), "audible")
    hanging = ScriptedRealtimeModel([HANG], capabilities=RealtimeCapabilities())
    fails(check_realtime_model(lambda: hanging, REQUEST, SPEECH), "an answer within")
    mute = ScriptedRealtimeModel("One.", hears=["something", "else"])
    fails(check_realtime_model(lambda: mute, REQUEST, SPEECH, hears="a table"), "a transcript with 'a table'")
    deaf = ScriptedRealtimeModel("One.")
    fails(check_realtime_model(lambda: deaf, REQUEST, SPEECH, hears="a table"), "a final transcript of each commit")


def test_a_failure_that_is_no_provider_error_is_found_out() -> None:
    async def raises(error: Exception) -> None:
        raise error

    async def returns() -> None: ...

    fails(check_failure(lambda: raises(KeyError("text"))), "map foreign errors")
    fails(check_failure(lambda: raises(ProviderConnectionError("lost", provider="unknown"))), "names its provider")
    fails(check_failure(returns), "the request succeeded")
    fails(check_failure(anyio.sleep_forever), "within 10.0 s")
