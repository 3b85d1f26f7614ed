"""Error messages of the browser page, its protection from foreign HTML, and its accessibility."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from importlib.resources import files

import pytest
from livekit import rtc

from kit.e2e.room_endpoint import RoomEndpoint
from kit.page.caller import Caller, calling
from kit.servers.livekit_server import running_livekit_server
from vivavoce.agents.dev_room import RoomProcess, RoomServerOptions
from vivavoce.agents.page.server import PageServer

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(170)]

ONE_IS_ENOUGH = pytest.mark.test_all("one size and scheme is enough for make test")

HOSTILE = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'
RECORD = (
    '{"turn_id": "t", "kind": "turn", "user_text": "HOSTILE", "outcome": "HOSTILE", "e2e_latency": 0.5, "error": '
    '"HOSTILE", "stages": [{"name": "HOSTILE", "owner": "HOSTILE", "seconds": 0.2}, {"name": "playout", "owner": '
    '"runtime", "seconds": 0.3}], "tools": [{"name": "HOSTILE", "arguments": "HOSTILE", "output": "HOSTILE", '
    '"is_error": true, "seconds": 0.1}]}'
).replace("HOSTILE", HOSTILE.replace('"', '\\"'))
MEASURED_LATE = """
const measure = RTCPeerConnection.prototype.getStats;
RTCPeerConnection.prototype.getStats = async function () {
    const report = await measure.call(this);
    await new Promise((resolve) => { window.giveReport = resolve; });
    return report;
};
"""

SHORT_WAIT = """
const begin = window.setTimeout;
window.setTimeout = (act, ms, ...given) => begin(act, ms === 15_000 ? 500 : ms, ...given);
"""
"""The page waits half a second for an agent, not fifteen."""


@pytest.fixture
async def page(room_server: RoomEndpoint) -> AsyncIterator[str]:
    """The page for a server without an agent."""
    async with PageServer(room_server.url, room_server.api_key, room_server.api_secret) as server:
        yield server.address


async def _title(caller: Caller, title: str) -> None:
    await caller.until("(title) => document.getElementById('banner-title').textContent === title", title)


async def test_a_refused_microphone_is_explained_and_typing_is_offered(page: str) -> None:
    async with calling(page, allowed=False) as caller:
        await caller.click("join")
        await caller.until(
            "document.getElementById('lobby-title').textContent === 'The browser keeps your microphone from this page'"
        )
        assert "icon at the left of the address bar" in await caller.text("#lobby-text")
        assert "address bar" in await caller.text("#alert")
        assert await caller.page.evaluate("document.activeElement.id") == "join"
        await caller.click("join-typing")
        await caller.in_call()
        assert await caller.page.is_disabled("#mute")


async def test_a_wrong_key_is_explained_and_no_token_is_shown(room_server: RoomEndpoint) -> None:
    secret = "another-secret-of-at-least-thirty-two-characters"
    async with PageServer(room_server.url, room_server.api_key, secret) as server, calling(server.address) as caller:
        await caller.click("join-typing")
        await caller.until(
            "document.getElementById('lobby-title').textContent === 'The server does not accept this page’s key'"
        )
        assert "eyJ" not in await caller.text("body")


async def test_a_server_that_is_not_there_is_explained() -> None:
    async with PageServer("ws://127.0.0.1:9", "key", "a-secret-of-at-least-thirty-two-characters") as server:
        async with calling(server.address) as caller:
            await caller.click("join-typing")
            await caller.until("document.getElementById('lobby-title').textContent === 'The server cannot be reached'")


async def test_without_an_agent_the_caller_is_told_what_to_start(page: str) -> None:
    async with calling(page, script=SHORT_WAIT) as caller:
        await caller.click("join")
        await _title(caller, "No agent has come yet")
        assert "vivavoce start app.py" in await caller.text("#banner-text")
        assert await caller.page.evaluate("document.body.dataset.state") == "connected"


async def test_without_an_agent_the_caller_is_told_again_when_a_lost_connection_is_back(page: str) -> None:
    async with calling(page, script=SHORT_WAIT) as caller:
        await caller.click("join-typing")
        await _title(caller, "No agent has come yet")
        await caller.page.evaluate("window.sockets.at(-1).close()")
        await caller.until("window.titles.length === 3")
        assert await caller.titles() == ["No agent has come yet", "The connection was lost", "No agent has come yet"]
        assert await caller.page.is_visible("#banner")


@pytest.mark.test_all("a browser in trouble: half a minute each")
@pytest.mark.parametrize("kind", ["embedded", "livekit"])
async def test_a_killed_server_is_told_and_calling_again_says_that_it_is_gone(kind: str) -> None:
    if kind == "embedded":
        async with RoomProcess(RoomServerOptions(port=0)) as room:
            await _lose(room.url, room.api_key, room.api_secret, room.kill)
    else:
        with running_livekit_server() as server:
            await _lose(server.url, server.api_key, server.api_secret, lambda: os.kill(server.pid, signal.SIGKILL))


async def _lose(url: str, key: str, secret: str, kill: object) -> None:
    assert callable(kill)
    async with PageServer(url, key, secret) as server, calling(server.address) as caller:
        await caller.click("join")
        await caller.in_call()
        kill()
        await caller.until("document.body.dataset.state === 'reconnecting'")
        await _title(caller, "The connection to the server was lost")
        assert await caller.titles() == [
            "The connection was lost", "The server cannot be reached", "The connection to the server was lost",
        ]  # fmt: skip
        assert "whether the server still runs" in await caller.text("#banner-text")
        assert await caller.text("#health-text") == "Not connected"
        assert await caller.page.evaluate("document.activeElement.id") == "again"
        await caller.page.keyboard.press("Enter")
        await caller.until("document.getElementById('lobby-title').textContent === 'The server cannot be reached'")


async def test_a_measurement_that_comes_after_the_end_of_the_call_is_not_shown(page: str) -> None:
    async with calling(page, script=MEASURED_LATE) as caller:
        await caller.click("join-typing")
        await caller.in_call()
        await caller.until("window.giveReport !== undefined")
        await caller.click("leave")
        await _title(caller, "You have hung up")
        await caller.page.evaluate("window.giveReport()")
        assert await caller.page.text_content("#health-jitter") == "–"


async def test_names_captions_and_records_from_outside_stay_text(page: str, room_server: RoomEndpoint) -> None:
    async with calling(f"{page}?room=hostile") as caller:
        await caller.click("join-typing")
        await caller.in_call()
        room = rtc.Room()
        await room.connect(room_server.url, room_server.token("agent-x", "hostile", agent=True))
        try:
            agent = room.local_participant
            await agent.set_name(HOSTILE)
            await agent.send_text(HOSTILE, topic="lk.transcription", attributes={"lk.segment_id": HOSTILE})
            await agent.send_text(HOSTILE, topic="lk.chat")
            await agent.send_text(RECORD, topic="vivavoce.turns")
            await agent.send_text("{not json", topic="vivavoce.turns")
            await agent.send_text('{"turn_id": 7}', topic="vivavoce.turns")
            await caller.until("document.querySelectorAll('.turn').length === 1")
            await caller.until("(name) => document.getElementById('agent-name').textContent === name", HOSTILE)
            assert await caller.text("#log .agent .words") == HOSTILE
            assert HOSTILE in await caller.text("#log .tool")
            assert HOSTILE in await caller.text(".turn summary")
            assert await caller.page.locator("#log img, .turn img, main script, .stage img").count() == 0
            assert await caller.page.evaluate("window.hacked") is None
            await caller.click("interrupt")  # this agent has no such method
            await caller.until("document.getElementById('interrupt').disabled")
            assert "talk over it" in await caller.text("#status")
        finally:
            await room.disconnect()
        await _title(caller, "The agent has hung up")


@pytest.mark.parametrize(
    ("size", "scheme"),
    [
        pytest.param((1280, 800), "light", id="desktop-light"),
        pytest.param((1280, 800), "dark", id="desktop-dark", marks=ONE_IS_ENOUGH),
        pytest.param((390, 844), "light", id="phone-light", marks=ONE_IS_ENOUGH),
        pytest.param((390, 844), "dark", id="phone-dark", marks=ONE_IS_ENOUGH),
    ],
)
async def test_axe_finds_nothing_to_mend(
    embedded_room: RoomEndpoint, room_name: str, scheme: str, size: tuple[int, int]
) -> None:
    axe = files("axe_playwright_python").joinpath("axe.min.js").read_text()
    server = PageServer(embedded_room.url, embedded_room.api_key, embedded_room.api_secret)
    viewport = {"width": size[0], "height": size[1]}
    async with (
        server,
        calling(f"{server.address}?room={room_name}", color_scheme=scheme, viewport=viewport) as caller,
    ):
        assert await _violations(caller, axe) == []
        await caller.click("join")
        await caller.in_call()
        room = rtc.Room()
        await room.connect(embedded_room.url, embedded_room.token("agent-x", room_name, agent=True))
        try:
            agent = room.local_participant
            interim = {"lk.segment_id": "1", "lk.transcription_final": "false"}
            await agent.send_text("Hello, who", topic="lk.transcription", attributes=interim)
            await agent.send_text("We are open.", topic="lk.chat")
            await agent.send_text(RECORD, topic="vivavoce.turns")
            await caller.until("document.querySelectorAll('.turn').length === 1")
            await caller.click("mute")
            assert await _violations(caller, axe) == []
            await caller.page.click("#menu summary")
            await caller.page.check("#push-to-talk")
            await caller.page.click("#health summary")
            assert await _violations(caller, axe) == []
            if size[0] < 700:
                await caller.page.keyboard.press("Escape")
                await caller.click("show-turns")
                assert await _violations(caller, axe) == []
            wide = await caller.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
            assert wide <= 0, "the page scrolls sideways"
            await caller.click("leave")
            await _title(caller, "You have hung up")
            assert await _violations(caller, axe) == []
        finally:
            await room.disconnect()


async def _violations(caller: Caller, axe: str) -> list[str]:
    """Return the findings of axe-core, with all of its WCAG A and AA rules and best practices; one line a place."""
    await caller.page.wait_for_timeout(300)  # colours that still change would be judged half way
    await caller.page.evaluate(axe + "\n;0")
    found = await caller.page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    assert len(found["passes"]) > 15, "axe looked at nothing"
    return [
        f"{rule['id']}: {node['html'][:160]} {node['failureSummary'][:300]}"
        for rule in found["violations"]
        for node in rule["nodes"]
    ]


async def test_a_call_can_be_held_with_the_keyboard_alone(page: str) -> None:
    async with calling(page) as caller:
        reached = []
        for _ in range(4):
            await caller.page.keyboard.press("Tab")
            reached.append(await caller.page.evaluate("document.activeElement.id || document.activeElement.tagName"))
        assert reached == ["SUMMARY", "join", "join-typing", "lobby-microphone"]
        await caller.page.focus("#join")
        await caller.page.keyboard.press("Enter")
        await caller.in_call()
        await caller.until("document.activeElement.id === 'mute'")
        reached = []
        for _ in range(4):
            await caller.page.keyboard.press("Tab")
            reached.append(await caller.page.evaluate("document.activeElement.id || document.activeElement.tagName"))
        assert reached == ["interrupt", "SUMMARY", "leave", "turn-list"] or reached[:3] == [
            "interrupt", "SUMMARY", "leave",
        ]  # fmt: skip
        await caller.page.focus("#menu summary")
        await caller.page.keyboard.press("Enter")
        assert await caller.page.is_visible("#push-to-talk")
        await caller.page.keyboard.press("Escape")
        assert not await caller.page.is_visible("#push-to-talk")
        await caller.page.focus("#leave")
        await caller.page.keyboard.press("Enter")
        await _title(caller, "You have hung up")
