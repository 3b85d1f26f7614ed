"""A server on loopback that speaks ElevenLabs' streaming protocols from a script: for apps and plugins that use it.

    async with ElevenLabsTwin() as twin:
        tts = elevenlabs.TTS(base_url=twin.url, api_key=twin.key)
        twin.hears("A table for two, please.")            # the next stretch of sound
        stt = elevenlabs.STT(base_url=twin.url, api_key=twin.key)

It is a *twin*: clients that were written elsewhere (ElevenLabs' SDK, livekit-plugins-elevenlabs) hold sessions with it
in this repository's tests.

* `/v1/text-to-speech/VOICE/multi-stream-input`: up to five contexts a connection; a sixth one ends it. Each context
  speaks its texts one after the other, with a tone of a level of its own, and each word sounds for `TwinPace.word`
  seconds. Text waits for 120, 160 … characters unless the client flushes or asks for `auto_mode`. `close_context` stops
  what was not flushed; what was flushed is spoken, and then comes `isFinal`. `TwinPace` chooses the spellings of the
  fields, and where the times of characters count from.
* `/v1/speech-to-text/realtime` (Scribe v2): partial transcripts, commits by the client or by silence, each with both
  messages, words with times and logprobs, the detected language, key terms; a commit of less than 0.3 s ends the
  session. It hears any sound, for the texts of `hears()`; and `speech()`, whose samples carry the words.
* `GET /v1/user`: tries a key, for `vivavoce doctor`.
* Handshakes and messages are checked. A wrong key and an unknown voice are refused after the handshake, as the service
  does it: an error message, then close 1008.
* Faults on demand: refused handshakes, errors, any close code, lost connections, silence, frames that break the
  protocol.

Unchecked, since no document tells them: the text of a refused handshake's body, the end of a context by inactivity
(here `isFinal`), the end of an idle connection (here close 1000), and the errors' names for settings out of range.

Sources: https://elevenlabs.io/docs/api-reference/text-to-speech/v-1-text-to-speech-voice-id-multi-stream-input,
https://elevenlabs.io/docs/eleven-api/guides/how-to/websockets/multi-context-web-socket,
https://elevenlabs.io/docs/api-reference/speech-to-text/v-1-speech-to-text-realtime; the fields from elevenlabs 2.78.0,
`types/websocket_tts_client_message_multi.py`, `types/websocket_tts_server_message_multi.py`, `types/alignment.py`,
`realtime/connection.py`. Contexts: https://github.com/livekit/agents-js/issues/1985,
https://github.com/pipecat-ai/pipecat/pull/4126. Both spellings of ids and times: livekit-plugins-elevenlabs 1.8.9,
`tts.py`. Times by chunk without, and perhaps by answer with `sync_alignment`: pipecat-ai 1.14.0 adds the chunks up,
livekit's plugin does not.
"""

from vivavoce.pipelines.testing.ear import Said
from vivavoce.pipelines.testing.twin_connection import TwinConnection
from vivavoce.plugins.elevenlabs.twin.context import TwinContext, TwinFault, TwinPace
from vivavoce.plugins.elevenlabs.twin.server import ElevenLabsTwin

__all__ = ["ElevenLabsTwin", "Said", "TwinConnection", "TwinContext", "TwinFault", "TwinPace"]
