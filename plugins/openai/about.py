"""The facts about OpenAI, and about each server with its API that is known by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from vivavoce.pipelines.about import KeyCheck, Kind, Part, Provider
from vivavoce.pipelines.net.client import Client
from vivavoce.pipelines.net.options import ConnectionOptions
from vivavoce.plugins.openai.client import net_client
from vivavoce.plugins.openai.endpoint import ENDPOINT_VARIABLE, TOKEN_VARIABLE, find_endpoint
from vivavoce.plugins.openai.llm import LLM
from vivavoce.plugins.openai.realtime import RealtimeModel
from vivavoce.plugins.openai.servers import BY_NAME, OPENAI, Server, ServerName
from vivavoce.plugins.openai.stt import STT
from vivavoce.plugins.openai.text_embedder import Embedder
from vivavoce.plugins.openai.tts import TTS

SPEECH_ONLY = ("kokoro", "speaches")


@dataclass(frozen=True, slots=True)
class Page:
    """A server's pages.

    Args:
        path: Of a request that needs a key; "": there is none that is known.
        note: On its language models.
    """

    title: str
    docs: str
    get_key: str = ""
    path: str = "models"
    note: str = ""


PAGES: dict[ServerName, Page] = {
    "cerebras": Page("Cerebras", "https://inference-docs.cerebras.ai", "https://cloud.cerebras.ai"),
    "deepseek": Page(
        "DeepSeek",
        "https://api-docs.deepseek.com",
        "https://platform.deepseek.com/api_keys",
        note="It thinks only if `reasoning_effort` is given.",
    ),
    "fireworks": Page("Fireworks", "https://docs.fireworks.ai", "https://app.fireworks.ai/settings/users/api-keys"),
    "groq": Page("Groq", "https://console.groq.com/docs", "https://console.groq.com/keys"),
    "kokoro": Page("Kokoro-FastAPI", "https://github.com/remsky/Kokoro-FastAPI"),
    "llama.cpp": Page(
        "llama.cpp", "https://github.com/ggml-org/llama.cpp/tree/master/tools/server", note="Tools need `--jinja`."
    ),
    "lmstudio": Page("LM Studio", "https://lmstudio.ai/docs/developer/openai-compat"),
    "mistral": Page("Mistral", "https://docs.mistral.ai/api", "https://console.mistral.ai/api-keys"),
    "ollama": Page("Ollama", "https://docs.ollama.com/api/openai-compatibility"),
    "openrouter": Page("OpenRouter", "https://openrouter.ai/docs", "https://openrouter.ai/settings/keys", "key"),
    "perplexity": Page(
        "Perplexity",
        "https://docs.perplexity.ai",
        "https://www.perplexity.ai/settings/api",
        "",
        "It answers from the web, with marks such as [1] in the text.",
    ),
    "speaches": Page("speaches", "https://speaches.ai"),
    "together": Page("Together", "https://docs.together.ai", "https://api.together.ai/settings/api-keys"),
    "vllm": Page("vLLM", "https://docs.vllm.ai", note="Tools need `--enable-auto-tool-choice`."),
    "xai": Page("xAI", "https://docs.x.ai/docs", "https://console.x.ai"),
}


def _client(name: ServerName, *, api_key: str | None = None, base_url: str | None = None) -> Client:
    endpoint = find_endpoint(name, model="", api_key=api_key, base_url=base_url)
    return net_client(f"openai, {name}", endpoint, ConnectionOptions())


def _part(kind: Kind, make: Callable[..., Any], name: str, model: str, note: str = "", **sample: object) -> Part:
    length = f", dimensions={sample['dimensions']}" if "dimensions" in sample else ""
    open_ones = ("" if model else ', model="…"') + (', voice="…"' if "voice" in sample else "")
    arguments = f'server="{name}"{length}{open_ones}'
    sample = {"server": name, "model": model or "m", **sample}
    return Part(kind=kind, make=make, arguments=arguments, sample=sample, note=note)


def _parts(server: Server, note: str) -> Iterator[Part]:
    if server.ears is not None:
        yield _part("stt", STT, server.name, server.ears.model)
    if server.name not in SPEECH_ONLY:
        yield _part("llm", LLM, server.name, "", note)
    if server.vectors is not None:
        length = {} if server.vectors.model else {"dimensions": 768}
        yield _part("embedder", Embedder, server.name, server.vectors.model, "", **length)
    if server.voices is not None:
        voice = {} if server.voices.voice else {"voice": "v"}
        yield _part("tts", TTS, server.name, server.voices.model, **voice)


def _provider(name: ServerName, page: Page) -> Provider:
    server = BY_NAME[name]
    check = None
    if server.key_variables and page.path:
        check = KeyCheck(client=partial(_client, name), path=page.path, source=page.docs)
    return Provider(
        name=name,
        title=page.title,
        docs=page.docs,
        parts=tuple(_parts(server, page.note)),
        keys=server.key_variables,
        get_key=page.get_key,
        check=check,
        note="" if server.key_variables else f"On your machine, at {server.base_url} or a `base_url`.",
    )


AZURE = {"base_url": "https://resource.openai.azure.com"}

PROVIDERS = (
    Provider(
        name=OPENAI.name,
        title="OpenAI",
        docs="https://platform.openai.com/docs",
        parts=(
            Part(kind="stt", make=STT, note='Or `api="upload"`: a request for each utterance, with times of words.'),
            Part(kind="llm", make=LLM, note="With `base_url`, of every server that has OpenAI's API."),
            Part(kind="tts", make=TTS, note="The option `instructions` says how it speaks."),
            Part(kind="realtime", make=RealtimeModel),
            Part(kind="embedder", make=Embedder, note="With `base_url`, of every server that has its `embeddings`."),
        ),
        keys=OPENAI.key_variables,
        get_key="https://platform.openai.com/api-keys",
        check=KeyCheck(
            client=partial(_client, "openai"),
            path="models",
            source="https://platform.openai.com/docs/api-reference/models/list",
        ),
    ),
    Provider(
        name="azure-openai",
        title="Azure OpenAI",
        docs="https://learn.microsoft.com/azure/foundry/openai",
        parts=(
            _part("stt", STT, "azure", "", **AZURE),
            _part("llm", LLM, "azure", "", **AZURE),
            _part("tts", TTS, "azure", "", **AZURE),
            _part("realtime", RealtimeModel, "azure", "", **AZURE),
            _part("embedder", Embedder, "azure", "", **AZURE, dimensions=1536),
        ),
        keys=(*BY_NAME["azure"].key_variables, TOKEN_VARIABLE),
        settings=(ENDPOINT_VARIABLE,),
        get_key="https://ai.azure.com",
        check=KeyCheck(
            client=partial(_client, "azure"),
            path="models",
            source="https://learn.microsoft.com/rest/api/microsoft-foundry/azureopenai/models",
        ),
        note="`model` is the name of a deployment. Tokens of Entra ID: `server=openai.Azure(token=…)`.",
    ),
    *(_provider(name, page) for name, page in PAGES.items()),
)
