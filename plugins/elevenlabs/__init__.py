"""Voices and the realtime recogniser (Scribe) of ElevenLabs.

    elevenlabs.TTS()                                                     # ELEVENLABS_API_KEY, or ELEVEN_API_KEY
    elevenlabs.TTS(voice="<an id of your library>", language="de")
    elevenlabs.TTS(options=elevenlabs.TTSOptions(speed=1.1, stability=0.4))
    elevenlabs.TTS(region="eu")
    elevenlabs.STT()                                                     # Scribe v2 realtime, English
    elevenlabs.STT(language="")                                          # it detects the language

It needs no further package: `pip install 'vivavoce[elevenlabs]'` is `pip install vivavoce`. The vendor's SDK is not
used: with one stack for all vendors there is one pool, one policy of limits and one table of errors. The SDK, and
livekit's plugin, prove the server that the tests run on: `vivavoce.plugins.elevenlabs.twin`.

Decisions of the voices:

* One websocket, which stays open between answers, carries up to five answers. An answer is a *context* with an id of
  its own; audio of a context that is over is dropped by its id, so that nothing of a cut answer sounds in the next one.
* A cut closes the context at the vendor, and keeps the connection. The vendor says what it has begun, and counts the
  context until it has said so: only then its place on the connection is free. A sixth one would end the connection.
* Each sentence is flushed, so that it is certain when it is spoken, also if the model pauses behind it. All sentences
  of an answer are one context, with one prosody.
* Words are those of the text as it was sent, so that heard text is exact; with pronunciation dictionaries those of the
  normalised text, since the others come twice.
* A setting or a language that the model has not is refused when the voice is made. A request that the server refuses is
  an error that names model, voice and language, and where to find others.

Decisions of the recogniser:

* Words are settled at the end of speech as the pipeline's VAD reports it: the service's own end takes a second longer.
  With `STTOptions(commit="vad")` it settles them by itself too, so that a pipeline without a VAD has finals.
* A lost connection is opened again: the audio since the last settled word is sent again, words that come twice are
  dropped by their times, and the times go on. Silence that is added to a short commit does not count in them.
* Words that are discarded are settled at the service too, and dropped: nothing of them is in the next transcript.

The key of the environment goes to hosts of elevenlabs.io. Any other `base_url` gets the given key only, and needs none.
"""

from vivavoce.pipelines.net.options import ConnectionOptions
from vivavoce.plugins.elevenlabs.models import DEFAULT_MODEL, DEFAULT_STT_MODEL, DEFAULT_VOICE
from vivavoce.plugins.elevenlabs.options import Pronunciation, STTOptions, TTSOptions
from vivavoce.plugins.elevenlabs.stt import STT
from vivavoce.plugins.elevenlabs.tts import TTS

__all__ = [
    "DEFAULT_MODEL",
    "DEFAULT_STT_MODEL",
    "DEFAULT_VOICE",
    "STT",
    "TTS",
    "ConnectionOptions",
    "Pronunciation",
    "STTOptions",
    "TTSOptions",
]
