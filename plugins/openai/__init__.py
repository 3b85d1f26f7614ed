"""Models of OpenAI, and of every server that speaks its API.

    openai.LLM()                                                                    # OPENAI_API_KEY
    openai.LLM(model="gpt-5.5", api="responses")
    openai.LLM(server="groq", model="openai/gpt-oss-120b")                          # GROQ_API_KEY; see `servers`
    openai.LLM(server="ollama", model="qwen3:8b")                                   # on this machine
    openai.LLM(model="…", base_url="https://llm.example.com/v1", api_key=…)         # any other server with the API
    openai.LLM(server="azure", model="<deployment>")                                # AZURE_OPENAI_ENDPOINT, …_API_KEY
    openai.STT(language="en"), openai.TTS(voice="marin")
    openai.STT(server="groq"), openai.TTS(server="groq")                            # an upload for each utterance
    openai.RealtimeModel()                                                          # speech to speech

`openai.LLM` uses the official SDK: `pip install 'vivavoce[openai]'`. The other components need no package; they speak
through `pipelines/net`. This package does not hide the SDK: inside it, `import openai` is an absolute import and means
the SDK; only a file of this folder that is run as a script would import itself.

Decisions:

* The SDK's own retries are off. The pipeline retries a model step by `error.retryable` alone.
* A key in the environment goes to the hosts of its server and nowhere else: `OPENAI_API_KEY` to OpenAI, and with a
  `base_url` only if `server` is named and the address is that server's. `OPENAI_BASE_URL` is not read. Keys, headers
  and the conversation never show in a repr, an error or a log.
* `servers` says in what each server differs; one at a `base_url` is known by its host. The `dialect` adapts to all
  others: chat templates of open models refuse system messages after the first and roles that do not alternate, and
  some servers accept `max_tokens` only. See `LLMOptions.dialect`.
* Azure is used with v1 of its API by default; for the one before, `AsyncAzureOpenAI` is not needed: it differs in the
  path and one parameter.
* The request marks interruptions and backchannels and holds instructions for one generation; the stored texts do not
  change.
* Tool calls are passed on after the end of the answer, so that no call comes from half an answer.
* Reasoning is not spoken and not sent back; `reasoning_effort="none"` is the default for the default model, since a
  caller waits, and since OpenAI's newer models accept function tools in chat completions only with it.
* A lost realtime conversation is continued in a new connection, with its history as items: the API has no other way.
  `say()` is an answer beside the conversation, so that it can be cut without a trace; it is a request to the model,
  not a promise. With a VAD or turn detector in the pipeline, the server's is off.
"""

from vivavoce.pipelines.net.options import ConnectionOptions
from vivavoce.plugins.openai.endpoint import Azure
from vivavoce.plugins.openai.llm import DEFAULT_MODEL, LLM
from vivavoce.plugins.openai.options import LLMOptions
from vivavoce.plugins.openai.realtime import DEFAULT_REALTIME_MODEL, RealtimeModel
from vivavoce.plugins.openai.realtime_options import RealtimeOptions, SemanticVAD, ServerVAD
from vivavoce.plugins.openai.servers import ServerName
from vivavoce.plugins.openai.stt import DEFAULT_STT_MODEL, STT, STTOptions
from vivavoce.plugins.openai.text_embedder import DEFAULT_EMBEDDING_MODEL, Embedder
from vivavoce.plugins.openai.tts import DEFAULT_TTS_MODEL, TTS, TTSOptions

__all__ = [
    "DEFAULT_EMBEDDING_MODEL",
    "Embedder",
    "DEFAULT_STT_MODEL",
    "DEFAULT_TTS_MODEL",
    "STT",
    "STTOptions",
    "TTS",
    "TTSOptions",
    "DEFAULT_MODEL",
    "DEFAULT_REALTIME_MODEL",
    "LLM",
    "Azure",
    "ConnectionOptions",
    "LLMOptions",
    "RealtimeModel",
    "RealtimeOptions",
    "SemanticVAD",
    "ServerName",
    "ServerVAD",
]
