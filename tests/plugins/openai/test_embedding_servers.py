"""openai.Embedder on the servers that are known by name, and on Azure: requests, keys, refusals."""

from __future__ import annotations

import base64
import struct
from collections.abc import Sequence
from typing import Any, get_args

import pytest

from vivavoce.pipelines.core.errors import ConfigurationError, ProviderError, ProviderStatusError
from vivavoce.plugins import openai
from vivavoce.plugins.openai.about import PROVIDERS
from vivavoce.plugins.openai.servers import SERVERS, ServerName
from vivavoce.plugins.openai.twin import Answer, OpenAITwin, refusal

KEY = "very-secret-4711"
TOKEN = "eyJ.very-secret"  # noqa: S105 - a test's
EMBEDDING: list[ServerName] = [
    "azure", "fireworks", "groq", "llama.cpp", "lmstudio", "mistral", "ollama", "openai", "openrouter", "perplexity",
    "together", "vllm",
]  # fmt: skip


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove a developer's own keys."""
    for server in SERVERS:
        for name in server.key_variables:
            monkeypatch.delenv(name, raising=False)
    for name in ("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_AD_TOKEN"):
        monkeypatch.delenv(name, raising=False)


def vectors(*found: Any, **usage: int) -> Answer:
    data = [{"object": "embedding", "index": at, "embedding": one} for at, one in enumerate(found)]
    return Answer(body={"object": "list", "data": data, **({"usage": usage} if usage else {})})


async def asked(
    name: ServerName, *texts: str, answer: Answer | None = None, **arguments: Any
) -> tuple[Sequence[Sequence[float]], OpenAITwin]:
    """Return the vectors, and the twin with the request."""
    async with OpenAITwin(name) as twin:
        twin.add(answer or vectors(*[[1.0, 0.0, 0.0] for _ in texts], prompt_tokens=5))
        async with openai.Embedder(server=name, base_url=twin.url, api_key=KEY, **arguments) as embedder:
            return await embedder.embed(texts), twin


@pytest.mark.parametrize("name", EMBEDDING)
async def test_each_server_with_embeddings_is_asked_at_its_path_with_the_key(name: ServerName) -> None:
    answer = vectors("AQAA", prompt_tokens=5) if name == "perplexity" else None
    found, twin = await asked(name, "nine", answer=answer, model="m", dimensions=3)
    (request,) = twin.requests
    assert [list(one) for one in found] == [[1.0, 0.0, 0.0]]
    assert request.path == ("/openai/v1/embeddings" if name == "azure" else "/v1/embeddings")
    key = ("api-key", KEY) if name == "azure" else ("Authorization", f"Bearer {KEY}")
    assert request.headers[key[0]] == key[1]
    encoding = {
        "perplexity": "base64_int8",
        "together": None,
        "fireworks": None,
        "openai": "base64",
        "azure": "base64",
    }.get(name, "float")
    assert request.body == {
        "model": "m",
        "input": ["nine"],
        **({} if encoding is None else {"encoding_format": encoding}),
    }


@pytest.mark.parametrize("name", EMBEDDING)
async def test_the_twin_embeds_texts_by_their_words_beside_its_script(name: ServerName) -> None:
    async with OpenAITwin(name) as twin:
        twin.embeds("nine", "Sunday", "cake")
        twin.add(refusal(429))
        async with openai.Embedder("m", server=name, base_url=twin.url, api_key=KEY, dimensions=3) as embedder:
            found = await embedder.embed(["Nine to nine, on Sundays.", "A cake.", "Why?"])
        assert [list(one) for one in found] == [[2, 1, 0], [0, 0, 1], [0, 0, 0]]
        assert found.input_tokens == 8
        assert twin.refused == []


async def test_openai_s_vectors_come_as_base64_and_numbers_are_taken_too() -> None:
    text = base64.b64encode(struct.pack("<3f", 1.0, -0.5, 0.25)).decode()
    for answer in (vectors(text), vectors([1.0, -0.5, 0.25])):
        found, _ = await asked("openai", "nine", answer=answer, model="m", dimensions=3)
        assert [list(one) for one in found] == [[1.0, -0.5, 0.25]]
    with pytest.raises(ProviderError, match="got another answer"):
        await asked("openai", "nine", answer=vectors(text[:4]), model="m", dimensions=3)


def test_a_server_without_embeddings_is_refused_with_those_that_have_them() -> None:
    without: list[ServerName] = [name for name in get_args(ServerName) if name not in EMBEDDING]
    assert without
    for name in without:
        with pytest.raises(ConfigurationError, match=f"{name} has no embeddings; those with embeddings: .*mistral"):
            openai.Embedder("m", server=name, dimensions=3, api_key=KEY)


@pytest.mark.parametrize(
    ("name", "model", "usual", "field"),
    [
        ("openai", "text-embedding-3-small", 1536, "dimensions"),
        ("azure", "text-embedding-3-large", 3072, "dimensions"),
        ("openrouter", "openai/text-embedding-3-small", 1536, "dimensions"),
        ("fireworks", "nomic-ai/nomic-embed-text-v1.5", 768, "dimensions"),
        ("perplexity", "pplx-embed-v1-4b", 2560, "dimensions"),
    ],
)
async def test_a_model_whose_length_is_known_is_asked_for_a_shorter_one_in_the_servers_words(
    name: ServerName, model: str, usual: int, field: str
) -> None:
    answer = vectors("AQAA") if name == "perplexity" else None
    _, twin = await asked(name, "nine", answer=answer, model=model, dimensions=3)
    assert twin.bodies[0][field] == 3
    _, twin = await asked(name, "nine", model=model)
    assert field not in twin.bodies[0]
    assert openai.Embedder(model, server=name, api_key=KEY, base_url="http://127.0.0.1:9").dimensions == usual


def test_a_named_server_has_a_usual_model_or_says_where_they_are_listed() -> None:
    usual: list[tuple[ServerName, str, int]] = [
        ("openai", "text-embedding-3-small", 1536),
        ("mistral", "mistral-embed", 1024),
        ("perplexity", "pplx-embed-v1-0.6b", 1024),
    ]
    for name, model, dimensions in usual:
        made = openai.Embedder(server=name, api_key=KEY)
        assert (made.model, made.dimensions) == (model, dimensions)
    with pytest.raises(ConfigurationError, match="ollama needs model.*ollama list"):
        openai.Embedder(server="ollama", dimensions=3)
    with pytest.raises(ConfigurationError, match="the model 'nomic-embed-text' needs dimensions"):
        openai.Embedder("nomic-embed-text", server="ollama")
    with pytest.raises(ConfigurationError, match="MISTRAL_API_KEY"):
        openai.Embedder(server="mistral")


async def test_perplexitys_signed_bytes_are_numbers() -> None:
    bytes_of_it = base64.b64encode(struct.pack("3b", -128, 0, 127)).decode()
    found, _ = await asked("perplexity", "nine", answer=vectors(bytes_of_it), model="m", dimensions=3)
    assert [list(one) for one in found] == [[-128.0, 0.0, 127.0]]


@pytest.mark.parametrize(("usage", "tokens"), [({"prompt_tokens": 5, "total_tokens": 5}, 5), ({}, None)])
async def test_the_tokens_are_those_that_the_server_reports(usage: dict[str, int], tokens: int | None) -> None:
    found, _ = await asked("together", "nine", answer=vectors([1, 0, 0], **usage), model="m", dimensions=3)
    assert getattr(found, "input_tokens", 0) == tokens


async def test_a_server_on_this_machine_that_does_not_run_is_to_be_started() -> None:
    url = "http://127.0.0.1:1/v1"
    async with openai.Embedder("m", server="ollama", dimensions=3, base_url=url) as embedder:
        with pytest.raises(ProviderError, match="start it: ollama serve"):
            await embedder.embed(["nine"])


async def test_a_model_that_is_not_there_and_a_length_that_is_refused_are_named_without_the_text() -> None:
    async with OpenAITwin("ollama", models=("nomic-embed-text",)) as twin:
        async with openai.Embedder("nomic", server="ollama", dimensions=768, base_url=twin.url) as embedder:
            with pytest.raises(ProviderStatusError, match="'nomic'.*ollama pull"):
                await embedder.embed(["the secret question"])
    refused = refusal(400, "This model does not support specifying dimensions: the secret question")
    with pytest.raises(ProviderStatusError, match="'text-embedding-3-small' with 3 dimensions") as caught:
        await asked("openai", "the secret question", answer=refused, model="text-embedding-3-small", dimensions=3)
    assert "secret" not in repr(caught.value)


# --- Azure


async def test_azures_api_before_v1_has_the_deployment_in_its_path() -> None:
    async with OpenAITwin("azure", models=("mine",)) as twin:
        twin.add(vectors([1, 0, 0]))
        azure = openai.Azure(endpoint=twin.url, api_version="2024-10-21")
        async with openai.Embedder("mine", server=azure, dimensions=3, api_key=KEY) as embedder:
            await embedder.embed(["nine"])
    (request,) = twin.requests
    assert request.path == "/openai/deployments/mine/embeddings"
    assert dict(request.query) == {"api-version": "2024-10-21"}


async def test_a_token_of_entra_id_is_made_for_each_request_and_shown_nowhere() -> None:
    tokens = iter((f"{TOKEN}-1", f"{TOKEN}-2"))
    async with OpenAITwin("azure", models=("mine",)) as twin:
        twin.add(vectors([1, 0, 0]), refusal(401, f"bad {TOKEN}-2"))
        azure = openai.Azure(endpoint=twin.url, token=lambda: next(tokens))
        async with openai.Embedder("mine", server=azure, dimensions=3) as embedder:
            await embedder.embed(["nine"])
            with pytest.raises(ProviderStatusError, match="401") as caught:
                await embedder.embed(["nine"])
    assert [request.headers["Authorization"] for request in twin.requests] == [f"Bearer {TOKEN}-{n}" for n in (1, 2)]
    assert TOKEN not in repr(caught.value) + repr(embedder)


async def test_azure_needs_a_deployment_that_is_there_and_its_length() -> None:
    for arguments, needed in (
        ({"dimensions": 3}, "azure needs model"),
        ({"model": "mine"}, "the model 'mine' needs dimensions"),
    ):
        with pytest.raises(ConfigurationError, match=needed):
            openai.Embedder(server="azure", base_url="https://r.openai.azure.com", api_key=KEY, **arguments)
    with pytest.raises(ConfigurationError, match="AZURE_OPENAI_ENDPOINT"):
        openai.Embedder("mine", server="azure", dimensions=3, api_key=KEY)
    async with OpenAITwin("azure", models=("mine",)) as twin:
        async with openai.Embedder("yours", server="azure", dimensions=3, base_url=twin.url, api_key=KEY) as embedder:
            with pytest.raises(ProviderStatusError, match="deployment 'yours'.*ai.azure.com"):
                await embedder.embed(["nine"])


def test_the_facts_of_each_server_name_its_embedder_and_make_one() -> None:
    parts = {each.name: part for each in PROVIDERS for part in each.parts if part.kind == "embedder"}
    assert {name.removesuffix("-openai") for name in parts} == set(EMBEDDING)
    for part in parts.values():
        assert part.make(**{**part.sample, "api_key": KEY}).dimensions
