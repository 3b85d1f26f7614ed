"""Models of OpenAI, and of every server that speaks its API, through the official `openai` SDK.

    openai.LLM()                                                                    # OPENAI_API_KEY
    openai.LLM(model="gpt-5.5", api="responses")
    openai.LLM(model="qwen3:8b", base_url="http://127.0.0.1:11434/v1")              # Ollama, vLLM, llama.cpp …
    openai.LLM(model="…", base_url="https://api.groq.com/openai/v1", api_key=os.environ["GROQ_API_KEY"])
    openai.STT(language="en"), openai.TTS(voice="marin")
    openai.RealtimeModel()                                                          # speech to speech
    openai.RealtimeModel(model="<deployment>", base_url="https://<resource>.openai.azure.com/openai/v1", api_key=…)

Install it with `pip install 'vivavoce[openai]'`. This package does not hide the SDK: inside it, `import openai` is an
absolute import and means the SDK; only a file of this folder that is run as a script would find itself.

Decisions:

* The SDK's own retries are off. The pipeline tries a model step again, and looks only at `error.retryable`.
* `OPENAI_API_KEY` goes to OpenAI and nowhere else: with a `base_url`, the key is the one that is given, or none is
  sent. `OPENAI_BASE_URL` is not read. Keys, headers and the conversation never show in a repr, an error or a log.
* `dialect` is what other servers need: chat templates of open models refuse system messages after the first and roles
  that do not alternate, and some servers know `max_tokens` only. See `LLMOptions.dialect`.
* Interruptions, backchannels and instructions for one generation are told to the model in the request; the stored
  texts stay as they are.
* Tool calls are passed on once the answer has come to its end, so that nothing is called by half an answer.
* Reasoning is not spoken and not sent back; `reasoning_effort="none"` is the default for the default model, since a
  caller waits, and since OpenAI's newer models take function tools in chat completions only so.
* A realtime conversation that is lost is taken up in a new connection, with its history as items: the API has no other
  way. `say()` is an answer beside the conversation, so that it can be cut without a trace; it is a request to the
  model, not a promise. With a VAD or turn detector of the pipeline's own, the server's is off.
"""

from vivavoce.plugins.openai.client import ConnectionOptions
from vivavoce.plugins.openai.llm import DEFAULT_MODEL, LLM
from vivavoce.plugins.openai.options import LLMOptions
from vivavoce.plugins.openai.realtime import DEFAULT_REALTIME_MODEL, RealtimeModel
from vivavoce.plugins.openai.realtime_options import RealtimeOptions, SemanticVAD, ServerVAD
from vivavoce.plugins.openai.stt import DEFAULT_STT_MODEL, STT, STTOptions
from vivavoce.plugins.openai.tts import DEFAULT_TTS_MODEL, TTS, TTSOptions

__all__ = [
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
