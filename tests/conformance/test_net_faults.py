"""The fault suite of the network layer: whatever a server does, each user raises an honest error, and leaks nothing.

A user is code that opens a websocket or sends a request: the layer itself, and each plugin on it (`kit.net_users`).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from pathlib import Path

import anyio
import pytest

from kit.net_users import SHORT, RequestUser, SocketUser, check_clean
from kit.provider_net_users import REQUEST_USERS, SOCKET_USERS
from kit.servers.faulty_server import LIMIT, Body, Cut, Fault, FaultyServer, Refuse, Stall, faulty_server, raw_server
from kit.servers.scripted_gemini import make_certificate
from vivavoce.pipelines.core.errors import (
    ProviderConnectionError,
    ProviderError,
    ProviderProtocolError,
    ProviderStatusError,
    ProviderTimeoutError,
)
from vivavoce.pipelines.core.incidents import on_dropped_frames
from vivavoce.pipelines.net import client
from vivavoce.pipelines.net.outbox import MAX_QUEUED

KEY = "a-very-secret-key-4711"

STATUSES = {400: False, 401: False, 402: False, 403: False, 404: False, 429: True, 500: True, 503: True, 529: True}
REMEDIES = {
    401: "check the API key",
    402: "check the account",
    403: "check what the API key may do",
    404: "check model",
}

RECONNECTS = 100

ALL: tuple[SocketUser | RequestUser, ...] = (*SOCKET_USERS, *REQUEST_USERS)

on_socket_users = pytest.mark.parametrize("user", SOCKET_USERS, ids=str)
on_request_users = pytest.mark.parametrize("user", REQUEST_USERS, ids=str)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


User = SocketUser | RequestUser
Serve = Callable[[User], AbstractAsyncContextManager[FaultyServer]]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1."""
    return make_certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture
def serve(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Serve:
    """Return a function that runs a server for a user."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))

    def run(user: User) -> AbstractAsyncContextManager[FaultyServer]:
        if isinstance(user, RequestUser):
            return faulty_server(good=user.good)
        own = certificate if user.speaks_tls_only else None
        return faulty_server(user.answer, certificate=own, greeting=user.greeting)

    return run


async def not_opened(user: SocketUser, url: str, limit: float = LIMIT) -> ProviderError:
    """Return the error of a connection that cannot be opened."""
    with pytest.raises(ProviderError) as caught:
        async with user.line(url, KEY, limit):
            pass
    check_clean(caught.value, KEY)
    return caught.value


async def not_answered(user: RequestUser, url: str, limit: float = LIMIT) -> ProviderError:
    """Return the error of a request."""
    with pytest.raises(ProviderError) as caught:
        await user.ask(url, KEY, limit)
    check_clean(caught.value, KEY)
    return caught.value


async def refused(serve: Serve, user: User, *faults: Fault, limit: float = LIMIT) -> tuple[ProviderError, FaultyServer]:
    """Return the error of a user whose server does these faults, and the server."""
    async with serve(user) as server:
        server.faults += faults
        if isinstance(user, RequestUser):
            return await not_answered(user, server.url, limit), server
        return await not_opened(user, server.url, limit), server


@pytest.mark.parametrize("user", ALL, ids=str)
@pytest.mark.parametrize("status", STATUSES)
async def test_a_status_says_what_to_do_and_whether_to_try_again(user: User, status: int, serve: Serve) -> None:
    body = f'{{"error": {{"code": "so_it_is", "message": "Not with {KEY}."}}}}'
    error, server = await refused(serve, user, Refuse(status, {"retry-after": "7", "x-request-id": "req_9"}, body))
    assert isinstance(error, ProviderStatusError)
    assert (error.status, error.retryable, error.retry_after) == (status, STATUSES[status], 7.0)
    told = () if isinstance(user, SocketUser) and user.withholds else ("so_it_is", "req_9", "Not with ***")
    for fact in (f"status {status}", "asks to wait 7 s", REMEDIES.get(status, ""), *told):
        assert fact in str(error)
    assert len(server.requests) == 1, "the pipeline tries again, not the connection"


@pytest.mark.parametrize("user", ALL, ids=str)
async def test_a_status_is_told_also_if_its_text_does_not_come(
    user: User, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "BODY_LIMIT", 0.1)
    error, _ = await refused(serve, user, Refuse(401, stalls=True), limit=SHORT if user.has_sdk else LIMIT)
    assert isinstance(error, ProviderTimeoutError if user.has_sdk else ProviderStatusError)


@pytest.mark.parametrize("user", ALL, ids=str)
async def test_a_used_up_account_is_not_tried_again(user: User, serve: Serve) -> None:
    error, _ = await refused(serve, user, Refuse(429, body='{"error": {"code": "insufficient_quota"}}'))
    is_told = not isinstance(user, SocketUser) or not user.has_sdk
    assert error.retryable is not is_told


@pytest.mark.parametrize("user", ALL, ids=str)
async def test_nothing_listens(user: User, serve: Serve) -> None:
    async with serve(user) as server:
        url = server.url
    error = await (not_answered(user, url) if isinstance(user, RequestUser) else not_opened(user, url))
    assert isinstance(error, ProviderConnectionError)
    assert error.retryable
    assert "refused" in str(error).casefold()


@pytest.mark.parametrize("user", ALL, ids=str)
async def test_a_connection_that_is_cut_before_the_answer_may_be_tried_again(user: User, serve: Serve) -> None:
    error, _ = await refused(serve, user, Cut(), Cut(), Cut())
    assert isinstance(error, ProviderConnectionError)
    assert error.retryable


@pytest.mark.parametrize("user", ALL, ids=str)
async def test_a_server_that_does_not_answer_is_given_up_in_time(user: User, serve: Serve) -> None:
    error, _ = await refused(serve, user, Stall(), limit=SHORT)
    assert isinstance(error, ProviderTimeoutError)


@on_socket_users
async def test_a_page_instead_of_a_websocket_points_at_the_address(user: SocketUser, serve: Serve) -> None:
    error, _ = await refused(serve, user, Body((b"<html>Welcome</html>",), "text/html"))
    assert isinstance(error, ProviderProtocolError)
    assert "check base_url" in str(error)
    assert not error.retryable


@on_socket_users
async def test_a_redirect_does_not_carry_the_key_to_another_host(user: SocketUser, serve: Serve) -> None:
    async with faulty_server() as other:
        error, _ = await refused(serve, user, Refuse(302, {"location": other.url}))
    assert isinstance(error, ProviderProtocolError if user.has_sdk else ProviderStatusError)
    assert other.requests == []


UPGRADE = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
HEADS = {
    **{f"cut after {size} bytes": UPGRADE[:size] for size in range(1, len(UPGRADE), 12)},
    "without a key": UPGRADE + b"\r\n",
    "with a wrong key": UPGRADE + b"Sec-WebSocket-Accept: AAAAAAAAAAAAAAAAAAAAAAAAAAA=\r\n\r\n",
    "of another protocol": b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
    "too long": UPGRADE + b"X-Long: " + b"x" * 100_000 + b"\r\n\r\n",
}


@pytest.mark.parametrize("user", [user for user in ALL if not user.has_sdk], ids=str)
@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
async def test_a_head_that_is_cut_or_wrong_is_an_error_of_ours(user: User, head: bytes) -> None:
    async with raw_server(head) as url:
        error = await (not_answered(user, url) if isinstance(user, RequestUser) else not_opened(user, url))
    assert isinstance(error, ProviderConnectionError | ProviderProtocolError | ProviderStatusError)


# --- an open websocket


@on_socket_users
async def test_what_is_pushed_arrives_and_what_the_server_says_is_reported(user: SocketUser, serve: Serve) -> None:
    async with serve(user) as server, user.line(server.url, KEY) as line:
        before = len(server.peer().received)
        line.push()
        await server.peer().got(before + 1)
        await server.peer().send(user.good)
        assert await line.next()
        assert KEY in str(server.requests[0])


@on_socket_users
@pytest.mark.parametrize(
    ("code", "reason", "retryable"),
    [
        (1000, "", True),
        (1001, "going away", True),
        (1011, f"failed for {KEY}", True),
        (1012, "restart", True),
        (1008, f"policy of {KEY}", False),
        (1008, "the operation was aborted", True),
        (1011, "rate limit reached", True),
        (4401, "", False),
        (4403, "model not in your plan", False),
        (4429, "too many sessions", True),
        (4503, "", True),
    ],
)
async def test_a_close_says_why_and_whether_to_try_again(
    user: SocketUser, code: int, reason: str, retryable: bool, serve: Serve
) -> None:
    async with serve(user) as server, user.line(server.url, KEY) as line:
        line.push()
        await server.peer().close(code, reason)
        with pytest.raises(ProviderError) as caught:
            await line.next()
    error = caught.value
    check_clean(error, KEY)
    assert error.retryable is retryable
    assert f"code {code}" in str(error)
    assert ("" if user.withholds else reason.replace(KEY, "***")) in str(error)


@on_socket_users
async def test_a_connection_that_is_cut_while_it_is_read_may_be_opened_again(user: SocketUser, serve: Serve) -> None:
    async with serve(user) as server, user.line(server.url, KEY) as line:
        await server.peer().send(user.good)
        await line.next()
        server.peer().abort()
        with pytest.raises(ProviderConnectionError) as caught:
            await line.next()
        assert caught.value.retryable
        check_clean(caught.value, KEY)
        line.push()  # after the end: no error, and nothing is kept


@on_socket_users
async def test_a_close_in_the_middle_of_sending_is_told_with_its_reason(user: SocketUser, serve: Serve) -> None:
    async with serve(user) as server, user.line(server.url, KEY) as line:
        with anyio.CancelScope() as sending:

            async def push() -> None:
                while not sending.cancel_called:
                    line.push()
                    await anyio.lowlevel.checkpoint()

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(push)
                await server.peer().got(10)
                await server.peer().close(1013, "try again later")
                with pytest.raises(ProviderConnectionError) as caught:
                    await line.next()
                sending.cancel()
    assert "1013" in str(caught.value)
    assert caught.value.retryable


@on_socket_users
async def test_a_connection_that_is_cut_in_the_middle_of_sending_is_lost_once(user: SocketUser, serve: Serve) -> None:
    async with serve(user) as server, user.line(server.url, KEY) as line:
        for _ in range(200):
            line.push()
        server.peer().abort()
        for _ in range(200):
            line.push()
        with pytest.raises(ProviderConnectionError) as caught:
            await line.next()
        check_clean(caught.value, KEY)
        with pytest.raises(StopAsyncIteration):
            await line.next()


@pytest.mark.parametrize("user", [user for user in SOCKET_USERS if user.sends_audio], ids=str)
async def test_a_server_that_reads_nothing_costs_audio_and_no_memory_and_the_close_ends_in_time(
    user: SocketUser,
    serve: Serve,
) -> None:
    lost: list[int] = []
    token = on_dropped_frames.set(lambda component, frames: lost.append(frames))
    try:
        async with serve(user) as server, user.line(server.url, KEY) as line:
            server.peer().stop_reading()
            for _ in range(MAX_QUEUED + 100):  # at once, so that none is sent meanwhile
                line.push()
            if user.drops:
                assert 80 <= sum(lost) <= 100
            else:
                with pytest.raises(ProviderConnectionError, match="too slow"):
                    await line.next()
            with anyio.fail_after(10):
                await line.aclose()
    finally:
        on_dropped_frames.reset(token)


MALFORMED = ("{", "", "[]", "null", "17", '"text"', '{"type": 5}', '{"kind": "?"}', b"\xff\xfe\x00", "[" * 100_000)
UNKNOWN = '{"type": "of.the.future", "item_id": 5, "delta": {"a": []}}'


@on_socket_users
@pytest.mark.parametrize("message", MALFORMED, ids=lambda message: repr(message[:8]))
async def test_a_malformed_message_is_a_protocol_error_or_passed_over(
    user: SocketUser, message: str | bytes, serve: Serve
) -> None:
    async with serve(user) as server, user.line(server.url, KEY) as line:
        line.push()
        await server.peer().send(message)
        await server.peer().send(user.good)
        with suppress(ProviderProtocolError):
            assert await line.next()


@on_socket_users
async def test_messages_of_an_unknown_kind_are_no_error(user: SocketUser, serve: Serve) -> None:
    async with serve(user) as server, user.line(server.url, KEY) as line:
        line.push()
        await server.peer().send(UNKNOWN, user.good)
        assert await line.next()


@on_socket_users
async def test_a_connection_that_is_given_up_in_the_middle_is_closed(user: SocketUser, serve: Serve) -> None:
    async with serve(user) as server:
        with anyio.CancelScope() as scope:
            async with user.line(server.url, KEY) as line:
                line.push()
                scope.cancel()
                await anyio.lowlevel.checkpoint()
        await server.peer().ended()


@on_socket_users
async def test_a_hundred_connections_leave_nothing_open(user: SocketUser, serve: Serve) -> None:
    async with serve(user) as server:
        async with user.line(server.url, KEY):
            pass
        await server.peer().ended()
        await settled()
        before = len(asyncio.all_tasks()), open_files()
        for number in range(RECONNECTS):
            async with AsyncExitStack() as stack:
                line = await stack.enter_async_context(user.line(server.url, KEY))
                line.push()
                if number % 3 == 0:
                    server.peer().abort()
                elif number % 3 == 1:
                    await server.peer().close(1011)
            await server.peer().ended()
        assert len(server.peers) == RECONNECTS + 1
        await settled()
        assert (len(asyncio.all_tasks()), open_files()) == before


# --- a streamed answer


@on_request_users
async def test_a_good_answer_is_whole_however_it_is_cut(user: RequestUser) -> None:
    body = b"".join(user.good.pieces)
    async with faulty_server(good=user.good) as server:
        whole = await user.ask(server.url, KEY)
        server.faults.append(Body(tuple(body[at : at + 1] for at in range(len(body))), user.good.kind))
        in_bytes = await user.ask(server.url, KEY)
        assert KEY in str(server.requests[0])
    assert whole
    assert len(in_bytes) >= len(whole)


@on_request_users
async def test_an_answer_that_is_cut_off_is_an_error_that_may_be_tried_again(user: RequestUser, serve: Serve) -> None:
    error, _ = await refused(serve, user, Cut(user.good.pieces[:1]))
    assert error.retryable
    assert isinstance(error, ProviderConnectionError | ProviderProtocolError)


@on_request_users
async def test_an_answer_that_stalls_is_given_up_in_time(user: RequestUser, serve: Serve) -> None:
    error, _ = await refused(serve, user, Stall(user.good.pieces[:1]), limit=SHORT)
    assert isinstance(error, ProviderTimeoutError)
    assert not error.retryable


@on_request_users
async def test_a_page_instead_of_an_answer_is_a_protocol_error(user: RequestUser, serve: Serve) -> None:
    error, _ = await refused(serve, user, Body((f"<html>{KEY}</html>".encode(),), "text/html"))
    assert isinstance(error, ProviderProtocolError)


@pytest.mark.parametrize("user", [user for user in REQUEST_USERS if user.broken], ids=str)
async def test_a_malformed_answer_is_a_protocol_error(user: RequestUser, serve: Serve) -> None:
    error, _ = await refused(serve, user, Body((*user.good.pieces[:1], b"\n\n" + user.broken), user.good.kind))
    assert isinstance(error, ProviderProtocolError)


@on_request_users
async def test_a_hundred_broken_requests_leave_nothing_open(user: RequestUser) -> None:
    async with faulty_server(good=user.good) as server:
        await user.ask(server.url, KEY)
        await settled()
        before = len(asyncio.all_tasks())
        for _ in range(3 if user.has_sdk else RECONNECTS // 2):  # an SDK takes a fifth of a second to make a client
            server.faults += [Cut(user.good.pieces[:1]), Refuse(500)]
            for _ in range(2):
                with pytest.raises(ProviderError):
                    await user.ask(server.url, KEY)
        await settled()
        assert len(asyncio.all_tasks()) == before


async def settled() -> None:
    """Give the loop the steps in which both ends learn that a connection is over."""
    for _ in range(50):
        await anyio.lowlevel.checkpoint()


def open_files() -> int:
    """Return how many files and sockets the process has open."""
    return len(os.listdir("/proc/self/fd"))
