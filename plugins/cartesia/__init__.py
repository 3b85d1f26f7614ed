"""Voices and recognisers of Cartesia (Sonic, Ink); no package but vivavoce is needed.

    cartesia.TTS()                                                                  # CARTESIA_API_KEY
    cartesia.TTS(voice="a0e99841-438c-4a64-b679-ae501e7d6091", language="de")
    cartesia.TTS(model="sonic-3", options=cartesia.TTSOptions(speed=1.1, emotion="calm"))
    cartesia.STT()                                # ink-2, English, which decides turns: it needs no turn detector
    cartesia.STT("ink-whisper", language="de")    # behind a VAD; words with their times
    cartesia.TTS(base_url="https://<region's host>", api_key=…)

It needs no further package: `pip install 'vivavoce[cartesia]'` is `pip install vivavoce`. The vendor's SDK is not used:
with one stack for all vendors there is one pool, one policy of limits and one table of errors. The SDK, and livekit's
plugin, prove the server that the tests run on: `vivavoce.plugins.cartesia.twin`.

Decisions:

* One websocket, which stays open between answers, carries the answers of up to ten sessions. An answer is a *context*
  with an id of its own; audio of a context that is over is dropped by its id, so that nothing of a cut answer sounds in
  the next one.
* A cut cancels the context at the vendor, and keeps the connection.
* Text is sent sentence by sentence, without waiting at the server (`max_buffer_delay_ms` 0): so it is certain when a
  sentence is spoken, also if the model pauses behind it. All sentences of an answer are one context, with one prosody.
* The server ends a context a second after its last audio. A sentence that comes later begins the next context, and the
  times of its words go on.
* The key of the environment goes to hosts of cartesia.ai. Any other `base_url` gets the given key only, and needs none.
* A setting that has no effect on the model, and a language that it has not, are refused when the voice is made. Speed
  and volume have no effect on sonic-3.5 for now, says the vendor; sonic-3 has them.
* A request that the server refuses is an error that names model, voice and language, and where to find others.
* ink-2 decides turns (`/stt/turns/websocket`): the pipeline asks no turn detector, and begins an answer out of sight at
  an eager end. The service has no message that ends a turn: one that something else ends is ended here, by its words so
  far, which it never revises. Its messages have no times: words have none, and after a lost connection the turn is
  heard again.
* ink-whisper, and ink-2 with `decides_turns=False`, settle an utterance at the VAD's word (`finalize`).
"""

from vivavoce.pipelines.net.options import ConnectionOptions
from vivavoce.plugins.cartesia.models import DEFAULT_MODEL, DEFAULT_STT_MODEL, DEFAULT_VOICE
from vivavoce.plugins.cartesia.options import TTSOptions
from vivavoce.plugins.cartesia.stt import STT
from vivavoce.plugins.cartesia.stt_options import STTOptions
from vivavoce.plugins.cartesia.tts import TTS

__all__ = [
    "DEFAULT_MODEL",
    "DEFAULT_STT_MODEL",
    "DEFAULT_VOICE",
    "STT",
    "TTS",
    "ConnectionOptions",
    "STTOptions",
    "TTSOptions",
]
