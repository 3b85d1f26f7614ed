"""A PeerServer and clients that are none: tokens, browsers, garbage, silence, other versions, sessions that fail."""

from __future__ import annotations

import json
import re
from typing import Any

import aiohttp
import anyio
import pytest

from kit.talking_peers import Question, answering, raw, running, talker
from vivavoce.agents import Agent, AgentSession
from vivavoce.agents.peers import PeerError, PeerRejected, PeerServer, PeerUnreachable
from vivavoce.agents.peers import dial as dial_of_peers
from vivavoce.pipelines.core.errors import ConfigurationError

HELLO = json.dumps({"type": "hello", "version": 1, "id": "theirs"})


def call(number: int, content: object, model: str = "Question") -> str:
    return json.dumps({"type": "call", "number": number, "wants_answer": True, "model": model, "content": content})


async def test_a_client_of_another_maker_speaks_the_protocol_by_hand() -> None:
    async with PeerServer() as server, running(answering(talker("desk"))) as desk:
        server.add(desk)
        async with raw(server.url_of(desk), HELLO, call(1, {"number": 4})) as socket:
            hello, outcome = [json.loads((await socket.receive()).data) for _ in range(2)]
        assert (hello["type"], hello["version"], hello["id"], hello["takes"]) == ("hello", 1, "desk", ["Question"])
        assert (outcome["number"], outcome["status"], outcome["model"]) == (1, "delivered", "Answer")
        assert outcome["content"] == {"number": 4}


@pytest.mark.parametrize(
    "frames",
    [
        ["garbage"],
        ["{}"],
        [b"\x00\xff"],
        [HELLO],
        ['{"type": "outcome", "number": 7}'],
        [call(2, {}), call(2, {})],
        [call(1, {"number": 1}), "[" * 50_000],
        ["x" * 2_000_000],
        [call(number, {}) for number in range(5, 0, -1)],
    ],
    ids=lambda frames: str(frames[-1])[:30],
)
async def test_hostile_frames_end_their_own_connection_and_change_nothing_else(frames: list[str | bytes]) -> None:
    async with PeerServer() as server, running(answering(talker("desk"))) as desk, running(talker()) as asker:
        server.add(desk)
        peer = await asker.peers.connect(server.url_of(desk))
        async with raw(server.url_of(desk), HELLO) as socket:
            assert (await socket.receive()).type is aiohttp.WSMsgType.TEXT
            for frame in frames:
                await (socket.send_bytes(frame) if isinstance(frame, bytes) else socket.send_str(frame))
            kinds = [(await socket.receive()).type]
            while kinds[-1] is aiohttp.WSMsgType.TEXT:
                kinds.append((await socket.receive()).type)
            assert kinds[-1] in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED)
        assert await peer.request(Question(number=3)) == {"number": 3}


@pytest.mark.parametrize(
    "first", ["garbage", b"\x00", '{"type": "call", "number": 1}', "x" * 2_000_000], ids=lambda first: str(first)[:20]
)
async def test_a_client_without_a_hello_reaches_no_session(first: str | bytes) -> None:
    made: list[object] = []

    def make() -> AgentSession[None]:
        made.append(1)
        return talker("desk")

    async with PeerServer(make) as server, raw(server.url) as socket:
        await (socket.send_bytes(first) if isinstance(first, bytes) else socket.send_str(first))
        assert (await socket.receive()).type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED)
    assert made == []


async def test_a_client_of_another_version_or_with_an_unknown_session_is_told_why() -> None:
    async with PeerServer() as server, running(talker("desk")) as desk:
        server.add(desk)
        for url, hello, why in (
            (server.url_of(desk), json.dumps({"type": "hello", "version": 2}), "speaks version 2 of the protocol"),
            (f"{server.url}nobody", HELLO, "no such session runs here"),
            (server.url, HELLO, "a connection here needs the id of a session that runs"),
            (server.url, json.dumps({"type": "hello", "wants": "dialogues"}), "no dialogue in common"),
        ):
            async with raw(url, hello) as socket:
                refused = json.loads((await socket.receive()).data)
                assert refused["type"] == "refused"
                assert why in refused["detail"]
                assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE


async def test_a_token_opens_the_server_and_is_shown_nowhere() -> None:
    secret = "s3cret-token"
    async with (
        PeerServer(token=secret) as server,
        running(answering(talker("desk"))) as desk,
        running(talker()) as asker,
    ):
        server.add(desk)
        for token in (None, "another"):
            with pytest.raises(PeerRejected, match="status 401: it needs another token") as caught:
                await asker.peers.connect(server.url_of(desk), token=token)
            assert secret not in repr(caught.value)
        peer = await asker.peers.connect(server.url_of(desk), token=secret)
        assert await asker.peers.request(server.url_of(desk), Question(number=1), token=secret) == {"number": 1}
        assert secret not in f"{peer!r} {server!r}"
        async with raw(server.url_of(desk), HELLO, headers={"Authorization": f"Bearer {secret}"}) as socket:
            assert json.loads((await socket.receive()).data)["type"] == "hello"
        with pytest.raises(ConfigurationError, match="token must be printable ASCII") as refused:
            await asker.peers.connect(server.url_of(desk), token="two words")
        assert "two words" not in str(refused.value)


async def test_a_header_that_is_no_text_is_another_token(caplog: pytest.LogCaptureFixture) -> None:
    async with PeerServer(token="x") as server:
        port = int(server.url.rstrip("/").rpartition(":")[2])
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(b"GET / HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer \xff\r\n\r\n")
            assert (await stream.receive()).startswith(b"HTTP/1.1 401")
    assert caplog.text == ""


async def test_browsers_do_not_reach_a_server_without_a_token() -> None:
    async with PeerServer() as server:
        with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
            async with raw(server.url, origin="https://example.com"):
                pass


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "peers.example"])
def test_a_server_beyond_loopback_needs_a_token(host: str) -> None:
    with pytest.raises(ConfigurationError, match="a server beyond loopback needs a token"):
        PeerServer(host=host)
    PeerServer(host=host, token="x")


@pytest.mark.parametrize(
    "wrong", [{"port": -1}, {"port": 70_000}, {"host": 1}, {"token": ""}, {"token": 3}, {"session_factory": 3}]
)
def test_wrong_arguments_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        PeerServer(**wrong)


@pytest.mark.parametrize("wrong", [None, "desk", AgentSession])
def test_a_session_that_is_none_is_no_session_to_add(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match="session must be AgentSession"):
        PeerServer().add(wrong)


def test_an_empty_token_is_named() -> None:
    with pytest.raises(ConfigurationError, match="got an empty text"):
        PeerServer(token="")


async def test_a_port_that_is_taken_and_an_address_too_early_are_named() -> None:
    with pytest.raises(PeerError, match="enter it with 'async with' first"):
        PeerServer().url  # noqa: B018 - it raises
    async with PeerServer() as server:
        port = int(server.url.rstrip("/").rpartition(":")[2])
        with pytest.raises(PeerError, match="is taken by another program"):
            await PeerServer(port=port).__aenter__()


async def test_a_session_that_cannot_start_refuses_its_connection_and_the_log_says_where(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(Agent):
        async def on_enter(self) -> None:
            raise RuntimeError("secret")

    makes: list[tuple[Any, str]] = [
        (lambda: talker("desk", agent=Broken("x")), rf"RuntimeError \(at {re.escape(__file__)}:\d+ in on_enter"),
        (lambda: AgentSession(Agent("x")), r"give it some: SessionOptions\(peers=PeerOptions\(\)\)"),
        (lambda: None, r"the result of session_factory must be AgentSession\(…\), got None"),
        (lambda: 1 / 0, rf"ZeroDivisionError \(at {re.escape(__file__)}:\d+ in <lambda>"),
    ]
    for make, logged in makes:
        caplog.clear()
        async with PeerServer(make) as server, running(talker()) as asker:
            with pytest.raises(PeerRejected, match="its session did not start") as caught:
                await asker.peers.connect(server.url)
        (record,) = [one for one in caplog.records if one.levelname == "ERROR"]
        assert re.search(f"The session of a peer did not start: .*{logged}", record.getMessage())
        assert "secret" not in str(caught.value) + record.getMessage()


async def test_a_program_that_accepts_and_says_nothing_is_unreachable_after_its_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dial_of_peers, "CONNECT_LIMIT", 0.05)
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    async with listener, running(talker()) as asker:
        with pytest.raises(PeerUnreachable, match=r"no connection to ws://127.0.0.1:\d+/ within 0.05 s"):
            await asker.peers.connect(f"ws://127.0.0.1:{port}/")
