"""Azure Speech: its recogniser and its voices; no package but vivavoce is needed.

    azure.STT()                                                      # AZURE_SPEECH_KEY and AZURE_SPEECH_REGION
    azure.STT(language=("en-US", "de-DE"), region="westeurope")      # it detects the language
    azure.TTS("de-DE-KatjaNeural", options=azure.TTSOptions(style="cheerful", rate=1.1))
    azure.STT(base_url="https://my-speech.cognitiveservices.azure.com", token_provider=token)    # Microsoft Entra ID
    azure.STT(base_url="http://localhost:5000", api_key=None)        # a container of your own

`vivavoce.plugins.azure.twin` is a server on loopback for tests without a key. Azure OpenAI is in `plugins/openai`.

Decisions:

* The end of an utterance is settled by the pipeline's VAD, which ends the turn on the wire, or else by the service's
  silence (`endpointing`). The next turn goes on with the same connection.
* A lost connection is opened again: the audio since the last settled word is sent again, words that come twice are
  dropped by their times, and the times go on.
* A voice gets the text as it comes, as one speech. A setting that only SSML has (a lexicon, a role, a custom voice)
  and a container take documents instead: each sentence is one, its text escaped.
* A cut asks the service to stop. If it does not end the turn at once, the connection is closed, and another one is
  opened. Audio of a turn that is over is dropped by its id in any case.
* The environment's key goes to hosts of Microsoft only. A token is asked for with each connection.
"""

from vivavoce.pipelines.net.options import ConnectionOptions
from vivavoce.pipelines.net.tokens import TokenProvider
from vivavoce.plugins.azure.models import DEFAULT_VOICE
from vivavoce.plugins.azure.options import STTOptions, TTSOptions
from vivavoce.plugins.azure.stt import DEFAULT_LANGUAGE, STT
from vivavoce.plugins.azure.tts import TTS

__all__ = [
    "DEFAULT_LANGUAGE",
    "DEFAULT_VOICE",
    "STT",
    "TTS",
    "ConnectionOptions",
    "STTOptions",
    "TTSOptions",
    "TokenProvider",
]
