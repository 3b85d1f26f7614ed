"""The page's door: its files, and tokens for this machine's own page only."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import anyio
import pytest
from livekit.api import TokenVerifier

from vivavoce.agents.dev_room import DEV_API_KEY, DEV_API_SECRET, RoomServer, RoomServerOptions
from vivavoce.agents.page import server as page_server
from vivavoce.agents.page.door import STATIC
from vivavoce.agents.page.server import PageServer
from vivavoce.pipelines.core.errors import RoomError

KEY, SECRET = "key", "a-secret-of-at-least-thirty-two-characters"


@pytest.fixture
async def page() -> AsyncIterator[PageServer]:
    async with PageServer("wss://voice.example", KEY, SECRET, agent_name="host") as server:
        yield server


async def ask(
    address: str, body: object = None, *, host: str | None = None, origin: str | None = "own"
) -> tuple[int, dict[str, str], str]:
    """Ask for a token as a browser would; return status, answer and text."""
    headers = {} if host is None else {"Host": host}
    if origin is not None:
        headers["Origin"] = f"http://{host or address.split('/')[2]}" if origin == "own" else origin
    async with (
        aiohttp.ClientSession() as client,
        client.post(f"{address}connection", json={} if body is None else body, headers=headers) as answer,
    ):
        text = await answer.text()
        return answer.status, await answer.json() if answer.status == 200 else {}, text


async def test_the_page_gets_a_token_that_joins_one_room_and_dispatches_the_agent(page: PageServer) -> None:
    status, given, _ = await ask(page.address)
    claims = TokenVerifier(KEY, SECRET).verify(given["token"])
    assert status == 200
    assert given["url"] == "wss://voice.example"
    assert claims.identity == given["identity"]
    assert claims.video is not None
    assert (claims.video.room_join, claims.video.room, claims.video.room_admin) == (True, given["room"], None)
    assert claims.room_config is not None
    assert [agent.agent_name for agent in claims.room_config.agents] == ["host"]


async def test_a_caller_who_comes_before_the_agent_is_registered_waits_for_it() -> None:
    async with (
        PageServer("wss://voice.example", KEY, SECRET, agent_name=None) as page,
        anyio.create_task_group() as tasks,
    ):
        asked: list[dict[str, str]] = []

        async def call() -> None:
            status, given, text = await ask(page.address)
            assert status == 200, text
            asked.append(given)

        tasks.start_soon(call)
        async with aiohttp.ClientSession() as client, client.get(page.address) as answer:  # behind that request
            assert answer.status == 200
        assert asked == []
        page.dispatch("host")
    claims = TokenVerifier(KEY, SECRET).verify(asked[0]["token"])
    assert claims.room_config is not None
    assert [agent.agent_name for agent in claims.room_config.agents] == ["host"]


async def test_a_caller_whose_agent_is_not_registered_in_time_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_server, "AGENT_LIMIT", 0.01)
    async with PageServer("wss://voice.example", KEY, SECRET, agent_name="host") as page:
        page.dispatch(None)  # its process has died
        status, _, text = await ask(page.address)
    assert (status, text) == (503, "the agent is not registered yet: its code is being loaded, or it does not load\n")


async def test_each_call_has_a_room_of_its_own_unless_one_is_asked_for(page: PageServer) -> None:
    rooms = [(await ask(page.address))[1]["room"] for _ in range(2)]
    assert len(set(rooms)) == 2
    assert (await ask(page.address, {"room": " hello "}))[1]["room"] == "hello"


async def test_only_an_identity_that_the_page_was_given_comes_back(page: PageServer) -> None:
    _, first, _ = await ask(page.address)
    _, again, _ = await ask(page.address, {"room": first["room"], "identity": first["identity"]})
    _, agent, _ = await ask(page.address, {"identity": "agent-AJ_1"})
    assert again["identity"] == first["identity"]
    assert re.fullmatch(r"guest_[0-9a-f]{12}", agent["identity"])


@pytest.mark.parametrize("origin", [None, "null", "https://evil.example", "http://127.0.0.1:1"])
async def test_another_sites_page_gets_no_token(page: PageServer, origin: str | None) -> None:
    status, _, text = await ask(page.address, origin=origin)
    assert (status, text) == (403, "only the page itself gets a token: open it in a browser\n")


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "127.0.0.1@evil.example", "192.168.0.9:80"])
async def test_a_name_that_only_points_at_this_machine_gets_neither_page_nor_token(page: PageServer, host: str) -> None:
    status, _, text = await ask(page.address, host=host)
    assert (status, text.split(":")[0]) == (403, "the page is for this machine")
    async with aiohttp.ClientSession() as client, client.get(page.address, headers={"Host": host}) as answer:
        assert answer.status == 403


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ([], 400),
        ({"room": 7}, 400),
        ({"rooms": "x"}, 400),
        ({"room": "a\x00b"}, 400),
        ({"room": "x" * 129}, 400),
        ({"room": "x" * 9000}, 415),
    ],
)
async def test_a_malformed_wish_is_refused(page: PageServer, body: object, status: int) -> None:
    assert (await ask(page.address, body))[0] == status


async def test_every_file_comes_with_a_policy_that_lets_nothing_else_in(page: PageServer) -> None:
    async with aiohttp.ClientSession() as client:
        for name in ["", *(path.name for path in STATIC.iterdir())]:
            async with client.get(page.address + name) as answer:
                assert answer.status == 200, name
                policy = answer.headers["Content-Security-Policy"]
                assert answer.headers["X-Content-Type-Options"] == "nosniff"
                assert SECRET not in await answer.text()
        for name in ("door.py", "../door.py", "%2e%2e/door.py", "codec.JS", "none.js"):
            async with client.get(page.address + name) as answer:
                assert answer.status in (403, 404), name
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "connect-src 'self' wss://voice.example https://voice.example;" in policy
    assert "unsafe" not in policy
    assert "*" not in policy


def test_the_page_is_plain_files_that_ask_nothing_of_other_hosts() -> None:
    for path in STATIC.iterdir():
        text = path.read_text()
        addresses = set(re.findall(r"(?:https?|wss?)://[^\s'\"`)]+", text)) - {"http://www.w3.org/2000/svg"}
        assert not {address for address in addresses if not address.startswith(("http://localhost", "http://127."))}, (
            path
        )
        assert " style=" not in text, f"{path}: the policy allows no inline style"
        assert "innerHTML" not in text, f"{path}: text from outside must stay text"
        assert "insertAdjacentHTML" not in text
        assert len(text.splitlines()) <= 350, path


async def test_a_taken_port_is_said_in_words(page: PageServer) -> None:
    port = int(page.address.split(":")[2].rstrip("/"))
    with pytest.raises(
        RoomError, match=rf"port {port} on 127.0.0.1 is taken by another program: .* choose another port \(port 0"
    ):
        async with PageServer("wss://voice.example", KEY, SECRET, port=port):
            pass


async def test_the_embedded_room_serves_the_page_with_its_own_address_and_key() -> None:
    server = RoomServer(RoomServerOptions(port=0))
    await server.start()
    try:
        async with aiohttp.ClientSession() as client, client.get(f"http://localhost:{server.port}/") as answer:
            assert f"connect-src 'self' ws://localhost:{server.port} " in answer.headers["Content-Security-Policy"]
        _, given, _ = await ask(f"http://127.0.0.1:{server.port}/")
        assert given["url"] == server.url
        assert TokenVerifier(DEV_API_KEY, DEV_API_SECRET).verify(given["token"]).identity == given["identity"]
    finally:
        await server.aclose()


def test_each_module_that_is_imported_is_there() -> None:
    for path in STATIC.glob("*.js"):
        for name in re.findall(r"from '\./([^']+)'", path.read_text()):
            assert Path(STATIC, name).is_file(), f"{path.name} imports {name}"
