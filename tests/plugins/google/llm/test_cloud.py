"""Access by Google Cloud: addresses, projects, tokens of google-auth, and what to do without them."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from google.oauth2.credentials import Credentials

from kit.net_users import check_clean
from vivavoce.pipelines.core.errors import ConfigurationError, ProviderConnectionError, ProviderError
from vivavoce.pipelines.llm.base import GenerateRequest
from vivavoce.plugins import google
from vivavoce.plugins.google.access import find_access
from vivavoce.plugins.google.twin import Answer, Twin


def credentials(**fields: Any) -> Any:
    """Return credentials of google-auth, whose constructor has no types."""
    return Credentials(**fields)  # type: ignore[no-untyped-call]


SOME = credentials(token="a-token")
KEY = "AIza-very-secret"


@pytest.mark.parametrize(
    ("location", "host"),
    [
        ("", "aiplatform.googleapis.com"),
        ("global", "aiplatform.googleapis.com"),
        ("europe-west4", "europe-west4-aiplatform.googleapis.com"),
        ("eu", "aiplatform.eu.rep.googleapis.com"),
    ],
)
def test_a_location_has_its_address(location: str, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    by_argument = find_access("m", None, None, google.Vertex(location=location, credentials=SOME))
    monkeypatch.setenv("GOOGLE_CLOUD_LOCATION", location)
    by_environment = find_access("m", None, None, google.Vertex(credentials=SOME))
    assert by_argument.base_url == by_environment.base_url == f"https://{host}"


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("gemini-3.8-flash", "publishers/google/models/gemini-3.8-flash"),
        ("meta/llama-5", "publishers/meta/models/llama-5"),
        ("publishers/google/models/m", "publishers/google/models/m"),
    ],
)
def test_a_model_has_the_path_that_the_sdk_gives_it(model: str, path: str) -> None:
    assert find_access(model, None, None, google.Vertex(project="p", credentials=SOME)).model_path == path


@pytest.mark.parametrize("variable", ["GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_ENTERPRISE"])
def test_the_environment_chooses_google_cloud_unless_an_argument_does(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "True")
    assert find_access("m", None, None, None).cloud is not None
    assert find_access("m", KEY, None, False).cloud is None
    monkeypatch.setenv("GOOGLE_GENAI_USE_ENTERPRISE", "false")
    assert find_access("m", KEY, None, None).cloud is None


def test_a_key_without_a_project_is_the_express_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    def url(access: Any) -> str:
        return f"{access.base_url}/{access.version}/{access.model_path}"

    given = find_access("m", KEY, None, True)
    monkeypatch.setenv("GOOGLE_API_KEY", KEY)
    found = find_access("m", None, None, True)
    assert url(given) == url(found) == "https://aiplatform.googleapis.com/v1beta1/publishers/google/models/m"
    assert given.headers == found.headers == {"x-goog-api-key": KEY}
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p")
    assert find_access("m", None, None, True).cloud is not None
    assert find_access("m", KEY, None, True).cloud is None


async def ask(llm: google.LLM, hello: GenerateRequest) -> None:
    async for _ in llm.generate(hello):
        pass


async def test_credentials_that_are_valid_are_used_as_they_are(twin: Twin, hello: GenerateRequest) -> None:
    payer = credentials(token="a-token", quota_project_id="payer")
    vertex = google.Vertex(project="p", location="europe-west4", credentials=payer)
    async with google.LLM(model="m", vertex=vertex, base_url=twin.url) as llm:
        twin.add(Answer("Fine."))
        await ask(llm, hello)
    request = twin.requests[0]
    assert request.place == "projects/p/locations/europe-west4/publishers/google/"
    assert request.headers["authorization"] == "Bearer a-token"
    assert request.headers["x-goog-user-project"] == "payer"
    assert "a-token" not in repr(vertex)


async def test_the_machines_credentials_tell_the_project_and_give_one_token_for_all_requests(
    twin: Twin, hello: GenerateRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    account = {
        "type": "service_account",
        "project_id": "of-the-file",
        "private_key": pem.decode(),
        "client_email": "voice@of-the-file.iam.gserviceaccount.com",
        "token_uri": f"{twin.url}/token",
    }
    path = tmp_path / "account.json"
    path.write_text(json.dumps(account))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    async with google.LLM(vertex=True, base_url=twin.url) as llm:
        twin.add(Answer("Fine."), Answer("Fine."))
        await ask(llm, hello)
        await ask(llm, hello)
    assert twin.requests[0].place == "projects/of-the-file/locations/global/publishers/google/"
    assert [request.headers["authorization"] for request in twin.requests] == ["Bearer token-1"] * 2
    assert twin.tokens == 1


def old(twin_url: str, refresh_token: str) -> Any:
    """Return credentials whose token is over."""
    return credentials(
        token="old",
        refresh_token=refresh_token,
        token_uri=f"{twin_url}/token",
        client_id="c",
        client_secret="s",
        expiry=datetime.datetime(2020, 1, 1),
    )


async def test_a_token_that_is_over_is_refreshed(twin: Twin, hello: GenerateRequest) -> None:
    vertex = google.Vertex(project="p", credentials=old(twin.url, "r"))
    async with google.LLM(vertex=vertex, base_url=twin.url) as llm:
        twin.add(Answer("Fine."))
        await ask(llm, hello)
    assert twin.requests[0].headers["authorization"] == "Bearer token-1"


async def test_credentials_that_cannot_be_refreshed_say_what_to_do(twin: Twin, hello: GenerateRequest) -> None:
    vertex = google.Vertex(project="p", credentials=old(twin.url, "revoked"))
    async with google.LLM(vertex=vertex, base_url=twin.url) as llm:
        with pytest.raises(ProviderError, match="gcloud auth application-default login") as caught:
            await ask(llm, hello)
    assert not caught.value.retryable
    check_clean(caught.value, "revoked")


async def test_a_server_of_tokens_that_is_away_may_be_asked_again(twin: Twin, hello: GenerateRequest) -> None:
    vertex = google.Vertex(project="p", credentials=old("http://127.0.0.1:9", "r"))
    async with google.LLM(vertex=vertex, base_url=twin.url) as llm:
        with pytest.raises(ProviderConnectionError, match="no connection to refresh") as caught:
            await ask(llm, hello)
    assert caught.value.retryable
    check_clean(caught.value, "old")


async def test_a_machine_without_credentials_or_project_says_what_to_do(
    twin: Twin, hello: GenerateRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setenv("PATH", "")
    async with google.LLM(vertex=True, base_url=twin.url) as llm:
        with pytest.raises(ConfigurationError, match="GOOGLE_APPLICATION_CREDENTIALS"):
            await ask(llm, hello)
    async with google.LLM(vertex=google.Vertex(credentials=SOME), base_url=twin.url) as llm:
        with pytest.raises(ConfigurationError, match="set GOOGLE_CLOUD_PROJECT"):
            await ask(llm, hello)


async def test_a_refused_token_says_what_to_do_and_shows_no_token(hello: GenerateRequest) -> None:
    async with Twin(keys=["another"]) as twin:
        vertex = google.Vertex(project="p", credentials=SOME)
        async with google.LLM(vertex=vertex, base_url=twin.url) as llm:
            with pytest.raises(ProviderError, match="401, UNAUTHENTICATED; .*; check the credentials") as caught:
                await ask(llm, hello)
    check_clean(caught.value, "a-token")
