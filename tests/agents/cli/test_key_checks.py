"""Keys tried at the vendors' twins: works, refused, not reached, a fault of the server; and never shown."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import anyio
import pytest
from aiohttp import web

from kit.servers.web import serving
from vivavoce.agents.cli.catalogue import key_checks
from vivavoce.agents.cli.catalogue.key_checks import Answer, Verdict, try_key, try_keys
from vivavoce.agents.cli.catalogue.providers import Listed, find_plugins
from vivavoce.agents.cli.doctor.findings import Finding, Health
from vivavoce.agents.cli.doctor.keys import provider_keys
from vivavoce.pipelines.about import KeyCheck, Part, Provider
from vivavoce.pipelines.net.client import Client
from vivavoce.plugins.anthropic.twin import Twin as AnthropicTwin
from vivavoce.plugins.assemblyai.twin import AssemblyAITwin
from vivavoce.plugins.azure.client import ENDPOINT_VARIABLES
from vivavoce.plugins.azure.twin import AzureTwin
from vivavoce.plugins.cartesia.twin import CartesiaTwin
from vivavoce.plugins.deepgram.twin import DeepgramTwin
from vivavoce.plugins.elevenlabs.twin import ElevenLabsTwin
from vivavoce.plugins.google.twin import Twin as GoogleTwin
from vivavoce.plugins.openai.twin import OpenAITwin

LISTED = {each.provider.name: each for each in find_plugins()[0]}
KEY = "a-secret-key-of-the-vendor-0123456789"
WRONG = "another-secret-key-that-the-vendor-does-not-know"


@pytest.fixture(autouse=True)
def without_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@asynccontextmanager
async def anthropic() -> AsyncIterator[tuple[str, str]]:
    async with AnthropicTwin(keys=[KEY]) as twin:
        yield twin.url, KEY


@asynccontextmanager
async def assemblyai() -> AsyncIterator[tuple[str, str]]:
    async with AssemblyAITwin() as twin:
        yield twin.url, twin.key


@asynccontextmanager
async def azure() -> AsyncIterator[tuple[str, str]]:
    async with AzureTwin() as twin:
        yield twin.url, twin.key


@asynccontextmanager
async def cartesia() -> AsyncIterator[tuple[str, str]]:
    async with CartesiaTwin() as twin:
        yield twin.url, twin.key


@asynccontextmanager
async def deepgram() -> AsyncIterator[tuple[str, str]]:
    async with DeepgramTwin() as twin:
        yield twin.url, twin.key


@asynccontextmanager
async def elevenlabs() -> AsyncIterator[tuple[str, str]]:
    async with ElevenLabsTwin() as twin:
        yield twin.url, twin.key


@asynccontextmanager
async def openai() -> AsyncIterator[tuple[str, str]]:
    async def answer(request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != f"Bearer {KEY}":
            error = {"message": "Incorrect API key provided: anot****know.", "code": "invalid_api_key"}
            return web.json_response({"error": error}, status=401)
        return web.json_response({"object": "list", "data": []})

    async with serving("/v1/models", answer) as place:
        yield f"http://{place}/v1", KEY


@asynccontextmanager
async def google() -> AsyncIterator[tuple[str, str]]:
    async with GoogleTwin(keys=[KEY]) as twin:
        yield twin.url, KEY


@asynccontextmanager
async def azure_openai() -> AsyncIterator[tuple[str, str]]:
    async def answer(request: web.Request) -> web.Response:
        if request.headers.get("api-key") != KEY:
            error = {"code": "401", "message": "Access denied due to invalid subscription key or wrong API endpoint."}
            return web.json_response({"error": error}, status=401)
        return web.json_response({"object": "list", "data": []})

    async with serving("/openai/v1/models", answer) as place:
        yield f"http://{place}/openai/v1", KEY


VENDORS = (anthropic, assemblyai, azure, azure_openai, cartesia, deepgram, elevenlabs, google, openai)


def test_each_twin_is_tried_here() -> None:
    twins = {each.plugin for each in LISTED.values() if each.twin and each.provider.check is not None}
    assert twins <= {vendor.__name__ for vendor in VENDORS}


@pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.__name__)
async def test_a_vendor_takes_its_key_and_refuses_another(vendor: type) -> None:
    provider = LISTED[vendor.__name__.replace("_", "-")].provider
    async with vendor() as (url, key):
        good = await try_key(provider, api_key=key, base_url=url)
        bad = await try_key(provider, api_key=WRONG, base_url=url)
    assert (good.verdict, good.server) == (Verdict.WORKS, url)
    assert bad.verdict is Verdict.REFUSED
    assert bad.text.startswith("status 40")
    assert WRONG not in repr(bad)


@pytest.mark.parametrize(
    "provider",
    [
        pytest.param(each.provider, id=name, marks=pytest.mark.live(each.provider.keys[0]))
        for name, each in LISTED.items()
        if each.provider.check is not None
    ],
)
async def test_the_vendor_itself_takes_the_key_of_the_environment(provider: Provider) -> None:
    answer = await try_key(provider)
    assert answer.verdict is Verdict.WORKS, answer


async def test_the_twin_of_openai_answers_the_request_that_tries_a_key() -> None:
    for name in ("openai", "azure", "openrouter"):
        provider = LISTED["azure-openai" if name == "azure" else name].provider
        async with OpenAITwin(name) as twin:
            answer = await try_key(provider, api_key=twin.key, base_url=twin.url)
        assert answer.verdict is Verdict.WORKS, answer


async def test_a_servers_fault_says_nothing_about_the_key() -> None:
    async with DeepgramTwin() as twin:
        twin.refuse(503, 429)
        for status in (503, 429):
            answer = await try_key(LISTED["deepgram"].provider, api_key=twin.key, base_url=twin.url)
            assert answer.verdict is Verdict.UNKNOWN
            assert f"status {status}" in answer.text


async def test_without_a_network_the_key_is_not_tried() -> None:
    answer = await try_key(LISTED["deepgram"].provider, api_key=KEY, base_url="http://127.0.0.1:1")
    assert answer.verdict is Verdict.UNREACHABLE
    assert "no connection" in answer.text
    assert KEY not in repr(answer)


async def test_a_key_that_no_header_can_carry_is_refused_here() -> None:
    answer = await try_key(LISTED["openai"].provider, api_key="sk-ключ", base_url="http://127.0.0.1:1")
    assert answer.verdict is Verdict.REFUSED
    assert "printable ASCII" in answer.text


def provider_at(url: str, name: str = "slow") -> Provider:
    def client(*, api_key: str | None = None, base_url: str | None = None) -> Client:
        return Client(name, base_url or url, headers={"Authorization": f"Token {api_key or KEY}"})

    check = KeyCheck(client=client, path="hang", source="this test")
    part = Part(kind="stt", make=provider_at)
    return Provider(name=name, title=name.title(), parts=(part,), keys=(f"{name.upper()}_KEY",), check=check)


async def test_vendors_whose_keys_are_set_are_asked_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, both = 0, anyio.Event()

    async def answer_when_all_have_asked(_: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        if asked == 2:
            both.set()
        await both.wait()
        return web.Response()

    monkeypatch.setattr(key_checks, "LIMIT", 60.0)
    monkeypatch.setenv("ONE_KEY", KEY)
    monkeypatch.setenv("TWO_KEY", KEY)
    async with serving("/hang", answer_when_all_have_asked) as place:
        listed = [Listed(provider_at(f"http://{place}", name), name) for name in ("one", "two", "three")]
        answers = await try_keys(listed)
    assert {name: answer.verdict for name, answer in answers.items()} == {"one": "works", "two": "works"}


async def test_a_check_that_fails_costs_no_other_vendors_answer() -> None:
    def fails(*, api_key: str | None = None, base_url: str | None = None) -> Client:
        raise LookupError(KEY)

    provider = provider_at("http://127.0.0.1:1", "broken")
    assert provider.check is not None
    answer = await try_key(replace(provider, check=replace(provider.check, client=fails)))
    assert (answer.verdict, answer.text) == (Verdict.UNKNOWN, "its check fails: LookupError")


async def test_a_vendor_that_does_not_answer_is_given_up_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    over = anyio.Event()

    async def hang(_: web.Request) -> web.Response:
        await over.wait()
        return web.Response()

    monkeypatch.setattr(key_checks, "LIMIT", 0.05)
    async with serving("/hang", hang) as place:
        answer = await try_key(provider_at(f"http://{place}"))
        over.set()
    assert (answer.verdict, answer.text) == (Verdict.UNREACHABLE, "no answer within 0.05 s")


def found(answer: Answer, environment: dict[str, str]) -> list[Finding]:
    listed = [LISTED["deepgram"], LISTED["google"], LISTED["silero"]]
    return list(provider_keys(listed, [], {"deepgram": answer}, environment))


@pytest.mark.parametrize(
    ("verdict", "health", "words", "remedy"),
    [
        (Verdict.WORKS, Health.OK, "works at https://there", ""),
        (Verdict.REFUSED, Health.PROBLEM, "refused: status 401", "https://console.deepgram.com"),
        (Verdict.UNREACHABLE, Health.WARNING, "https://there cannot be reached", "HTTPS_PROXY"),
        (Verdict.UNKNOWN, Health.WARNING, "https://there did not say", "later"),
        (Verdict.UNTRIED, Health.OK, "not tried", ""),
    ],
)
def test_doctor_says_what_each_answer_means_and_what_to_do(
    verdict: Verdict, health: Health, words: str, remedy: str
) -> None:
    (key, others) = found(Answer(verdict, "status 401", "https://there"), {"DEEPGRAM_API_KEY": KEY})
    assert (key.name, key.health) == ("key of deepgram", health)
    assert words in key.found
    assert remedy in key.remedy
    assert KEY not in key.found + key.remedy
    assert (others.health, others.found) == (Health.ABSENT, "not set: google")


def test_a_key_that_cannot_be_tried_for_want_of_a_setting_is_not_called_refused() -> None:
    answer = Answer(Verdict.REFUSED, "needed the region of the resource, got none; set AZURE_SPEECH_REGION")
    (key, _) = found(answer, {"DEEPGRAM_API_KEY": KEY})
    assert (key.health, key.remedy) == (Health.PROBLEM, "set AZURE_SPEECH_REGION")
    assert "not usable: needed the region of the resource, got none" in key.found


def test_blanks_around_a_key_are_a_problem() -> None:
    (key, _) = found(Answer(Verdict.WORKS), {"DEEPGRAM_API_KEY": f"{KEY}\n"})
    assert (key.health, "blank" in key.found) == (Health.PROBLEM, True)


def test_a_provider_that_needs_more_than_its_key_names_the_variable() -> None:
    provider = Provider(name="azure", title="Azure", parts=(), keys=("AZURE_KEY",), settings=("AZURE_REGION",))
    (key,) = provider_keys([Listed(provider, "azure")], [], {}, {"AZURE_KEY": KEY})
    assert (key.health, key.remedy) == (Health.PROBLEM, "set AZURE_REGION")


def test_a_refused_key_comes_with_the_notes_of_the_vendor() -> None:
    answers = {"azure": Answer(Verdict.REFUSED, "status 401", "https://there")}
    (key,) = provider_keys([LISTED["azure"]], [], answers, {"AZURE_SPEECH_KEY": KEY})
    assert key.found.endswith("https://there refused: status 401")
    assert key.remedy.startswith("A key belongs to a region: set AZURE_SPEECH_REGION or AZURE_SPEECH_ENDPOINT too.")
    assert "get a key at https://portal.azure.com" in key.remedy


async def test_a_key_without_its_region_is_not_called_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AZURE_SPEECH_REGION", "SPEECH_REGION", *ENDPOINT_VARIABLES):
        monkeypatch.delenv(name, raising=False)
    answer = await try_key(LISTED["azure"].provider, api_key=KEY)
    (key,) = provider_keys([LISTED["azure"]], [], {"azure": answer}, {"AZURE_SPEECH_KEY": KEY})
    assert key.health is Health.PROBLEM
    assert "not usable: needed the region" in key.found
    assert key.remedy.startswith("set AZURE_SPEECH_REGION")
