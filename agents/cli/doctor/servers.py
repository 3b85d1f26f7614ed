"""The checks of servers: LiveKit (URL, key, secret, clock) and the OTLP endpoint."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

import aiohttp
import anyio

from vivavoce.agents.cli.doctor.findings import Finding, Health
from vivavoce.agents.cli.environment import masked
from vivavoce.agents.server_access import why_unreachable
from vivavoce.agents.telemetry.export.endpoints import SCHEMES, named_protocol, without_secrets
from vivavoce.agents.telemetry.options import is_disabled
from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.core.errors import ConfigurationError

LIMIT = 5.0
"""Seconds for each server to answer."""
SKEW_WARNING = 5.0
SKEW_PROBLEM = 60.0
"""Seconds by which our clock may differ: beyond a minute, servers refuse tokens."""
MIN_SECRET = 32
"""Characters below which a secret can be guessed."""


async def livekit(url: str | None, api_key: str | None, api_secret: str | None) -> AsyncIterator[Finding]:
    """Check the server that commands would use."""
    from vivavoce.agents.worker.options import websocket_url

    name = "LiveKit server"
    if not url:
        remedy = "only for a server of your own: set LIVEKIT_URL; dev, demo and room bring a room for this machine"
        yield Finding(name, Health.ABSENT, "LIVEKIT_URL not set", remedy)
        return
    try:
        server = websocket_url(url)
    except ConfigurationError as error:
        yield Finding(name, Health.PROBLEM, str(error), "set LIVEKIT_URL to the URL that your LiveKit project shows")
        return
    for what, value in (("LIVEKIT_API_KEY", api_key), ("LIVEKIT_API_SECRET", api_secret)):
        if not value:
            yield Finding(what, Health.PROBLEM, "not set", f"set {what} in the environment or in .env")
    if not api_key or not api_secret:
        return
    yield Finding("LIVEKIT_API_KEY", Health.OK, api_key)
    yield _secret(api_secret)
    http = _http(server)
    try:
        with anyio.fail_after(LIMIT):
            async with aiohttp.ClientSession() as session, session.get(http) as response:
                skew = _skew(response.headers.get("Date"))
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        remedy = "see whether it runs, and whether name, port and scheme (ws or wss) are right"
        yield Finding(name, Health.PROBLEM, f"{server} cannot be reached: {_words(error)}", remedy)
        return
    yield Finding(name, Health.OK, f"{server} answers")
    yield _clock(skew)
    yield await _account(http, api_key, api_secret)


def _secret(secret: str) -> Finding:
    if len(secret) < MIN_SECRET:
        remedy = f"use a secret of {MIN_SECRET} characters or more"
        return Finding("LIVEKIT_API_SECRET", Health.WARNING, f"{masked(secret)}, only {len(secret)} characters", remedy)
    return Finding("LIVEKIT_API_SECRET", Health.OK, masked(secret))


def _skew(date: str | None) -> float | None:
    """Return by how many seconds our clock is ahead of the server's; None: the server sends no time."""
    if date is None:
        return None
    try:
        return LoopClock().wall() - parsedate_to_datetime(date).timestamp()
    except ValueError:
        return None


def _clock(skew: float | None) -> Finding:
    if skew is None:
        return Finding("clock", Health.ABSENT, "the server does not send its time")
    found = f"{abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} the server's"
    if abs(skew) < SKEW_WARNING:
        return Finding("clock", Health.OK, f"within {SKEW_WARNING:g} s of the server's")
    health = Health.WARNING if abs(skew) < SKEW_PROBLEM else Health.PROBLEM
    return Finding("clock", health, found, "set this machine's clock (NTP); servers refuse tokens of another time")


async def _account(http: str, api_key: str, api_secret: str) -> Finding:
    """Send the server a request that needs the key."""
    from livekit import api

    name = "key and secret"
    try:
        with anyio.fail_after(LIMIT):
            client = api.LiveKitAPI(http, api_key, api_secret)
            try:
                rooms = await client.room.list_rooms(api.ListRoomsRequest())
            finally:
                await client.aclose()
    except api.TwirpError as error:
        if error.code in ("unauthenticated", "permission_denied"):
            remedy = "take key and secret from the same LiveKit project, and look at the clock"
            return Finding(name, Health.PROBLEM, f"refused: {error.message}", remedy)
        return Finding(name, Health.WARNING, f"the server did not say: {error.code} {error.message}")
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        return Finding(name, Health.WARNING, f"the server did not say: {_words(error)}")
    return Finding(name, Health.OK, f"accepted ({len(rooms.rooms)} rooms now)")


async def otlp(environment: Mapping[str, str]) -> AsyncIterator[Finding]:
    """Check the endpoint of traces."""
    name = "OTLP endpoint"
    own, common = environment.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), environment.get("OTEL_EXPORTER_OTLP_ENDPOINT")
    if not own and not common:
        remedy = "only for traces: set OTEL_EXPORTER_OTLP_ENDPOINT, such as http://127.0.0.1:4318"
        yield Finding(name, Health.ABSENT, "OTEL_EXPORTER_OTLP_ENDPOINT not set", remedy)
        return
    protocol = named_protocol(environment, "traces")
    if is_disabled(environment):
        yield Finding(name, Health.ABSENT, "OTEL_SDK_DISABLED: nothing is sent", "only for traces: unset it")
        return
    if protocol not in ("http/protobuf", "grpc"):
        found = f"OTEL_EXPORTER_OTLP_PROTOCOL is {protocol!r}"
        yield Finding(name, Health.PROBLEM, found, "set it to http/protobuf or grpc")
        return
    is_grpc = protocol == "grpc"
    url = own or (str(common) if is_grpc else f"{str(common).rstrip('/')}/v1/traces")
    shown, place = without_secrets(url), _place(url, needs_scheme=not is_grpc)
    if place is None:
        remedy = f"use one such as http://127.0.0.1:{4317 if is_grpc else 4318}"
        yield Finding(name, Health.PROBLEM, f"{shown!r} is no URL", remedy)
        return
    try:
        with anyio.fail_after(LIMIT):
            finding = await (_dial(shown, place[0], place[1] or 4317) if is_grpc else _post(url, shown, environment))
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        finding = Finding(name, Health.PROBLEM, f"{shown} cannot be reached: {_words(error)}", "see whether it runs")
    yield finding


async def _post(url: str, shown: str, environment: Mapping[str, str]) -> Finding:
    """Send an empty list of spans, which every collector accepts."""
    name = "OTLP endpoint"
    headers = {"Content-Type": "application/x-protobuf", **_headers(environment)}
    async with aiohttp.ClientSession() as session, session.post(url, data=b"", headers=headers) as response:
        status = response.status
    if status < 300:
        return Finding(name, Health.OK, f"{shown} takes traces")
    if status in (401, 403):
        remedy = "give the right key in OTEL_EXPORTER_OTLP_HEADERS"
        return Finding(name, Health.PROBLEM, f"{shown} refuses us ({status})", remedy)
    remedy = "give the endpoint without /v1/traces in OTEL_EXPORTER_OTLP_ENDPOINT" if status == 404 else ""
    return Finding(name, Health.PROBLEM, f"{shown} answers with status {status}", remedy)


async def _dial(shown: str, host: str, port: int) -> Finding:
    _, writer = await asyncio.open_connection(host, port)
    writer.close()
    return Finding("OTLP endpoint", Health.OK, f"{shown} listens (gRPC; whether it takes traces was not tried)")


def _place(url: str, *, needs_scheme: bool) -> tuple[str, int | None] | None:
    """Return host and port; None if the URL is malformed."""
    has_scheme = url.lower().startswith(SCHEMES)
    if not has_scheme and (needs_scheme or "://" in url):
        return None
    try:
        parts = urlsplit(url if has_scheme else f"//{url}")
        host, port = parts.hostname, parts.port
    except ValueError:  # a port that is no number, brackets without an end
        return None
    return (host, port) if host else None


def _headers(environment: Mapping[str, str]) -> dict[str, str]:
    from opentelemetry.util.re import parse_env_headers

    text = environment.get("OTEL_EXPORTER_OTLP_TRACES_HEADERS") or environment.get("OTEL_EXPORTER_OTLP_HEADERS") or ""
    return dict(parse_env_headers(text, liberal=True))


def _http(server: str) -> str:
    return server.replace("ws", "http", 1)


def _words(error: Exception) -> str:
    return f"no answer within {LIMIT:g} s" if isinstance(error, TimeoutError) else why_unreachable(error)
