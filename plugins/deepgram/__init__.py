"""Deepgram's recognisers and voices; no package but vivavoce is needed.

    deepgram.STT()                                       # Nova-3, English; DEEPGRAM_API_KEY
    deepgram.STT(language="multi")                       # ten languages, also within one sentence
    deepgram.STT("nova-3-medical", region="eu")
    deepgram.FluxSTT()                                   # judges the ends of turns; needs no turn detector
    deepgram.TTS("aura-2-thalia-en")                     # a voice, which has its language
    deepgram.FluxTTS("flux-alexis-en")                   # takes text as it comes, and tells what was heard at a cut
    deepgram.STT(base_url="https://deepgram.example.com", api_key=None)    # a server of your own

`vivavoce.plugins.deepgram.twin` is a server on loopback for tests without a key.

Decisions:

* The end of an utterance is settled by the pipeline's VAD (`Finalize`), or else by the service (`speech_final`,
  `UtteranceEnd`). `SpeechStarted` of the service is not asked for: the VAD here is sooner.
* Flux judges turns: the pipeline asks no turn detector, and begins an answer out of sight at an eager end. A turn that
  something else ends (`commit_turn()`, a limit) is ended by `ForceEndTurn`.
* Aura speaks by a request for each sentence, Flux TTS by one websocket on which each answer is a turn. A cut turn is
  interrupted where it was played, and the service tells what was heard of it.
* A lost connection is opened again: the audio since the last settled word is sent again, words that come twice are
  dropped by their times, and the times go on.
* The environment's key goes to hosts of deepgram.com only.
"""

from vivavoce.pipelines.net.options import ConnectionOptions
from vivavoce.plugins.deepgram.flux import DEFAULT_FLUX_MODEL, FluxOptions, FluxSTT
from vivavoce.plugins.deepgram.flux_tts import DEFAULT_FLUX_VOICE, FluxTTS, FluxTTSOptions
from vivavoce.plugins.deepgram.options import STTOptions
from vivavoce.plugins.deepgram.stt import DEFAULT_STT_MODEL, STT
from vivavoce.plugins.deepgram.tts import DEFAULT_VOICE, TTS, TTSOptions

__all__ = [
    "DEFAULT_VOICE",
    "TTS",
    "TTSOptions",
    "DEFAULT_FLUX_MODEL",
    "DEFAULT_FLUX_VOICE",
    "DEFAULT_STT_MODEL",
    "STT",
    "ConnectionOptions",
    "FluxOptions",
    "FluxSTT",
    "FluxTTS",
    "FluxTTSOptions",
    "STTOptions",
]
