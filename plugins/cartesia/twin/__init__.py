"""A server on loopback that speaks Cartesia's protocols of voices and recognisers: for apps and plugins that use it.

    async with CartesiaTwin() as twin:
        tts = cartesia.TTS(base_url=twin.url, api_key=twin.key)
        twin.hears("A table for two, please.")            # the next stretch of sound
        stt = cartesia.STT(base_url=twin.url, api_key=twin.key)

It is a *twin*: clients that were written elsewhere (Cartesia's SDK, livekit-plugins-cartesia) hold sessions with it in
this repository's tests.

* One websocket (`/tts/websocket`) carries many contexts. Each context speaks its transcripts one after the other, with
  prosody of a tone: each word sounds for `TwinPace.word` seconds, at a level of its context's own.
* Requests are checked: the model, the voice, the language, the output format, the fields that must stay the same in a
  context. A refusal has the vendor's fields, in the form of the version that the client names.
* Text waits in the server as long as `max_buffer_delay_ms` says. A context ends with `continue: false`, or a second
  after its last audio.
* `cancel` stops what is not being generated; the transcript that is being generated goes on, as the vendor's does.
* A recogniser (`/stt/websocket`, `/stt/turns/websocket`) hears any sound, for the texts of `hears()`, and `speech()`,
  whose samples carry the words. It counts seconds of audio and none of the clock, but for the limit of an idle
  connection.
* Faults on demand: refused handshakes, errors, any close code, lost connections, silence, frames that break the
  protocol.

Unchecked, since no document tells them: whether times go on counting over several transcripts of a context (here they
do, as both peers expect), the code of the error for an unknown voice (here null), and whether a `done` follows a
cancelled context's last audio (here it does). Of the recognisers: how the service closes after wrong settings, after
`close` and when it is idle (here with 1000), and whether an interim of ink-2 comes on `/stt/websocket` (here none).

Sources (those of the recognisers are in `ink`): the fields of the messages from cartesia 4.2.0,
`types/generation_request.py`, `types/websocket_response.py`, `types/websocket_client_event.py`,
`types/word_timestamps.py`; the behaviour from
https://docs.cartesia.ai/api-reference/tts/websocket and, below https://docs.cartesia.ai/use-the-api/,
`tts-websocket/contexts`, `tts-websocket/buffering`, `tts-websocket/context-flushing-and-flush-i-ds`, `api-errors`,
`concurrency-limits-and-timeouts`. A text without words: https://github.com/livekit/agents/pull/3080. A cancel in the
middle of a transcript: https://github.com/pipecat-ai/pipecat/pull/793.
"""

from vivavoce.pipelines.testing.ear import Said
from vivavoce.plugins.cartesia.twin.context import TwinFault, TwinPace
from vivavoce.plugins.cartesia.twin.requests import Refusal
from vivavoce.plugins.cartesia.twin.server import CartesiaTwin, TwinConnection

__all__ = ["CartesiaTwin", "Refusal", "Said", "TwinConnection", "TwinFault", "TwinPace"]
