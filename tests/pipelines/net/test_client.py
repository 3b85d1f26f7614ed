"""A client's addresses, proxies, headers and life; its failures are the fault suite's (`tests/conformance`)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import anyio.lowlevel
import pytest

from kit.servers.faulty_server import Body, Refuse, faulty_server
from vivavoce.pipelines.core.errors import ConfigurationError, ProviderConnectionError, ProviderStatusError
from vivavoce.pipelines.net.client import MAX_BODY, Client, proxy_of
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.net.options import ConnectionOptions
from vivavoce.pipelines.net.streams import json_lines
from vivavoce.plugins.google.twin.certificate import make_certificate

FAILURES = Failures(provider="test")
FINE = Body((b'{"a": 1}\n',), "application/json")


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def client(url: str, **headers: str) -> Client:
    return Client("test.LLM", url, headers=headers)


async def ask(one: Client) -> list[object]:
    async with one.request("messages", FAILURES, json={"a": 1}) as response:
        return [value async for value in json_lines(response)]


def test_an_address_keeps_the_path_and_the_query_of_the_base_url() -> None:
    one = client("wss://host:8443/base/?version=1")
    assert one.url("/v1/listen", {"model": "m", "keyterm": ["a b", "ü&"]}) == (
        "https://host:8443/base/v1/listen?version=1&model=m&keyterm=a+b&keyterm=%C3%BC%26"
    )
    assert one.url(query=[("a", "1")]) == "https://host:8443/base?version=1&a=1"
    assert client("ws://host").url("v1") == "http://host/v1"


def test_a_request_has_one_authorization() -> None:
    assert client("http://user:password@host", Authorization="Bearer k").url() == "http://host"
    assert client("http://user:password@host").url() == "http://user:password@host"


def test_no_secret_shows_and_all_are_known() -> None:
    one = client("https://user:password@host/v1?key=in-url", Authorization="Token in-header")
    assert repr(one) == "Client(https://host/v1)"
    assert {"password", "in-url", "in-header", "Token in-header"} <= set(one.secrets)


@pytest.mark.parametrize(
    ("variables", "url", "proxy"),
    [
        ({}, "https://host/v1", None),
        ({"HTTPS_PROXY": "http://proxy:1"}, "https://host/v1", "http://proxy:1"),
        ({"HTTPS_PROXY": "http://proxy:1"}, "http://host/v1", None),
        ({"ALL_PROXY": "http://proxy:2"}, "http://host/v1", "http://proxy:2"),
        ({"ALL_PROXY": "socks5://proxy:2"}, "http://host/v1", None),
        ({"HTTPS_PROXY": "http://proxy:1", "NO_PROXY": "host"}, "https://host/v1", None),
        ({"HTTPS_PROXY": "http://proxy:1", "NO_PROXY": ".example.com"}, "https://user@a.example.com:8443/", None),
        ({"HTTPS_PROXY": "http://proxy:1", "NO_PROXY": "*"}, "https://host", None),
    ],
)
def test_the_environments_proxy_is_used(
    variables: dict[str, str], url: str, proxy: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert proxy_of(url) == proxy


async def test_a_request_goes_through_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    async with faulty_server(good=FINE) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        one = client("http://nowhere.invalid/v1")
        assert await ask(one) == [{"a": 1}]
        assert proxy.requests[0]["host"] == "nowhere.invalid"
        await one.aclose()


async def test_requests_share_a_connection_and_carry_the_headers() -> None:
    options = ConnectionOptions(extra_headers={"X-Extra": "1"})
    async with faulty_server(good=FINE) as server:
        one = Client("test.LLM", server.url, headers={"x-api-key": "k"}, options=options)
        for _ in range(3):
            assert await ask(one) == [{"a": 1}]
        assert {(request["x-api-key"], request["X-Extra"]) for request in server.requests} == {("k", "1")}
        assert len(server.connections) == 1
        await one.aclose()


async def test_a_refusal_of_any_length_is_read_to_a_limit() -> None:
    async with faulty_server(good=FINE) as server:
        one = client(server.url)
        server.faults += [Refuse(400, body="x" * 10 * MAX_BODY), Refuse(404, body="")]
        for status in (400, 404):
            with pytest.raises(ProviderStatusError) as caught:
                await ask(one)
            assert caught.value.status == status
            assert len(str(caught.value)) < 500
        assert await ask(one) == [{"a": 1}]
        await one.aclose()


async def test_a_closed_client_says_so_and_may_be_closed_twice() -> None:
    async with faulty_server(good=FINE) as server:
        one = client(server.url)
        await ask(one)
        await one.aclose()
        await one.aclose()
        with pytest.raises(ConfigurationError, match=r"test\.LLM is closed"):
            await ask(one)
        with pytest.raises(ConfigurationError, match=r"test\.LLM is closed"):
            await one.websocket("", (), FAILURES)


def test_another_event_loop_is_refused_while_the_first_one_runs() -> None:
    one = client("http://127.0.0.1:9/v1")
    first = asyncio.new_event_loop()

    async def begin() -> None:
        with pytest.raises(Exception, match="no connection"):
            await ask(one)

    async def refuse() -> None:
        with pytest.raises(ConfigurationError, match="for each event loop"):
            await ask(one)
        with pytest.raises(ConfigurationError, match="for each event loop"):
            await one.aclose()

    first.run_until_complete(begin())
    asyncio.run(refuse())
    first.run_until_complete(one.aclose())
    first.close()


def test_a_client_of_a_loop_that_has_ended_can_be_closed() -> None:
    one = client("http://127.0.0.1:9/v1")
    first = asyncio.new_event_loop()

    async def begin() -> None:
        with pytest.raises(Exception, match="no connection"):
            await ask(one)
        await anyio.lowlevel.checkpoint()

    first.run_until_complete(begin())
    first.close()
    asyncio.run(one.aclose())


async def test_a_request_without_a_body_is_a_get_and_one_with_bytes_or_a_form_a_post() -> None:
    from aiohttp import FormData

    form = FormData()
    form.add_field("file", b"RIFF", filename="a.wav")
    async with faulty_server(good=FINE) as server:
        one = client(server.url)
        async with one.request("models", FAILURES, query={"a": "1"}) as response:
            assert [value async for value in json_lines(response)] == [{"a": 1}]
        async with one.request("upload", FAILURES, data=b"RIFF", headers={"Content-Type": "audio/wav"}):
            pass
        async with one.request("upload", FAILURES, data=form):
            pass
        assert [line.split(";")[0] for line in server.lines] == [
            "GET /v1/models?a=1 ",
            "POST /v1/upload audio/wav",
            "POST /v1/upload multipart/form-data",
        ]
        await one.aclose()


async def test_a_server_whose_certificate_is_unknown_gets_no_request(tmp_path: Path) -> None:
    async with faulty_server(good=FINE, certificate=make_certificate(tmp_path)) as server:
        one = client(server.url)
        for attempt in (ask(one), one.websocket("", (), FAILURES)):
            with pytest.raises(ProviderConnectionError, match="certificate") as caught:
                await attempt
            assert not caught.value.retryable
        assert server.requests == []
        await one.aclose()


async def test_a_websocket_goes_through_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    async with faulty_server() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        one = client("ws://nowhere.invalid/v1")
        websocket = await one.websocket("listen", (), FAILURES)
        assert proxy.requests[0]["host"] == "nowhere.invalid"
        await websocket.close()
        await one.aclose()


async def test_sessions_that_share_a_client_share_no_cookies() -> None:
    async with faulty_server(good=FINE) as server:
        one = client(server.url.replace("127.0.0.1", "localhost"))
        server.faults.append(Refuse(500, {"Set-Cookie": "of=one-session"}))
        with pytest.raises(ProviderStatusError):
            await ask(one)
        server.faults.append(Refuse(200, {"Set-Cookie": "of=one-session"}, '{"a": 1}'))
        assert await ask(one) == [{"a": 1}]
        assert await ask(one) == [{"a": 1}]
        assert all("Cookie" not in request for request in server.requests)
        await one.aclose()
