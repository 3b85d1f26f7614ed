"""The table of servers with OpenAI's API: address, key, and in what each differs from OpenAI's.

Each fact has its source beside it: the vendor's page, or its SDK as published on PyPI (together 3.1.1, groq 1.7.0,
cerebras-cloud-sdk 1.91.0, mistralai 3.7.0, perplexityai 0.46.1), or a peer's code (pipecat-ai 1.14.0, as "pipecat").
Nothing was tried against a live server.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from vivavoce.pipelines.core.checks import check_choice
from vivavoce.pipelines.net.keys import is_server_of

ServerName = Literal[
    "azure",
    "cerebras",
    "deepseek",
    "fireworks",
    "groq",
    "kokoro",
    "llama.cpp",
    "lmstudio",
    "mistral",
    "ollama",
    "openai",
    "openrouter",
    "perplexity",
    "speaches",
    "together",
    "vllm",
    "xai",
]
"""The servers that are known by name."""

SpeechFormat = Literal["pcm", "wav"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ears:
    """How a server transcribes.

    Args:
        model: The one without another wish; "": there is none.
        is_upload: Whether an utterance is uploaded to `audio/transcriptions`, rather than sent over a realtime session.
        has_word_times: Whether Whisper models report the times of words.
        max_bytes: Of one upload.
    """

    model: str = ""
    is_upload: bool = True
    has_word_times: bool = False
    max_bytes: int = 25_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Voices:
    """How a server speaks.

    Args:
        model, voice: The ones without another wish; "": there is none.
        response_format: The format that it has: `pcm` begins at once, and `wav` says its rate.
        sample_rate: Hz of its PCM.
        max_characters: Of the text of one request.
    """

    model: str = ""
    voice: str = ""
    response_format: SpeechFormat = "pcm"
    sample_rate: int = 24000
    max_characters: int = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Vectors:
    """How a server embeds texts.

    Args:
        model: The one without another wish; "": there is none.
        dimensions: The lengths of the vectors of models, by name.
        shortened: The models of these that make shorter vectors on request.
        length_field: The name of that request's field.
        encoding: `encoding_format` of a request; "": it takes none, and sends numbers. 100 vectors of 1,536 numbers as
            text hold the event loop up for 55 ms, as `base64` (float32) for 12.
    """

    model: str = ""
    dimensions: Mapping[str, int] = field(default_factory=dict)
    shortened: tuple[str, ...] = ()
    length_field: Literal["dimensions", "output_dimension"] = "dimensions"
    encoding: Literal["float", "base64", "base64_int8", ""] = "float"


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server with OpenAI's API.

    Args:
        base_url: "": there is none that all users share.
        domain: Its hosts; the environment's key goes to no other one. "": a server of one's own, without a key.
        key_variables: Of the environment; all spellings in use.
        is_openai: Whether it has OpenAI's dialect; see `LLMOptions.dialect`.
        limit_field: The name of the limit of an answer's tokens.
        takes_usage_option: Whether it takes `stream_options`; the others report the usage without being asked.
        takes_tools: Whether its models call tools.
        call_id_length: The only length of a tool call's id, which then has letters and digits only. 0: any.
        answers_tools: Whether a message of the model must follow a tool's output before the user's next one.
        ends_with_user: Whether the last message must not be the model's.
        no_reasoning: Sent in place of `reasoning_effort="none"`.
        reasoning_effort: The effort if none is given; None: the server decides.
        start: How to start it, for one on the user's machine.
        models: Where its models are listed.
    """

    name: str
    base_url: str = ""
    domain: str = ""
    key_variables: tuple[str, ...] = ()
    is_openai: bool = False
    limit_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    takes_usage_option: bool = True
    takes_tools: bool = True
    call_id_length: int = 0
    answers_tools: bool = False
    ends_with_user: bool = False
    no_reasoning: Mapping[str, Any] = field(default_factory=lambda: {"reasoning_effort": "none"})
    reasoning_effort: str | None = None
    start: str = ""
    models: str = "ask it with GET /models"
    ears: Ears | None = None
    voices: Voices | None = None
    vectors: Vectors | None = None


OPENAI_LENGTHS = {"text-embedding-3-small": 1536, "text-embedding-3-large": 3072, "text-embedding-ada-002": 1536}
OPENAI_SHORTENED = ("text-embedding-3-small", "text-embedding-3-large")
"""https://platform.openai.com/docs/guides/embeddings, both."""

OPENAI_VECTORS = Vectors(dimensions=OPENAI_LENGTHS, shortened=OPENAI_SHORTENED, encoding="base64")
"""https://platform.openai.com/docs/api-reference/embeddings/create: `encoding_format` is `float` or `base64`."""

OPEN_VECTORS = Vectors(dimensions=OPENAI_LENGTHS, shortened=OPENAI_SHORTENED)
"""Of a server without models of its own; one that passes requests on has those of OpenAI."""

WHISPER = Ears(has_word_times=True)

OPENAI = Server(
    name="openai",
    base_url="https://api.openai.com/v1",
    domain="openai.com",
    key_variables=("OPENAI_API_KEY",),
    is_openai=True,
    limit_field="max_completion_tokens",
    models="https://platform.openai.com/docs/models lists them",
    # gpt-live-transcribe: https://developers.openai.com/api/docs/guides/realtime-transcription
    ears=Ears(model="gpt-live-transcribe", is_upload=False, has_word_times=True),
    voices=Voices(model="gpt-4o-mini-tts", voice="marin"),
    vectors=replace(OPENAI_VECTORS, model="text-embedding-3-small"),
)

OTHER = Server(name="server", ears=Ears(is_upload=False), voices=Voices(voice="marin"), vectors=OPEN_VECTORS)
"""A server that is not in the table."""

SERVERS: tuple[Server, ...] = (
    OPENAI,
    # https://learn.microsoft.com/azure/foundry/openai/api-version-lifecycle: /openai/v1, `model` is the deployment
    # Vectors: the lengths are known of a deployment that has its model's name
    Server(
        name="azure",
        domain="azure.com",
        key_variables=("AZURE_OPENAI_API_KEY",),
        is_openai=True,
        limit_field="max_completion_tokens",
        models="the resource's page in ai.azure.com lists the deployments",
        ears=Ears(is_upload=False, has_word_times=True),
        voices=Voices(voice="marin"),
        vectors=OPENAI_VECTORS,
    ),
    # cerebras/cloud/sdk/_client.py:93; types/chat/completion_create_params.py:97 (max_tokens is deprecated), :163
    Server(
        name="cerebras",
        base_url="https://api.cerebras.ai/v1",
        domain="cerebras.ai",
        key_variables=("CEREBRAS_API_KEY",),
        limit_field="max_completion_tokens",
        models="https://inference-docs.cerebras.ai/models lists them",
    ),
    # https://api-docs.deepseek.com/guides/thinking_mode: thinking is on by default, {"thinking": {"type": "disabled"}};
    # messages with calls need their reasoning_content back. pipecat services/deepseek/llm.py:135: no
    # max_completion_tokens
    Server(
        name="deepseek",
        base_url="https://api.deepseek.com/v1",
        domain="deepseek.com",
        key_variables=("DEEPSEEK_API_KEY",),
        no_reasoning={"thinking": {"type": "disabled"}},
        reasoning_effort="none",
        models="https://api-docs.deepseek.com lists them",
    ),
    # https://docs.fireworks.ai/tools-sdks/openai-compatibility: usage in the final chunk of each stream.
    # pipecat services/fireworks/llm.py:83: neither max_completion_tokens nor stream_options
    # Vectors: https://docs.fireworks.ai/api-reference/creates-an-embedding-vector-representing-the-input-text
    Server(
        name="fireworks",
        base_url="https://api.fireworks.ai/inference/v1",
        domain="fireworks.ai",
        key_variables=("FIREWORKS_API_KEY",),
        takes_usage_option=False,
        models="https://fireworks.ai/models lists them",
        vectors=Vectors(
            dimensions={"nomic-ai/nomic-embed-text-v1.5": 768},
            shortened=("nomic-ai/nomic-embed-text-v1.5",),
            encoding="",
        ),
    ),
    # https://console.groq.com/docs/openai: base_url, no logprobs, logit_bias, messages[].name; groq
    # types/chat/completion_create_params.py:150 (max_tokens is deprecated); types/chat/chat_completion_chunk.py XGroq:
    # usage and error of a stream. https://console.groq.com/docs/speech-to-text: 25 MB on the free tier.
    # Voices: `response_format must be one of [wav]` (github.com/roryeckel/wyoming_openai/issues/43), 48 kHz
    # (livekit-plugins-groq 1.8.9 tts.py), 200 characters (https://console.groq.com/docs/text-to-speech/orpheus)
    # Vectors: groq types/embedding_create_params.py; https://huggingface.co/nomic-ai/nomic-embed-text-v1.5: 768
    Server(
        name="groq",
        base_url="https://api.groq.com/openai/v1",
        domain="groq.com",
        key_variables=("GROQ_API_KEY",),
        limit_field="max_completion_tokens",
        models="https://console.groq.com/docs/models lists them",
        ears=Ears(model="whisper-large-v3-turbo", has_word_times=True),
        voices=Voices(
            model="canopylabs/orpheus-v1-english",
            voice="autumn",
            response_format="wav",
            sample_rate=48000,
            max_characters=200,
        ),
        vectors=Vectors(dimensions={"nomic-embed-text-v1_5": 768}),
    ),
    # https://github.com/remsky/Kokoro-FastAPI: port 8880, model `kokoro`, `pcm` at 24 kHz
    Server(
        name="kokoro",
        base_url="http://127.0.0.1:8880/v1",
        start="see https://github.com/remsky/Kokoro-FastAPI",
        voices=Voices(model="kokoro", voice="af_heart"),
    ),
    # https://github.com/ggml-org/llama.cpp/tree/master/tools/server: port 8080; tools need --jinja,
    # and vectors --embeddings
    Server(
        name="llama.cpp",
        base_url="http://127.0.0.1:8080/v1",
        start="llama-server -m MODEL.gguf --jinja",
        vectors=Vectors(),
    ),
    # https://lmstudio.ai/docs/developer/openai-compat/chat-completions: port 1234, `max_tokens`;
    # https://lmstudio.ai/docs/api/openai-api: POST /v1/embeddings
    Server(name="lmstudio", base_url="http://127.0.0.1:1234/v1", start="lms server start", vectors=Vectors()),
    # mistralai client/models/chatcompletionstreamrequest.py: `max_tokens`, no `stream_options`. Ids of calls: error
    # 3280 "must be a-z, A-Z, 0-9, with a length of 9" (github.com/nearai/ironclaw/issues/1241). Roles: pipecat
    # adapters/services/mistral_adapter.py
    # Vectors: mistralai client/models/embeddingrequest.py; https://docs.mistral.ai/capabilities/embeddings: 1024
    Server(
        name="mistral",
        base_url="https://api.mistral.ai/v1",
        domain="mistral.ai",
        key_variables=("MISTRAL_API_KEY",),
        takes_usage_option=False,
        call_id_length=9,
        answers_tools=True,
        ends_with_user=True,
        models="https://docs.mistral.ai/models lists them",
        ears=Ears(model="voxtral-mini-latest"),
        vectors=Vectors(
            model="mistral-embed",
            dimensions={"mistral-embed": 1024},
            length_field="output_dimension",
        ),
    ),
    # https://docs.ollama.com/api/openai-compatibility: `max_tokens`, `stream_options`, other fields are dropped;
    # /v1/embeddings
    Server(
        name="ollama",
        base_url="http://127.0.0.1:11434/v1",
        start="ollama serve",
        models="`ollama list` shows those that are there, and `ollama pull MODEL` gets one",
        vectors=Vectors(),
    ),
    # https://openrouter.ai/docs/api/reference/streaming: comments, errors as chunks with finish_reason "error"
    # Vectors: https://openrouter.ai/docs/api_reference/embeddings
    Server(
        name="openrouter",
        base_url="https://openrouter.ai/api/v1",
        domain="openrouter.ai",
        key_variables=("OPENROUTER_API_KEY",),
        no_reasoning={"reasoning": {"effort": "none"}},
        models="https://openrouter.ai/models lists them",
        vectors=Vectors(
            dimensions={f"openai/{name}": length for name, length in OPENAI_LENGTHS.items()},
            shortened=tuple(f"openai/{name}" for name in OPENAI_SHORTENED),
        ),
    ),
    # perplexity/_client.py:90. "Tool calling is not supported for this model": github.com/pipecat-ai/pipecat/pull/4862;
    # roles alternate: github.com/perplexityai/api-discussion/issues/265. No `stream_options`:
    # perplexity/types/chat/completion_create_params.py
    # Vectors: perplexity/types/embedding_create_params.py, shared/embedding_object.py: signed bytes, never numbers
    Server(
        name="perplexity",
        base_url="https://api.perplexity.ai",
        domain="perplexity.ai",
        key_variables=("PERPLEXITY_API_KEY",),
        takes_usage_option=False,
        takes_tools=False,
        ends_with_user=True,
        models="https://docs.perplexity.ai lists them",
        vectors=Vectors(
            model="pplx-embed-v1-0.6b",
            dimensions={"pplx-embed-v1-0.6b": 1024, "pplx-embed-v1-4b": 2560},
            shortened=("pplx-embed-v1-0.6b", "pplx-embed-v1-4b"),
            encoding="base64_int8",
        ),
    ),
    # https://speaches.ai: port 8000, faster-whisper and Kokoro
    Server(
        name="speaches",
        base_url="http://127.0.0.1:8000/v1",
        start="see https://speaches.ai/installation",
        ears=WHISPER,
        voices=Voices(),
    ),
    # together/_client.py:143, :156 (api.together.ai; the older name is api.together.xyz); `reasoning`: pipecat
    # services/together/llm.py. Voices: types/audio/speech_create_params.py: wav, 24 kHz; `raw` needs another stream
    # Vectors: together types/embedding_create_params.py: model and input alone; the answer has no usage
    Server(
        name="together",
        base_url="https://api.together.ai/v1",
        domain="together.ai",
        key_variables=("TOGETHER_API_KEY",),
        no_reasoning={"reasoning": {"enabled": False}},
        models="https://docs.together.ai/docs/serverless-models lists them",
        ears=Ears(model="openai/whisper-large-v3"),
        voices=Voices(model="canopylabs/orpheus-3b-0.1-ft", voice="tara", response_format="wav"),
        vectors=Vectors(encoding=""),
    ),
    # https://docs.vllm.ai/en/latest/serving/online_serving: port 8000; VLLM_MAX_AUDIO_CLIP_FILESIZE_MB is 25, segments
    # without words. vllm-omni: `pcm` at 24 kHz
    # Vectors: https://docs.vllm.ai/en/latest/serving/openai_compatible_server; `dimensions` for Matryoshka models alone
    Server(
        name="vllm",
        base_url="http://127.0.0.1:8000/v1",
        start="vllm serve MODEL",
        limit_field="max_completion_tokens",
        ears=Ears(),
        voices=Voices(),
        vectors=Vectors(),
    ),
    # https://docs.x.ai/docs/api-reference: reasoning models refuse stop and penalties, which are never sent; usage
    # without the reasoning's tokens: pipecat services/xai/llm.py:136
    Server(
        name="xai",
        base_url="https://api.x.ai/v1",
        domain="x.ai",
        key_variables=("XAI_API_KEY",),
        models="https://docs.x.ai/docs/models lists them",
    ),
)

BY_NAME: Mapping[str, Server] = {server.name: server for server in SERVERS}
OLD_DOMAINS: Mapping[str, str] = {"together.xyz": "together"}


def server_of(name: str | None, base_url: str | None) -> Server:
    """Return the server of a name, else the one whose host the address names, else `OTHER`; OpenAI without either.

    Raises:
        ConfigurationError: There is no server of that name.
    """
    if name is not None:
        check_choice("server", name, get_args(ServerName))
        return BY_NAME[name]
    if base_url is None:
        return OPENAI
    domains = {**{server.domain: server.name for server in SERVERS if server.domain}, **OLD_DOMAINS}
    return next((BY_NAME[domains[domain]] for domain in domains if is_server_of(base_url, domain)), OTHER)
