"""Conformance checks of STT, VAD, denoiser and turn detector. Each takes a factory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack

import anyio

from vivavoce.pipelines.core.errors import CapabilityError
from vivavoce.pipelines.core.words import letters_of
from vivavoce.pipelines.denoise.base import Denoiser
from vivavoce.pipelines.media.frame import FRAME_SECONDS, AudioFrame
from vivavoce.pipelines.stt.base import (
    STT,
    STTEagerEndOfTurn,
    STTEndOfTurn,
    STTEvent,
    STTFinal,
    STTInterim,
    STTStream,
    STTTurnResumed,
)
from vivavoce.pipelines.testing.promises import LIMIT, check_closing, frames_of, require, within
from vivavoce.pipelines.turn_detector.base import TurnContext, TurnDetector
from vivavoce.pipelines.vad.base import (
    VAD,
    VADEvent,
    VADSpeechEnded,
    VADSpeechStarted,
    VADStream,
    VADVoicePaused,
    VADVoiceResumed,
)

SILENCE = 1.0
"""Seconds of silence around the speech."""

TOLERANCE = 0.001
"""Seconds by which times may differ from the promised ones: one sample and rounding."""
EDGE_LIMIT = 0.15
"""Seconds of `min_silence` above which a pause of the voice must be reported before the speech ends."""
RUN_UP = 0.5
"""Seconds before the speech at which its first word may begin, by the recogniser."""


async def check_stt(
    make: Callable[[], STT], speech: AudioFrame, *, expected: str | None = None, pace: float = 0.0, limit: float = LIMIT
) -> None:
    """Check the promises of an STT.

    A stream takes audio at once and hears words in `speech`; events are of the promised kinds; an end of the turn comes
    behind the final of its words, and `STTTurnResumed` behind an eager end; `speech_started`, `speech_ended`, `flush`
    and `discard` are taken at any time; words after a flush in mid-speech are neither lost nor doubled (checked
    where `expected` is given); streams do not disturb each other; a closed stream ends its events, takes frames without
    complaint and may be closed twice. Words have the letters of their final, and times within the audio that grow over
    the stream; speakers and words come where the capabilities say so; key terms are taken, or refused with a
    CapabilityError.

    Args:
        speech: One utterance, mono, any rate.
        expected: The spoken words, compared without case and punctuation at their ends; None accepts any words.
        pace: Seconds between two frames, for providers that need real time.
        limit: Seconds for each wait.
    """
    async with AsyncExitStack() as stack:
        stt = make()
        stack.push_async_callback(stt.aclose)
        with within(limit, stt, "open() to return a stream"):
            streams = [await stt.open() for _ in range(2)]
        for one in streams:
            stack.push_async_callback(one.aclose)
        for one in streams:  # the second one continues when the first one is closed
            events = one.events()
            heard = await _recognize(stt, one, events, [speech], expected, pace, limit)
            require(bool(_words(heard)), stt, f"a final transcript with words within {limit} s", heard)
            if expected is not None:
                require(_words(heard) == _plain(expected), stt, f"the words {expected!r}", _words(heard))
            _check_events(stt, heard, speech.duration)
            one.discard()
            await _check_stream_end(stt, one, events, limit)
        if expected is not None:
            await _check_flush_in_speech(stt, speech, expected, pace, limit)
        await _check_key_terms(stt, limit)
        await check_closing(stt, limit=limit)


async def check_vad(make: Callable[[], VAD], speech: AudioFrame, *, min_share: float = 0.5) -> None:
    """Check the promises of a VAD.

    Silence is no speech; starts and ends alternate, beginning with a start; `ago` lies in the audio pushed, an end at
    least `min_silence` back; it works with frames of 10, 20 and 30 ms; streams do not disturb each other; `reset()`
    forgets an open speech. With the capability `edge_delay`, pauses of the voice are reported within speech, and the
    last one is at the end of speech; without it there are none.

    Args:
        speech: One utterance, mono, any rate, with no silence around it.
        min_share: Least share of it that must be reported as speech.
    """
    vad = make()
    rate = vad.capabilities.sample_rate
    silence = AudioFrame.silence(SILENCE, speech.sample_rate)
    whole = AudioFrame(silence.data + speech.data + silence.data, speech.sample_rate)
    busy = vad.open()
    for frame in frames_of(speech, rate):
        busy.push(frame)
    for seconds in (0.01, 0.02, 0.03):
        stream = vad.open()
        quiet = _push_all(vad, stream, frames_of(silence, rate, seconds))
        require(not quiet, vad, "no events in silence", quiet)
        stream.reset()
        found = _push_all(vad, stream, frames_of(whole, rate, seconds))
        _check_alternation(vad, found)
        total = _speech_seconds(found)
        require(
            total + TOLERANCE >= min_share * speech.duration,
            vad,
            f"speech found in {min_share:.0%} of {speech.duration:.2f} s ({seconds * 1000:.0f} ms frames)",
            f"{total:.2f} s",
        )
        stream.close()
    busy.reset()
    after = _push_all(vad, busy, frames_of(whole, rate))
    _check_alternation(vad, after)
    busy.close()
    await check_closing(vad)


async def check_denoiser(make: Callable[[], Denoiser], noisy: AudioFrame) -> None:
    """Check the promises of a denoiser: same rate, same number of samples, mono; two streams at once.

    Args:
        noisy: Mono audio, any rate.
    """
    denoiser = make()
    rate = denoiser.capabilities.sample_rate
    first, second = denoiser.open(), denoiser.open()
    for number, frame in enumerate(frames_of(noisy, rate)):
        for stream in (first, second) if number % 2 else (first,):
            clean = stream.push(frame)
            same = (clean.sample_rate, clean.samples, clean.num_channels) == (rate, frame.samples, 1)
            require(same, denoiser, f"{frame.samples} mono samples of {rate} Hz", clean)
    require(denoiser.capabilities.delay >= 0, denoiser, "delay >= 0 s", denoiser.capabilities.delay)
    first.close()
    second.close()
    await check_closing(denoiser)


async def check_turn_detector(
    make: Callable[[], TurnDetector],
    complete: TurnContext,
    incomplete: TurnContext,
    *,
    complete_audio: AudioFrame | None = None,
    incomplete_audio: AudioFrame | None = None,
    limit: float = 1.0,
) -> None:
    """Check the promises of a turn detector: in time, a probability from 0 to 1, and the right order of two turns.

    Args:
        complete, incomplete: Turns of which the first sounds clearly more complete.
        complete_audio, incomplete_audio: Their audio for a detector that needs it, mono, any rate; else silence.
        limit: Seconds for one verdict; the pipeline waits 1.0 by default.
    """
    detector = make()
    wants = detector.capabilities
    stream, other = detector.open(), detector.open()
    silence = AudioFrame.silence(SILENCE, wants.sample_rate)
    verdicts = []
    for context, audio in ((complete, complete_audio), (incomplete, incomplete_audio)):
        for frame in frames_of(audio or silence, wants.sample_rate) if wants.needs_audio else ():
            stream.push(frame)
        with within(limit, detector, "a verdict"):
            verdict = await stream.predict(context)
        require(0 <= verdict.probability <= 1, detector, "0 <= probability <= 1", verdict)
        verdicts.append(verdict)
    require(
        verdicts[0].probability > verdicts[1].probability,
        detector,
        "a higher probability for the complete turn",
        verdicts,
    )
    stream.close()
    with within(limit, detector, "a verdict of a stream while another one is closed"):
        await other.predict(complete)
    other.close()
    await check_closing(detector)


async def _recognize(
    stt: STT,
    stream: STTStream,
    events: AsyncIterator[STTEvent],
    utterances: Sequence[AudioFrame],
    expected: str | None,
    pace: float,
    limit: float,
) -> list[STTEvent]:
    """Push silence, speech, silence as a pipeline does; return the events until the words are there, or the limit.

    Args:
        utterances: The speech, in pieces with a flush between them.
    """
    rate = stt.capabilities.sample_rate
    silence = frames_of(AudioFrame.silence(SILENCE, rate), rate)
    heard: list[STTEvent] = []

    async def push() -> None:
        for frame in silence:
            stream.push(frame)
            await anyio.sleep(pace)
        for number, speech in enumerate(utterances):
            if number:
                stream.flush()
            stream.speech_started(0.0)
            for frame in frames_of(speech, rate):
                stream.push(frame)
                await anyio.sleep(pace)
        for frame in silence:
            stream.push(frame)
            await anyio.sleep(pace)
        if stt.capabilities.emits_end_of_turn:
            stream.speech_ended()
        stream.flush()

    sound = sum(speech.duration for speech in utterances) + 2 * SILENCE
    with anyio.move_on_after(limit + pace * sound / FRAME_SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(push)
            async for event in events:
                heard.append(event)
                if _words(heard) and (expected is None or _words(heard) == _plain(expected)):
                    break
            tasks.cancel_scope.cancel()
    return heard


async def _check_flush_in_speech(stt: STT, speech: AudioFrame, expected: str, pace: float, limit: float) -> None:
    """Say the words twice without a pause, with a flush between them, and wait for them twice."""
    with within(limit, stt, "open() to return a stream"):
        stream = await stt.open()
    twice = f"{expected} {expected}"
    try:
        heard = await _recognize(stt, stream, stream.events(), [speech, speech], twice, pace, limit)
    finally:
        await stream.aclose()
    require(_words(heard) == _plain(twice), stt, f"{expected!r} before and after a flush in mid-speech", _words(heard))
    _check_events(stt, heard, 2 * speech.duration)


async def _check_key_terms(stt: STT, limit: float) -> None:
    with within(limit, stt, "open_with_key_terms() to return a stream, or to raise a CapabilityError"):
        try:
            stream = await stt.open_with_key_terms(("vivavoce", "table by the window"))
        except CapabilityError as error:
            require(not stt.capabilities.takes_key_terms, stt, "key terms taken, by its capabilities", error)
            return
        await stream.aclose()
    require(stt.capabilities.takes_key_terms, stt, "a CapabilityError for key terms, by its capabilities", stream)


def _check_events(stt: STT, heard: list[STTEvent], seconds: float) -> None:
    """Check the events of a stream that heard `seconds` of speech between two silences."""
    promises, shown, is_eager, at = stt.capabilities, "", False, SILENCE - RUN_UP
    for event in heard:
        require(isinstance(event, STTEvent), stt, "an STTEvent", event)
        if isinstance(event, STTInterim):
            require(promises.emits_interims, stt, "no interims, by its capabilities", event)
            shown = event.text
        if isinstance(event, STTEagerEndOfTurn | STTTurnResumed | STTEndOfTurn):
            require(promises.emits_end_of_turn, stt, f"no {type(event).__name__}, by its capabilities", event)
        if isinstance(event, STTTurnResumed):
            require(is_eager, stt, "an eager end before STTTurnResumed", heard)
        if isinstance(event, STTEndOfTurn):
            require(not shown.strip(), stt, "the final of its words before STTEndOfTurn", heard)
        if isinstance(event, STTEagerEndOfTurn):
            shown, is_eager = event.text or shown, True
        elif not isinstance(event, STTInterim):
            is_eager = False
        if isinstance(event, STTFinal):
            shown = ""
            sure = event.confidence is None or 0 <= event.confidence <= 1
            require(sure, stt, "0 <= confidence <= 1 or None", event.confidence)
            _check_speakers(stt, event)
            at = _check_words(stt, event, at, 2 * SILENCE + seconds)


def _check_speakers(stt: STT, final: STTFinal) -> None:
    if stt.capabilities.diarizes and final.text.strip():
        names = {final.speaker, *(word.speaker for word in final.words)} - {""}
        require(bool(names), stt, "a speaker of each final, by its capabilities", final)


def _check_words(stt: STT, final: STTFinal, begin: float, end: float) -> float:
    """Check the words of a final that may begin and end then; return the beginning of the last one."""
    if not (stt.capabilities.emits_words or final.words):
        return begin
    spelt = letters_of("".join(word.text for word in final.words))
    require(spelt == letters_of(final.text), stt, f"words with the letters of {final.text!r}", spelt)
    for word in final.words:
        in_order = begin <= word.start <= word.end <= end + TOLERANCE
        require(in_order, stt, f"words in their order between {begin:.2f} s and {end:.2f} s of the stream", word)
        sure = word.confidence is None or 0 <= word.confidence <= 1
        require(sure, stt, "0 <= confidence <= 1 or None of each word", word)
        begin = word.start
    return begin


async def _check_stream_end(stt: STT, stream: STTStream, events: AsyncIterator[STTEvent], limit: float) -> None:
    with within(limit, stt, "aclose() to return and the events to end"):
        await stream.aclose()
        await stream.aclose()
        async for _ in events:
            pass
    rate = stt.capabilities.sample_rate
    stream.push(AudioFrame.silence(0.02, rate))
    stream.speech_ended()
    stream.flush()


def _words(events: list[STTEvent]) -> str:
    return _plain(" ".join(event.text for event in events if isinstance(event, STTFinal)))


def _plain(text: str) -> str:
    return " ".join(word.strip(".,;:!?") for word in text.casefold().split())


def _push_all(vad: VAD, stream: VADStream, frames: list[AudioFrame]) -> list[tuple[float, VADEvent]]:
    """Push frames; return the events with their true times, checked against the pushed audio."""
    found: list[tuple[float, VADEvent]] = []
    now = 0.0
    for frame in frames:
        now += frame.duration
        for event in stream.push(frame):
            require(0 <= event.ago <= now + TOLERANCE, vad, f"0 <= ago <= {now:.3f} s of audio", event)
            if isinstance(event, VADSpeechEnded):
                silence = vad.capabilities.min_silence
                require(event.ago >= silence - TOLERANCE, vad, f"an end at least min_silence={silence} s ago", event)
            found.append((now - event.ago, event))
    return found


def _check_alternation(vad: VAD, found: list[tuple[float, VADEvent]]) -> None:
    events = [event for _, event in found if not isinstance(event, VADVoicePaused | VADVoiceResumed)]
    kinds = [type(event) for event in events]
    alternating = [(VADSpeechStarted, VADSpeechEnded)[number % 2] for number in range(len(kinds))]
    require(kinds == alternating, vad, "starts and ends that alternate, beginning with a start", events)
    require(len(kinds) % 2 == 0, vad, "every speech to end in the silence after it", events)
    _check_edges(vad, found)


def _check_edges(vad: VAD, found: list[tuple[float, VADEvent]]) -> None:
    reports_edges = vad.capabilities.edge_delay is not None
    paused_at: float | None = None
    is_speech = False
    for at, event in found:
        if isinstance(event, VADVoicePaused | VADVoiceResumed):
            require(reports_edges, vad, "no pauses of the voice, since edge_delay is None", event)
            require(is_speech, vad, "pauses of the voice within speech only", event)
            is_pause = isinstance(event, VADVoicePaused)
            require(is_pause == (paused_at is None), vad, "pauses of the voice and their ends that alternate", event)
            paused_at = at if is_pause else None
            continue
        is_speech = isinstance(event, VADSpeechStarted)
        if not is_speech and reports_edges and vad.capabilities.min_silence > EDGE_LIMIT:
            is_there = paused_at is not None and abs(paused_at - at) <= TOLERANCE
            require(is_there, vad, "a speech that ends where its last pause was", (paused_at, at))
        paused_at = None


def _speech_seconds(found: list[tuple[float, VADEvent]]) -> float:
    signs = {VADSpeechStarted: -1.0, VADSpeechEnded: 1.0}
    return sum(signs.get(type(event), 0.0) * at for at, event in found)
