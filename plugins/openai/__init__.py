"""Models of OpenAI, and of every server that speaks its API.

    openai.LLM()                                                                    # OPENAI_API_KEY
    openai.LLM(model="gpt-5.5", api="responses")
    openai.LLM(model="qwen3:8b", base_url="http://127.0.0.1:11434/v1")              # Ollama, vLLM, llama.cpp …
    openai.LLM(model="…", base_url="https://api.groq.com/openai/v1", api_key=os.environ["GROQ_API_KEY"])
    openai.STT(language="en"), openai.TTS(voice="marin")
    openai.RealtimeModel()                                                          # speech to speech
    openai.RealtimeModel(model="<deployment>", base_url="https://<resource>.openai.azure.com/openai/v1", api_key=…)

`openai.LLM` uses the official SDK: `pip install 'vivavoce[openai]'`. The other components need no package; they speak
through `pipelines/net`. This package does not hide the SDK: inside it, `import openai` is an absolute import and means
the SDK; only a file of this folder that is run as a script would import itself.

Decisions:

* The SDK's own retries are off. The pipeline retries a model step by `error.retryable` alone.
* `OPENAI_API_KEY` goes to OpenAI and nowhere else: with a `base_url`, only a given key is sent.
  `OPENAI_BASE_URL` is not read. Keys, headers and the conversation never show in a repr, an error or a log.
* `dialect` adapts to other servers: chat templates of open models refuse system messages after the first and roles
  that do not alternate, and some servers accept `max_tokens` only. See `LLMOptions.dialect`.
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
from vivavoce.plugins.openai.llm import DEFAULT_MODEL, LLM
from vivavoce.plugins.openai.options import LLMOptions
from vivavoce.plugins.openai.realtime import DEFAULT_REALTIME_MODEL, RealtimeModel
from vivavoce.plugins.openai.realtime_options import RealtimeOptions, SemanticVAD, ServerVAD
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
    "ConnectionOptions",
    "LLMOptions",
    "RealtimeModel",
    "RealtimeOptions",
    "SemanticVAD",
    "ServerVAD",
]
