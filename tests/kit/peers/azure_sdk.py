"""Sessions with Azure Speech by Microsoft's own SDK; run by the interpreter that has it.

    python azure_sdk.py < job.json

The job has `host` (ws://…), `stt`, `tts` (addresses), `key` and, in base64, `speech`: 16 kHz PCM. Each session's
observations are printed as one line of JSON. Imports nothing of vivavoce.
"""

from __future__ import annotations

import base64
import json
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import azure.cognitiveservices.speech as sdk

LIMIT = 30.0
VOICE = "en-US-AvaMultilingualNeural"

Job = dict[str, Any]


def config(job: Job, key: str = "", **address: str) -> sdk.SpeechConfig:
    """Return the SDK's settings for the server."""
    made = sdk.SpeechConfig(subscription=key or job["key"], **address)
    made.output_format = sdk.OutputFormat.Detailed
    made.request_word_level_timestamps()
    made.set_property(sdk.PropertyId.Speech_SegmentationSilenceTimeoutMs, "500")
    made.set_speech_synthesis_output_format(sdk.SpeechSynthesisOutputFormat.Raw24Khz16BitMonoPcm)
    made.speech_synthesis_voice_name = VOICE
    return made


def listen(job: Job, recogniser: Any, stream: Any, *names: str) -> Job:
    """Run a recogniser over the speech, a pause and the speech again, whose end is the end of the audio."""
    told: Job = {"interims": [], "finals": [], "cancelled": ""}
    done = threading.Event()
    interim, final, stop = names

    def cancelled(event: Any) -> None:
        if event.cancellation_details.reason == sdk.CancellationReason.Error:
            told["cancelled"] = event.cancellation_details.error_details
        done.set()

    getattr(recogniser, interim).connect(lambda event: told["interims"].append(event.result.text))
    getattr(recogniser, final).connect(lambda event: told["finals"].append(json.loads(event.result.json or "{}")))
    recogniser.canceled.connect(cancelled)
    getattr(recogniser, f"start_{stop}").__call__().get()
    speech = base64.b64decode(job["speech"])
    stream.write(speech + bytes(32_000) + speech)
    stream.close()
    if not done.wait(LIMIT):
        told["cancelled"] = "nothing came"
    getattr(recogniser, f"stop_{stop}")().get()
    return told


def recognise(job: Job, settings: sdk.SpeechConfig, **options: Any) -> Job:
    """Recognise with a phrase list."""
    stream = sdk.audio.PushAudioInputStream()
    audio = sdk.audio.AudioConfig(stream=stream)
    recogniser = sdk.SpeechRecognizer(speech_config=settings, audio_config=audio, **options)
    phrases = sdk.PhraseListGrammar.from_recognizer(recogniser)
    phrases.addPhrase("Vivavoce")
    return listen(job, recogniser, stream, "recognizing", "recognized", "continuous_recognition_async")


def stt_cloud(job: Job) -> Job:
    """Recognise at the cloud's address."""
    return recognise(job, config(job, endpoint=job["stt"]))


def stt_container(job: Job) -> Job:
    """Recognise at a container's address."""
    return recognise(job, config(job, host=job["host"]))


def stt_languages(job: Job) -> Job:
    """Recognise with candidates for the language."""
    settings = config(job, endpoint=job["stt"])
    settings.set_property(sdk.PropertyId.SpeechServiceConnection_LanguageIdMode, "Continuous")
    candidates = sdk.languageconfig.AutoDetectSourceLanguageConfig(languages=["en-US", "es-ES"])
    return recognise(job, settings, auto_detect_source_language_config=candidates)


def stt_speakers(job: Job) -> Job:
    """Tell speakers apart."""
    stream = sdk.audio.PushAudioInputStream()
    audio = sdk.audio.AudioConfig(stream=stream)
    transcriber = sdk.transcription.ConversationTranscriber(
        speech_config=config(job, endpoint=job["stt"]), audio_config=audio
    )
    return listen(job, transcriber, stream, "transcribing", "transcribed", "transcribing_async")


def stt_refused(job: Job) -> Job:
    """Be refused for a wrong key."""
    return {"key": recognise(job, config(job, "f" * 32, endpoint=job["stt"]))["cancelled"]}


class Voice:
    """A voice, and the words of which it tells."""

    def __init__(self, settings: sdk.SpeechConfig) -> None:
        self.sdk = sdk.SpeechSynthesizer(speech_config=settings, audio_config=None)
        self._words: list[Any] = []
        self._over = threading.Event()
        self.sdk.synthesis_word_boundary.connect(self._note)
        self.sdk.synthesis_completed.connect(lambda event: self._over.set())
        self.sdk.synthesis_canceled.connect(lambda event: self._over.set())

    def spoken(self, speech: Any) -> Job:
        """Return what comes of a text; events come behind the result, from another thread."""
        result = speech.get()
        self._over.wait(LIMIT)
        self._over.clear()
        words, self._words = self._words, []
        details = result.cancellation_details
        told = {"reason": str(result.reason), "size": len(result.audio_data), "words": words}
        return told | {"cancelled": details.error_details if details else ""}

    def _note(self, event: Any) -> None:
        self._words.append([event.text, event.audio_offset, event.duration.total_seconds(), event.text_offset])


def tts_text(job: Job) -> Job:
    """Speak two texts as documents, one after the other, on one connection."""
    voice = Voice(config(job, host=job["host"]))
    first = voice.spoken(voice.sdk.speak_text_async("Hello there & <you>."))
    return {"first": first, "second": voice.spoken(voice.sdk.speak_text_async("Well, then."))}


def tts_stream(job: Job) -> Job:
    """Speak a text that comes in pieces."""
    voice = Voice(config(job, endpoint=job["tts"]))
    request = sdk.SpeechSynthesisRequest(input_type=sdk.SpeechSynthesisRequestInputType.TextStream)
    request.rate = "1.2"
    request.style = "cheerful"
    speech = voice.sdk.speak_async(request)
    for piece in ("Hello th", "ere. How are", " you?"):
        request.input_stream.write(piece)
    request.input_stream.close()
    return voice.spoken(speech)


def tts_stopped(job: Job) -> Job:
    """Stop a long text, and speak another one."""
    voice = Voice(config(job, host=job["host"]))
    begun = threading.Event()
    voice.sdk.synthesizing.connect(lambda event: begun.set())
    speech = voice.sdk.speak_text_async(" ".join(["word"] * 200) + ".")
    begun.wait(LIMIT)
    voice.sdk.stop_speaking_async().get()
    stopped = voice.spoken(speech)
    return {"stopped": stopped, "next": voice.spoken(voice.sdk.speak_text_async("All new."))}


def tts_refused(job: Job) -> Job:
    """Be refused for a voice that does not exist."""
    settings = config(job, host=job["host"])
    settings.speech_synthesis_voice_name = "en-US-NobodyNeural"
    voice = Voice(settings)
    return voice.spoken(voice.sdk.speak_text_async("Hello."))


SESSIONS: tuple[Callable[[Job], Job], ...] = (
    stt_cloud,
    stt_container,
    stt_languages,
    stt_speakers,
    stt_refused,
    tts_text,
    tts_stream,
    tts_stopped,
    tts_refused,
)


def main() -> None:
    """Run all sessions, side by side."""
    job = json.load(sys.stdin)
    with ThreadPoolExecutor(len(SESSIONS)) as threads:
        told = list(threads.map(lambda session: session(job), SESSIONS))
    print(json.dumps({session.__name__: one for session, one in zip(SESSIONS, told, strict=True)}), flush=True)


if __name__ == "__main__":
    main()
