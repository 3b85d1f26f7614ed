"""A server on loopback that speaks Azure Speech's protocols from a script: for apps and plugins that use it.

    async with AzureTwin() as twin:
        twin.hears("A table for two, please.")            # the next stretch of sound
        stt = azure.STT(base_url=twin.stt_url, api_key=twin.key)
        tts = azure.TTS(base_url=twin.tts_url, api_key=twin.key)

It is a *twin*: Microsoft's own SDK holds sessions with it in this repository's tests, before our plugin does.

* `/stt/speech/universal/v2`, and `/speech/recognition/conversation/cognitiveservices/v1` as a container has it:
  hypotheses, phrases in the detailed form, silence that ends a phrase, an empty audio message that ends the turn, the
  next turn on the same websocket, phrase lists, languages, speakers.
* `/tts/cognitiveservices/websocket/v2` and its shorter paths: documents in SSML, text as it comes, the boundaries of
  words, `synthesis.control`. Each turn sounds with a tone at a level of its own.
* `/cognitiveservices/voices/list`, which tells whether a key is right.
* Faults on demand: refused handshakes, any close code, lost connections, silence, frames that break the protocol.

Only the recogniser is scripted. It hears two kinds of sound: any sound, for the texts of `hears()`; and `speech()`,
whose samples carry the words, so that a second hearing of the same audio finds the same words.

Unchecked, since no document tells them: when the service speaks a text that comes in pieces (here: a sentence, as soon
as white space follows it), whether `turn.end` follows a stop at once (here it does, behind the word that is being
sent), the answer to a second turn before the first one has ended (here a close), and how a language is refused (here by
a close with "Unsupported recognition language", which Microsoft's SDK shows after eleven seconds of further tries).

Sources: azure-cognitiveservices-speech 1.53.0, whose messages were captured on loopback; npm
microsoft-cognitiveservices-speech-sdk 1.52.0, `common.speech/*.js` (paths, messages, statuses, the stop); refusals:
https://github.com/Azure-Samples/cognitive-services-speech-sdk/issues/1281 (a voice), /2785 (a quota), /2168 (audio).
"""

from vivavoce.pipelines.testing.ear import Said
from vivavoce.plugins.azure.twin.server import AzureTwin, TwinConnection
from vivavoce.plugins.azure.twin.speak import SpeakTurn, TwinFault, TwinPace

__all__ = ["AzureTwin", "Said", "SpeakTurn", "TwinConnection", "TwinFault", "TwinPace"]
