"""A server on loopback that speaks Deepgram's streaming protocols from a script: for apps and plugins that use it.

    async with DeepgramTwin() as twin:
        twin.hears("A table for two, please.")            # the next stretch of sound
        stt = deepgram.STT(base_url=twin.url, api_key=twin.key)

It is a *twin*: clients that were written elsewhere (Deepgram's SDK, livekit-plugins-deepgram) hold sessions with it in
this repository's tests, before our plugin does.

* `/v1/listen` (Nova): interim and final results, endpointing, `UtteranceEnd`, `SpeechStarted`, `Finalize`,
  `KeepAlive`, `Configure`, `CloseStream`, and the close after ten seconds without a message.
* `/v2/listen` (Flux): the events of turns in their order, `ForceEndTurn`, `Configure`; its confidence in the end of a
  turn is the length of the silence.
* `POST /v1/speak` (Aura): PCM as it comes; its words are such that the twin's recognisers hear them.
* `GET /v1/auth/token`: tries a key, for `vivavoce doctor`.
* A handshake is checked: the key, the model and its languages, the settings. The refusal has the vendor's body and its
  heads `dg-error` and `dg-request-id`.
* Faults on demand: refused handshakes, any close code, lost connections, frames that break the protocol.

Only the recogniser is scripted. It hears two kinds of sound: any sound, for the texts of `hears()`; and `speech()`,
whose samples carry the words, so that a second hearing of the same audio finds the same words.

All decisions count seconds of audio and none of the clock, but for the limit of ten seconds. So a session in virtual
time gives the same events each time.

Sources: https://developers.deepgram.com/docs/ (interim-results, endpointing, utterance-end, finalize, audio-keep-alive,
errors, stt-troubleshooting-websocket-data-and-net-errors, flux/state, flux/configuration), and the messages' fields:
deepgram-sdk 7.17.0, the types in `listen/v1` and `listen/v2`.
"""

from vivavoce.plugins.deepgram.twin.ear import Said
from vivavoce.plugins.deepgram.twin.server import DeepgramTwin, TwinConnection

__all__ = ["DeepgramTwin", "Said", "TwinConnection"]
