"""Azure OpenAI: keys and tokens, v1 of the API and the one before it, deployments, the content filter."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import anyio
import pytest

from kit.limits import LIMIT
from vivavoce.pipelines.core.errors import ConfigurationError, ProviderError, ProviderStatusError
from vivavoce.pipelines.llm.base import Done, GenerateRequest, LLMEvent, TextDelta
from vivavoce.pipelines.llm.chat_context import ChatContext, ChatMessage
from vivavoce.pipelines.realtime_model.base import RealtimeSetup
from vivavoce.pipelines.testing.realtime_server import ScriptedRealtimeServer
from vivavoce.plugins import openai
from vivavoce.plugins.openai.twin import (
    Answer,
    OpenAITwin,
    chat_answer,
    chat_delta,
    refusal,
    responses_answer,
    responses_end,
)

KEY = "very-secret-4711"
TOKEN = "eyJ.very-secret"
HELLO = GenerateRequest(context=ChatContext([ChatMessage(role="user", content="Hello")]))
FILTERED = "The response was filtered due to the prompt triggering the content management policy."


@pytest.fixture(autouse=True)
def no_azure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove a developer's own resource."""
    for name in ("API_KEY", "ENDPOINT", "AD_TOKEN"):
        monkeypatch.delenv(f"AZURE_OPENAI_{name}", raising=False)


async def answer(llm: openai.LLM) -> list[LLMEvent]:
    async with llm:
        return [event async for event in llm.generate(HELLO)]


@pytest.mark.parametrize("end", ["", "/", "/openai", "/openai/v1", "/openai/v1/"])
async def test_a_deployment_is_asked_with_the_key_in_azures_header(end: str) -> None:
    async with OpenAITwin("azure", models=("mine",)) as twin:
        twin.add(chat_answer("Hi."))
        events = await answer(openai.LLM(server="azure", model="mine", base_url=twin.url + end, api_key=KEY))
    (request,) = twin.requests
    assert events[0] == TextDelta("Hi.")
    assert (request.path, dict(request.query)) == ("/openai/v1/chat/completions", {})
    assert (request.headers["api-key"], request.headers.get("Authorization")) == (KEY, None)
    assert (request.body["model"], "stream_options" in request.body) == ("mine", True)


async def test_the_api_before_v1_has_the_deployment_in_its_path() -> None:
    async with OpenAITwin("azure", models=("mine",)) as twin:
        twin.add(chat_answer("Hi."))
        azure = openai.Azure(endpoint=twin.url, api_version="2024-10-21")
        await answer(openai.LLM(server=azure, model="mine", api_key=KEY))
    (request,) = twin.requests
    assert request.path == "/openai/deployments/mine/chat/completions"
    assert dict(request.query) == {"api-version": "2024-10-21"}


async def fetched() -> str:
    return f"{TOKEN}-2"


@pytest.mark.parametrize(
    ("token", "sent"), [(TOKEN, TOKEN), (lambda: f"{TOKEN}-1", f"{TOKEN}-1"), (fetched, f"{TOKEN}-2")]
)
async def test_a_token_of_entra_goes_in_place_of_a_key(token: str | Callable[[], str], sent: str) -> None:
    async with OpenAITwin("azure") as twin:
        twin.default = chat_answer("Hi.")
        llm = openai.LLM(server=openai.Azure(endpoint=twin.url, token=token), model="mine")
        await answer(llm)
    assert twin.requests[0].headers["Authorization"] == f"Bearer {sent}"
    assert "api-key" not in twin.requests[0].headers
    assert TOKEN not in repr(openai.Azure(token=TOKEN)) + repr(llm)


async def test_each_request_asks_for_a_token_that_is_valid_now() -> None:
    tokens = iter([f"{TOKEN}-1", f"{TOKEN}-2"])
    async with OpenAITwin("azure") as twin:
        twin.default = chat_answer("Hi.")
        async with openai.LLM(server=openai.Azure(endpoint=twin.url, token=lambda: next(tokens)), model="m") as llm:
            for _ in range(2):
                _ = [event async for event in llm.generate(HELLO)]
    assert [request.headers["Authorization"] for request in twin.requests] == [f"Bearer {TOKEN}-1", f"Bearer {TOKEN}-2"]


@pytest.mark.parametrize("token", ["", f"{TOKEN}\nX: 1"])
async def test_a_token_that_cannot_be_sent_is_an_error_without_it(token: str) -> None:
    with pytest.raises(ProviderError, match="token function") as caught:
        await answer(openai.LLM(server=openai.Azure(endpoint="http://127.0.0.1:9", token=lambda: token), model="m"))
    assert caught.value.__context__ is None


async def test_a_token_function_that_fails_is_an_error_without_its_text() -> None:
    def fail() -> str:
        raise OSError(f"no such secret: {KEY}")

    with pytest.raises(ProviderError, match="OSError") as caught:
        await answer(openai.LLM(server=openai.Azure(endpoint="http://127.0.0.1:9", token=fail), model="m"))
    assert KEY not in f"{caught.value!r} {caught.value.__context__}"


async def test_a_token_function_that_waits_for_the_network_holds_no_other_call_up() -> None:
    goes_on = threading.Event()

    def waits() -> str:
        assert goes_on.wait(LIMIT)  # for a token server
        return TOKEN

    async with OpenAITwin("azure") as twin:
        twin.default = chat_answer("Hi.")
        llm = openai.LLM(server=openai.Azure(endpoint=twin.url, token=waits), model="mine")
        async with anyio.create_task_group() as calls:
            calls.start_soon(answer, llm)
            await anyio.wait_all_tasks_blocked()
            goes_on.set()  # as another call of this event loop goes on
    assert twin.requests[0].headers["Authorization"] == f"Bearer {TOKEN}"


async def test_a_token_in_a_servers_text_is_masked() -> None:
    async with OpenAITwin("azure") as twin:
        twin.add(refusal(401, f"bad token {TOKEN}-1"))
        with pytest.raises(ProviderStatusError) as caught:
            await answer(openai.LLM(server=openai.Azure(endpoint=twin.url, token=lambda: f"{TOKEN}-1"), model="m"))
    assert TOKEN not in str(caught.value)


def test_the_environment_has_the_resource_and_its_key_or_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://res.openai.azure.com/")
    monkeypatch.setenv("AZURE_OPENAI_AD_TOKEN", TOKEN)
    llm = openai.LLM(server="azure", model="mine")
    assert "base_url='https://res.openai.azure.com/openai/v1'" in repr(llm)
    assert TOKEN in llm._client.secrets
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
    assert openai.LLM(server="azure", model="mine")._client.secrets == (KEY,)
    elsewhere = openai.LLM(server="azure", model="mine", base_url="https://gateway.example.org")
    assert elsewhere._client.secrets == ()


@pytest.mark.parametrize(
    ("server", "fields", "needed"),
    [
        (openai.Azure(), {"model": "m"}, "AZURE_OPENAI_ENDPOINT"),
        (openai.Azure(endpoint="res.openai.azure.com"), {"model": "m"}, "base_url must be a URL"),
        (
            openai.Azure(endpoint="https://r.openai.azure.com"),
            {"model": "m"},
            "AZURE_OPENAI_API_KEY.*AZURE_OPENAI_AD_TOKEN",
        ),
        (openai.Azure(endpoint="https://r.openai.azure.com", token=TOKEN), {"model": "m", "api_key": KEY}, "got both"),
        (openai.Azure(endpoint="https://r.openai.azure.com"), {"api_key": KEY}, "azure needs model.*deployments"),
        (openai.Azure(endpoint="https://r.example", api_version="2024-10-21"), {}, "name of a deployment"),
    ],
)
def test_what_is_missing_is_named(server: openai.Azure, fields: dict[str, str], needed: str) -> None:
    with pytest.raises(ConfigurationError, match=needed):
        openai.LLM(server=server, **fields)  # type: ignore[arg-type]


def test_the_old_api_has_no_responses_and_no_realtime_model() -> None:
    azure = openai.Azure(endpoint="https://r.openai.azure.com", api_version="2024-10-21")
    with pytest.raises(ConfigurationError, match="'responses' needs v1"):
        openai.LLM(server=azure, model="m", api_key=KEY, api="responses")
    with pytest.raises(ConfigurationError, match="realtime model needs v1"):
        openai.RealtimeModel(server=azure, model="m", api_key=KEY)
    with pytest.raises(ConfigurationError, match="need server None, 'openai' or 'azure'"):
        openai.RealtimeModel(server="groq", model="m", api_key=KEY)  # type: ignore[arg-type]
    assert openai.RealtimeModel(server=replace(azure, api_version=""), model="m", api_key=KEY).model == "m"


async def test_a_missing_deployment_is_named_with_what_to_do() -> None:
    async with OpenAITwin("azure", models=("mine",)) as twin:
        with pytest.raises(
            ProviderStatusError, match="DeploymentNotFound.*deployment 'yours'.*lists the deployments"
        ) as caught:
            await answer(openai.LLM(server="azure", model="yours", base_url=twin.url, api_key=KEY))
    assert (caught.value.status, caught.value.retryable) == (404, False)


async def test_a_filtered_answer_and_a_filtered_question_end_as_a_refusal() -> None:
    body = {"error": {"message": FILTERED, "type": None, "param": "prompt", "code": "content_filter", "status": 400}}
    cut = Answer(steps=[chat_delta(content="So"), chat_delta(finish="content_filter")])
    async with OpenAITwin("azure") as twin:
        twin.add(cut, Answer(status=400, body=body), chat_answer("Hi."))
        async with openai.LLM(server="azure", model="mine", base_url=twin.url, api_key=KEY) as llm:
            answers = [[event async for event in llm.generate(HELLO)] for _ in range(3)]
    assert answers[0] == [TextDelta("So"), Done("refusal")]
    assert answers[1] == [Done("refusal")]
    assert answers[2][0] == TextDelta("Hi.")


async def test_a_filtered_answer_of_the_responses_api_ends_as_a_refusal() -> None:
    async with OpenAITwin("azure") as twin:
        twin.add(Answer(steps=[*responses_answer("So").steps[:-1], responses_end("content_filter")]))
        events = await answer(openai.LLM(server="azure", model="m", base_url=twin.url, api_key=KEY, api="responses"))
    assert events[-1] == Done("refusal")
    assert twin.requests[0].path == "/openai/v1/responses"


@pytest.mark.parametrize(
    ("token", "header"), [(None, {"api-key": KEY}), (lambda: TOKEN, {"authorization": f"Bearer {TOKEN}"})]
)
async def test_the_realtime_model_is_a_deployment_too(token: Callable[[], str] | None, header: dict[str, str]) -> None:
    async with ScriptedRealtimeServer() as server:
        azure = openai.Azure(endpoint=server.url.removesuffix("/v1"), token=token)
        async with openai.RealtimeModel(server=azure, model="mine", api_key=None if token else KEY) as model:
            connection = await model.open(RealtimeSetup())
            await connection.aclose()
    assert server.handshakes == [{"model": "mine", **header}]


async def test_a_missing_deployment_of_a_realtime_model_is_named() -> None:
    async with ScriptedRealtimeServer() as server:
        server.refuse(404)
        azure = openai.Azure(endpoint=server.url.removesuffix("/v1"))
        async with openai.RealtimeModel(server=azure, model="yours", api_key=KEY) as model:
            with pytest.raises(ProviderStatusError, match="deployment 'yours'"):
                await model.open(RealtimeSetup())
