"""A server on loopback that speaks AssemblyAI's streaming protocol from a script: for apps and plugins that use it.

    async with AssemblyAITwin() as twin:
        twin.hears("A table for two, please.")            # the next stretch of sound
        stt = assemblyai.STT(base_url=twin.url, api_key=twin.key)

It is a *twin*: clients that were written elsewhere (AssemblyAI's SDK, livekit-plugins-assemblyai) hold sessions with it
in this repository's tests, before our plugin does.

* `/v3/ws`: `Begin`, `SpeechStarted`, `Turn` in the manner of both families of models, `Termination`; `ForceEndpoint`,
  `UpdateConfiguration`, `KeepAlive`, `Terminate`.
* Universal-3 models report pieces of a turn with punctuation, early and at pauses; a pause behind `.`, `?` or `!` ends
  the turn, and any pause of `max_turn_silence` does. Universal-Streaming models report word by word, without
  punctuation; the end of a turn comes again, formatted, where `format_turns` asks for it.
* Key and settings are checked behind the handshake, as the vendor does: an `Error` message, then a close with its code.
* Messages of less than 50 or more than 1000 ms of audio end the session with 3007.
* Faults on demand: refused handshakes, any error and close code, lost connections, frames that break the protocol.

Only the recogniser is scripted. It hears two kinds of sound: any sound, for the texts of `hears()`; and `speech()`,
whose samples carry the words, so that a second hearing of the same audio finds the same words.

All decisions count seconds of audio and none of the clock. So a session in virtual time gives the same events each
time.

Sources: https://www.assemblyai.com/docs/streaming/ (message-sequence, turn-detection,
common-session-errors-and-closures, label-speakers-and-separate-channels), and the messages' fields: assemblyai 1.8.2,
`streaming/v3/models.py`. The texts of refused settings are the twin's own.
"""

from vivavoce.pipelines.testing.ear import Said
from vivavoce.pipelines.testing.twin_connection import TwinConnection
from vivavoce.plugins.assemblyai.twin.server import AssemblyAITwin

__all__ = ["AssemblyAITwin", "Said", "TwinConnection"]
