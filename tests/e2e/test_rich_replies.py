"""Rich replies through a real room: a plain LiveKit client, and the page in Chromium, answer a session's parts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import date
from pathlib import Path
from typing import Any, Literal

import pytest
from livekit import rtc
from pydantic import BaseModel, Field

from kit.e2e.room_endpoint import RoomEndpoint
from kit.e2e.sdk_client import Watched, token
from kit.memory import session_with
from kit.page.browser import chromium
from kit.page.caller import Caller, opened
from vivavoce.agents import AgentSession, RoomOptions
from vivavoce.agents.events import FileReceived, FileRefused, FormSubmitted
from vivavoce.agents.replies import File, Form, Image, Markdown, Options
from vivavoce.agents.transports.options import FileInputOptions
from vivavoce.pipelines.core.clock import LoopClock

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

TOPIC = "vivavoce.parts"
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360f8cf00000301010018dd8db00000000049454e44ae426082"
)
LARGE = PIXEL + bytes(300_000)
"""An image that needs many chunks; viewers ignore the bytes behind its end."""


class Seat(BaseModel):
    row: int = Field(ge=1)


class Booking(BaseModel):
    """A table."""

    name: str = Field(min_length=2, description="As on your card")
    day: date
    area: Literal["inside", "garden"]
    quiet: bool = False
    seat: Seat


class Desk(Watched):
    """A session in a room, and its events."""

    def __init__(self, session: AgentSession[Any]) -> None:
        super().__init__()
        self.session = session
        self.forms: list[Any] = []
        self.files: list[tuple[str, str, bytes]] = []
        self.refused: list[tuple[str, str]] = []
        session.on(FormSubmitted, lambda event: self.note(self.forms, event.form))
        session.on(
            FileReceived,
            lambda event: self.note(self.files, (event.file.name, event.file.media_type, event.file.data)),
        )
        session.on(FileRefused, lambda event: self.note(self.refused, (event.file_name, event.reason)))
        session.on("history_item_added", lambda _: self.changed())

    def note(self, where: list[Any], what: object) -> None:
        where.append(what)
        self.changed()

    @property
    def said(self) -> list[tuple[str, str]]:
        return [(message.role, message.content) for message in self.session.history.messages()]


@asynccontextmanager
async def desk_in(room: rtc.Room) -> AsyncIterator[Desk]:
    """A session that talks to the first caller of a room and takes files of 500 kB."""
    session = session_with(clock=LoopClock())
    desk = Desk(session)
    options = RoomOptions(file_input=FileInputOptions(max_bytes=500_000))
    await session.start(room, room_options=options)
    try:
        yield desk
    finally:
        await session.close()


class Client(Watched):
    """A caller's client on the plain SDK, which collects parts."""

    def __init__(self) -> None:
        super().__init__()
        self.room = rtc.Room()
        self.messages: list[dict[str, Any]] = []
        self.bytes: dict[str, bytes] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.room.register_text_stream_handler(TOPIC, lambda reader, _: self._start(self._read(reader)))
        self.room.register_byte_stream_handler(TOPIC, lambda reader, _: self._start(self._read_bytes(reader)))

    def _start(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _read(self, reader: rtc.TextStreamReader) -> None:
        self.messages.append(json.loads(await reader.read_all()))
        self.changed()

    async def _read_bytes(self, reader: rtc.ByteStreamReader) -> None:
        data = b"".join([piece async for piece in reader])
        self.bytes[(reader.info.attributes or {})["part"]] = data
        self.changed()

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [message for message in self.messages if message["type"] == kind]

    async def answer(self, **answer: Any) -> None:
        await self.room.local_participant.send_text(json.dumps(answer), topic=TOPIC, destination_identities=["agent"])

    async def send_file(self, name: str, data: bytes) -> None:
        writer = await self.room.local_participant.stream_bytes(
            name, total_size=len(data), mime_type="text/plain", topic=TOPIC, destination_identities=["agent"]
        )
        await writer.write(data)
        await writer.aclose()


@asynccontextmanager
async def calling_in(server: RoomEndpoint, room_name: str) -> AsyncIterator[Client]:
    client = Client()
    await client.room.connect(server.url, token(server, room_name, "caller"))
    try:
        yield client
    finally:
        await client.room.disconnect()


@pytest.mark.both_servers
async def test_a_caller_s_client_gets_parts_answers_them_sends_files_and_gets_them_again_after_a_rejoin(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room
) -> None:
    async with desk_in(agent_room) as desk:
        memory = desk.session.memory
        async with calling_in(room_server, room_name) as caller:
            await caller.until(lambda: bool(caller.of("uploads")))
            assert caller.of("uploads")[0]["max_bytes"] == 500_000
            image = await memory.post(Image(LARGE, alt="A pixel"))
            choice = await memory.post(Options(["red", "blue"], "Which?"))
            form = await memory.post(Form(Booking))
            await caller.until(lambda: bool(caller.of("form")) and image in caller.bytes)
            assert caller.bytes[image] == LARGE

            await caller.answer(part=choice, choice=1)
            await desk.until(lambda: ("user", "blue") in desk.said and ("assistant", "Fine.") in desk.said)
            await caller.answer(
                part=form, values={"name": "A", "day": "2026-11-23", "area": "roof", "seat": {"row": 0}}
            )
            await caller.until(lambda: len(caller.of("answer")) == 2)
            assert [(error["path"], bool(error["message"])) for error in caller.of("answer")[1]["errors"]] == [
                (["name"], True),
                (["area"], True),
                (["seat", "row"], True),
            ]
            values: dict[str, Any] = {"name": "Ada", "day": "2026-11-23", "area": "garden", "seat": {"row": 2}}
            await caller.answer(part=form, values=values)
            await desk.until(lambda: bool(desk.forms))
            assert desk.forms == [Booking(**values)]

            await caller.send_file("../notes.txt", b"x" * 400_000)
            await desk.until(lambda: bool(desk.files))
            assert desk.files == [("notes.txt", "text/plain", b"x" * 400_000)]
            await caller.send_file("big.txt", bytes(500_001))
            await desk.until(lambda: bool(desk.refused))
            assert desk.refused == [("big.txt", "too_large")]
            await caller.until(lambda: len(caller.of("upload")) == 2)
            assert [message["outcome"] for message in caller.of("upload")] == ["received", "too_large"]
        async with calling_in(room_server, room_name) as again:
            await again.until(lambda: bool(again.of("form") and again.of("options")) and image in again.bytes)
            assert again.bytes[image] == LARGE
            assert again.of("options")[0]["chosen"] == 1
            assert again.of("form")[0]["state"] == "submitted"


async def test_the_page_shows_parts_safely_and_sends_choices_forms_and_files(
    embedded_room: RoomEndpoint, room_name: str, tmp_path: Path
) -> None:
    notes, big = tmp_path / "notes.txt", tmp_path / "big.bin"
    notes.write_bytes(b"hello\n" * 50_000)
    big.write_bytes(bytes(600_000))
    room = rtc.Room()
    await room.connect(embedded_room.url, token(embedded_room, room_name, "agent", "agent"))
    address = f"http{embedded_room.url.removeprefix('ws')}/?room={room_name}"
    async with (
        leaving(room),
        chromium() as browser,
        desk_in(room) as desk,
        opened(browser, address, script=LATE_CONNECTION) as page,
    ):
        memory = desk.session.memory
        await memory.post(Markdown("# Menu\n**Soup** of `today`, [more](https://example.org)\n\n" + HOSTILE))
        await page.click("join-typing")
        await page.in_call()
        await _markdown_is_safe(page)
        await memory.post(Image(LARGE, alt="A pixel"))
        await memory.post(File("bill.html", b"<script>alert(1)</script>"))
        await memory.post(Options(["red <wine>", "blue"], "Which one?"))
        await memory.post(Form(Booking, submit="Book it"))
        await page.until("document.querySelector('.picture img')?.naturalWidth === 1")
        assert await page.page.get_attribute(".picture img", "alt") == "A pixel"
        await page.until("document.querySelector('.download a')?.download === 'bill.html'")

        await page.page.click("text=red <wine>")
        await desk.until(lambda: ("user", "red <wine>") in desk.said)
        await page.caption("user", "red <wine>")
        await _the_form_is_filled_in(page, desk)
        await page.page.set_input_files("#file", [notes, big])
        await desk.until(lambda: bool(desk.files))
        assert desk.files == [("notes.txt", "text/plain", notes.read_bytes())]
        await page.until("[...document.querySelectorAll('.note')].some((e) => e.textContent === 'notes.txt was sent.')")
        await page.until(
            "[...document.querySelectorAll('.note')].some((e) => e.textContent.startsWith('big.bin was not'))"
        )

        await page.page.reload()
        await page.click("join-typing")
        await page.until("document.querySelectorAll('.part').length === 5")
        await page.until("document.querySelector('.picture img')?.naturalWidth === 1")
        await page.until("document.querySelector('.choice[aria-pressed=true]')?.textContent === 'red <wine>'")
        await page.until("document.querySelector('.sheet-form fieldset.all').disabled")
        await page.click("leave")


@asynccontextmanager
async def leaving(room: rtc.Room) -> AsyncIterator[None]:
    """Leave the room in the end."""
    try:
        yield
    finally:
        await room.disconnect()


LATE_CONNECTION = """
const real = Object.getOwnPropertyDescriptor(RTCPeerConnection.prototype, 'connectionState').get;
const since = new WeakMap();
Object.defineProperty(RTCPeerConnection.prototype, 'connectionState', { get() {
    const state = real.call(this);
    if (state !== 'connected') return state;
    if (!since.has(this)) {
        since.set(this, performance.now());
        setTimeout(() => this.dispatchEvent(new Event('connectionstatechange')), 1050);
    }
    return performance.now() - since.get(this) < 1000 ? 'connecting' : state;
} });
"""
"""A busy browser: the connection counts as connected a second after its data channels have opened."""
HOSTILE = """
<img src=x onerror="window.hacked = 1"><script>window.hacked = 1</script>

[run](javascript:window.hacked=1) ![pixel](https://evil.example/p.png) [data](data:text/html,<script>)

- one
  - two with *emphasis* and snake_case
3. three

```
<b>code</b> **not bold**
```
> quoted **words**
"""


async def _markdown_is_safe(page: Caller) -> None:
    await page.until("document.querySelector('.rich') !== null")
    shown = await page.page.evaluate(
        """() => {
            const rich = document.querySelector('.rich');
            return { h3: rich.querySelector('h3').textContent, strong: rich.querySelector('strong').textContent,
                links: [...rich.querySelectorAll('a')].map((a) => [a.textContent, a.href, a.rel]),
                active: rich.querySelectorAll('img, script, iframe').length, hacked: window.hacked ?? null,
                text: rich.textContent, code: rich.querySelector('pre code').textContent,
                nested: rich.querySelector('ul ul li').textContent, start: rich.querySelector('ol').start,
                quote: rich.querySelector('blockquote').textContent };
        }"""
    )
    assert (shown["h3"], shown["strong"]) == ("Menu", "Soup")
    rel = "noopener noreferrer nofollow"
    assert shown["links"] == [
        ["more", "https://example.org/", rel],
        ["pixel", "https://evil.example/p.png", rel],
    ]
    assert (shown["active"], shown["hacked"]) == (0, None)
    assert '<img src=x onerror="window.hacked = 1">' in shown["text"]
    assert shown["code"] == "<b>code</b> **not bold**"
    assert (shown["nested"], shown["start"]) == ("two with emphasis and snake_case", 3)
    assert shown["quote"] == "quoted words"


async def _the_form_is_filled_in(page: Caller, desk: Desk) -> None:
    tab = page.page
    await tab.fill("text=Name (required)", "A")
    await tab.select_option("label:has-text('Area') + select", label="garden")
    await tab.fill("label:has-text('Row') + input", "two")
    await tab.click("text=Book it")
    await page.until("document.querySelectorAll('.sheet-form [aria-invalid]').length === 3")
    errors = await tab.evaluate(
        """() => [...document.querySelectorAll('.sheet-form [aria-invalid]')].map((input) =>
            input.getAttribute('aria-describedby').split(' ').map((id) => document.getElementById(id).textContent))"""
    )
    assert [texts[0] for texts in errors][0] == "As on your card"
    assert all(texts[-1] for texts in errors)
    assert await tab.evaluate("document.activeElement.getAttribute('aria-invalid')") == "true"
    assert desk.forms == []
    await tab.fill("text=Name (required)", "Ada <b>")
    await tab.fill("label:has-text('Day') + input", "2026-11-23")
    await tab.fill("label:has-text('Row') + input", "2")
    await tab.check("text=Quiet")
    await tab.click("text=Book it")
    await desk.until(lambda: bool(desk.forms))
    assert desk.forms == [Booking(name="Ada <b>", day=date(2026, 11, 23), area="garden", quiet=True, seat=Seat(row=2))]
    await page.until("document.querySelector('.sheet-form > .quiet').textContent === 'Sent.'")
