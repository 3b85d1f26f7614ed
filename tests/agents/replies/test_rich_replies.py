"""Rich replies in sessions of both pipelines, in virtual time: sent, answered, sent again; forms, and files."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from typing import Any

import anyio
import pytest
from pydantic import BaseModel, Field, field_validator

from kit.memory import HandOver, ScriptedStore, session_with, started
from kit.realtime import realtime_of
from vivavoce.agents import Agent, AgentSession, MemoryOptions, RoomOptions, SessionOptions
from vivavoce.agents.events import FileReceived, FileRefused, FormSubmitted
from vivavoce.agents.memory import InProcessStore, SessionMemory
from vivavoce.agents.memory.stores.store import Place
from vivavoce.agents.replies import Data, File, Form, Image, Markdown, Options
from vivavoce.agents.session_watch import watch_scope
from vivavoce.agents.testing import ScriptedLLM, SessionHarness, VirtualClock, run_virtual
from vivavoce.agents.transports import FileInputOptions
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.pipelines.core.errors import ConfigurationError, SessionClosedError

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)

Make = Callable[..., SessionHarness]


class Booking(BaseModel):
    """A table."""

    day: date
    people: int = Field(ge=1)

    @field_validator("people")
    @classmethod
    def check(cls, people: int) -> int:
        if people == 13:
            raise RuntimeError("my card is 4711")
        return people


@pytest.fixture(params=["cascading", "realtime"])
def make(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Makes a session of one pipeline, whose agent answers "Fine."."""
    if request.param == "realtime":
        monkeypatch.setattr(SessionHarness, "pipeline_of", staticmethod(realtime_of))

    def made(**more: Any) -> SessionHarness:
        return SessionHarness(Agent("Help."), ScriptedLLM(default="Fine."), **more)

    return made


def messages(room: LocalTransport) -> list[dict[str, Any]]:
    """The messages that the caller's page has got, without the one that it may send files."""
    found = [json.loads(message.json_text) for message in room.parts]
    return [message for message in found if message["type"] != "uploads"]


def answers(room: LocalTransport) -> list[tuple[str, Any]]:
    return [(one["outcome"], one["errors"]) for one in messages(room) if one["type"] == "answer"]


def test_each_part_reaches_the_caller_with_its_bytes(make: Make) -> None:
    async def scenario(harness: SessionHarness) -> None:
        memory = harness.session.memory
        parts = (Markdown("**hi**"), Image(PNG, alt="A cat"), File("a.txt", b"abc"), Data("map", {"at": [1, 2]}))
        ids = [await memory.post(part) for part in parts]
        sent = [message for message in harness.room.parts if message.part_id]
        assert [message.part_id for message in sent] == ids
        assert [message.data for message in sent] == [b"", PNG, b"abc", b""]
        assert [one["type"] for one in messages(harness.room)] == ["markdown", "image", "file", "data"]
        assert messages(harness.room)[3]["value"] == {"at": [1, 2]}
        with pytest.raises(ConfigurationError, match="post\\(\\) needs Markdown"):
            await memory.post("text")  # type: ignore[arg-type]

    harness = make().run(scenario)
    with pytest.raises(SessionClosedError):
        run_virtual(harness.session.memory.post(Markdown("too late")))


def test_a_chosen_option_is_a_typed_turn_and_is_chosen_once(make: Make) -> None:
    async def scenario(harness: SessionHarness) -> None:
        part = await harness.session.memory.post(Options(["red wine", "blue wine"], "Which?"))
        for choice in (7, 1, 0):
            harness.room.answer_part(json.dumps({"part": part, "choice": choice}))
        await harness.until(5.0)
        assert answers(harness.room) == [("invalid", []), ("accepted", []), ("closed", [])]

    make().run(scenario).expect_history(("user", "blue wine"), ("assistant", "Fine."))


def test_parts_are_sent_again_after_a_rejoin_with_the_choice(make: Make) -> None:
    async def scenario(harness: SessionHarness) -> None:
        memory, room = harness.session.memory, harness.room
        await memory.post(Markdown("hi"))
        part = await memory.post(Options(["a", "b"]))
        room.answer_part(json.dumps({"part": part, "choice": 0}))
        await harness.until(3.0)
        room.drop("caller")
        await memory.post(Image(PNG))
        sent = len(messages(room))
        await anyio.sleep(1.0)
        assert len(messages(room)) == sent
        room.join("caller")
        again = messages(room)[sent:]
        assert [(one["type"], one.get("chosen")) for one in again] == [
            ("markdown", None),
            ("options", 0),
            ("image", None),
        ]
        assert room.parts[-1].data == PNG

    make().run(scenario, until=5.0)


def test_a_part_posted_before_the_caller_hears_the_agent_is_sent_then() -> None:
    class Host(Agent):
        async def on_enter(self) -> None:
            assert self.session is not None
            await self.session.memory.post(Markdown("welcome"))

    async def main() -> None:
        clock = VirtualClock()
        harness = SessionHarness(Host("Help."))
        session = AgentSession(Host("Help."), harness.pipeline, options=SessionOptions(clock=clock))
        room = LocalTransport(clock, is_audible=False)
        await session.start(room)
        assert room.parts == []
        room.set_audible()
        assert [one["text"] for one in messages(room)] == ["welcome"]
        await session.close()

    run_virtual(main())


def test_a_form_comes_back_as_an_object_of_its_model_and_errors_go_to_the_page(make: Make) -> None:
    submitted: list[FormSubmitted] = []

    async def scenario(harness: SessionHarness) -> None:
        harness.session.on(FormSubmitted, submitted.append)
        part = await harness.session.memory.post(Form(Booking))
        for values in ({"people": 0}, {"day": "2026-11-23", "people": "2"}, {"day": "2026-11-24", "people": 3}):
            harness.room.answer_part(json.dumps({"part": part, "values": values}))
            await anyio.sleep(0.1)
        (invalid, errors), *later = answers(harness.room)
        assert invalid == "invalid"
        assert [one["path"] for one in errors] == [["day"], ["people"]]
        assert all(one["message"] for one in errors), "in the words of pydantic's release"
        assert later == [("accepted", []), ("closed", [])]
        assert [(event.part_id, event.form) for event in submitted] == [
            (part, Booking(day=date(2026, 11, 23), people=2))
        ]
        harness.room.drop("caller")
        harness.room.join("caller")
        assert messages(harness.room)[-1]["state"] == "submitted"

    make().run(scenario)


def test_half_a_character_in_a_form_is_replaced_and_the_form_accepted(make: Make) -> None:
    class Contact(BaseModel):
        name: str

    submitted: list[FormSubmitted] = []

    async def scenario(harness: SessionHarness) -> None:
        harness.session.on(FormSubmitted, submitted.append)
        part = await harness.session.memory.post(Form(Contact))
        harness.room.answer_part(json.dumps({"part": part, "values": {"name": "Ada \ud83d"}}))
        await anyio.sleep(0.1)
        assert answers(harness.room) == [("accepted", [])]

    make().run(scenario)
    assert [event.form for event in submitted] == [Contact(name="Ada \ufffd")]


def test_a_model_whose_own_code_raises_is_an_error_event_and_the_form_stays_open(make: Make) -> None:
    async def scenario(harness: SessionHarness) -> None:
        part = await harness.session.memory.post(Form(Booking))
        for people in (13, 4):
            harness.room.answer_part(json.dumps({"part": part, "values": {"day": "2026-11-23", "people": people}}))
            await anyio.sleep(0.1)
        assert answers(harness.room) == [("failed", []), ("accepted", [])]

    make().expects_error("form", contains="4711").run(scenario)


def test_answers_of_another_kind_and_to_unknown_parts_change_nothing(make: Make) -> None:
    async def scenario(harness: SessionHarness) -> None:
        text = await harness.session.memory.post(Markdown("hi"))
        choice = await harness.session.memory.post(Options(["a"]))
        for answer in ("nonsense", {"part": "part_none", "choice": 0}, {"part": text, "choice": 0},
                       {"part": choice, "values": {}}):  # fmt: skip
            harness.room.answer_part(answer if isinstance(answer, str) else json.dumps(answer))
        await harness.until(3.0)
        assert [outcome for outcome, _ in answers(harness.room)] == ["closed"] * 3

    make().run(scenario).expect_history()


def test_a_file_is_an_event_with_a_safe_name_and_limits_have_named_outcomes() -> None:
    received: list[FileReceived] = []
    refused: list[FileRefused] = []
    limits = FileInputOptions(max_bytes=10, max_files=2, media_types=frozenset({"text/*"}))

    async def main() -> None:
        clock = VirtualClock()
        harness = SessionHarness(Agent("Help."))
        session = AgentSession(Agent("Help."), harness.pipeline, options=SessionOptions(clock=clock))
        session.on(FileReceived, received.append)
        session.on(FileRefused, refused.append)
        room = LocalTransport(clock)
        await session.start(room, room_options=RoomOptions(file_input=limits))
        assert json.loads(room.parts[0].json_text) == {"type": "uploads", "max_bytes": 10, "media_types": ["text/*"]}
        room.send_file("../a.txt", b"abc", media_type="Text/Plain; charset=x")
        room.send_file("b.txt", b"12345678901", media_type="text/plain")
        room.send_file("c.exe", b"x", media_type="application/x-msdownload")
        room.send_file("d.txt", b"x", media_type="text/plain", is_cut_off=True)
        room.send_file("e.txt", b"", media_type="text/plain")
        room.send_file("f.txt", b"x", media_type="text/plain")
        await anyio.sleep(0.1)
        outcomes = [one["outcome"] for one in messages(room)]
        assert outcomes == ["received", "too_large", "wrong_type", "incomplete", "received", "too_many"]
        await session.close()

    run_virtual(main())
    assert [(event.file.name, event.file.media_type, event.file.data) for event in received] == [
        ("a.txt", "text/plain", b"abc"),
        ("e.txt", "text/plain", b""),
    ]
    assert [(event.file_name, event.reason) for event in refused] == [
        ("b.txt", "too_large"),
        ("c.exe", "wrong_type"),
        ("d.txt", "incomplete"),
        ("f.txt", "too_many"),
    ]


def test_without_a_handler_no_file_is_taken_and_the_page_offers_none() -> None:
    async def main() -> None:
        session = session_with()
        room = await started(session)
        assert room.parts == []
        room.send_file("a.txt", b"abc")
        assert [one["outcome"] for one in messages(room)] == ["not_wanted"]
        await session.close()

    run_virtual(main())


def test_a_file_that_comes_while_another_session_has_the_conversation_has_an_outcome() -> None:
    async def main() -> None:
        watch, session, room = HandOver(), session_with(), LocalTransport(VirtualClock())
        received: list[FileReceived] = []
        refused: list[FileRefused] = []
        session.on(FileReceived, received.append)
        session.on(FileRefused, refused.append)
        old = session_with()
        await started(old)
        async with anyio.create_task_group() as group:
            with watch_scope(watch):
                group.start_soon(session.start, room)
                await anyio.sleep(1.0)
            room.send_file("a.txt", b"abc")
            assert [one["outcome"] for one in messages(room)] == ["not_wanted"]
            watch.give(json.loads(json.dumps(old.snapshot())))
            await old.close()
        room.send_file("b.txt", b"abc")
        await anyio.sleep(0.1)
        assert [(event.file_name, event.reason) for event in refused] == [("a.txt", "not_wanted")]
        assert [event.file.name for event in received] == ["b.txt"]
        await session.close()

    run_virtual(main())


def test_parts_and_answers_are_recorded_without_the_values_of_a_form() -> None:
    store = InProcessStore(clock=VirtualClock())

    async def scenario(harness: SessionHarness) -> None:
        memory = harness.session.memory
        choice = await memory.post(Options(["a", "b"]))
        form = await memory.post(Form(Booking))
        harness.room.answer_part(json.dumps({"part": choice, "choice": 1}))
        harness.room.answer_part(json.dumps({"part": form, "values": {"day": "2026-11-23", "people": 5}}))
        await harness.until(3.0)
        records = [json.loads(one.text) for one in await store.records(Place(memory.id, "parts"), 0, 10)]
        assert [record.get("part") for record in records] == [choice, form, None, None]
        assert records[2:] == [{"answered": choice, "chosen": 1}, {"answered": form}]

    harness = SessionHarness(
        Agent("Help."), ScriptedLLM(default="Fine."), options=SessionOptions(memory=MemoryOptions(store=store))
    )
    harness.run(scenario)


def test_a_resumed_session_shows_the_parts_again_and_its_forms_are_closed() -> None:
    store = InProcessStore(clock=VirtualClock())
    options = SessionOptions(memory=MemoryOptions(store=store))
    snapshots: list[Any] = []

    async def first(harness: SessionHarness) -> None:
        for part in (Markdown("hi"), Options(["a"]), Form(Booking)):
            await harness.session.memory.post(part)
        await anyio.sleep(0.1)
        snapshots.append(harness.session.snapshot())

    async def second(harness: SessionHarness) -> None:
        shown = messages(harness.room)
        assert [one["type"] for one in shown] == ["markdown", "options", "form"]
        assert shown[2]["state"] == "closed"
        harness.room.answer_part(json.dumps({"part": shown[1]["id"], "choice": 0}))
        await harness.until(3.0)

    def harness() -> SessionHarness:
        return SessionHarness(Agent("Help.", id="desk"), ScriptedLLM(default="Fine."), options=options)

    harness().run(first)
    resumed = harness()
    resumed.resume_from = snapshots[0]
    resumed.run(second).expect_history(("user", "a"), ("assistant", "Fine."))


@pytest.mark.parametrize("is_down", [False, True])
def test_a_new_call_under_the_id_of_one_before_shows_none_of_its_parts(is_down: bool) -> None:
    async def main() -> None:
        store = ScriptedStore()
        first = session_with(MemoryOptions(store=store))
        await started(first)
        await first.memory.post(Markdown("old"))
        async with SessionMemory.attach(store, "call") as other:
            await other.post(Markdown("old, from afar"))
            await anyio.sleep(1.0)
            await first.close()
            store.is_down = is_down
            second = session_with(MemoryOptions(store=store))
            room = await started(second)
            room.join("caller")
            await anyio.sleep(3.0)
            store.is_down = False
            await anyio.sleep(10.0)
            assert messages(room) == []
            new = [await second.memory.post(Markdown("new")), await other.post(Markdown("new, from afar"))]
            await anyio.sleep(1.0)
            assert [one["id"] for one in messages(room)] == new
        third = session_with(MemoryOptions(store=store), id="later")
        room = await started(third, resume_from=second.snapshot())
        room.join("caller")
        await anyio.sleep(1.0)
        assert sorted(one["id"] for one in messages(room)) == sorted(new)
        await second.close()
        await third.close()

    run_virtual(main())


def test_another_process_posts_a_part_too_but_no_form_and_no_large_file() -> None:
    store = InProcessStore(clock=VirtualClock())

    async def scenario(harness: SessionHarness) -> None:
        async with SessionMemory.attach(store, harness.session.id) as memory:
            part = await memory.post(Options(["a", "b"], "From afar?"))
            with pytest.raises(ConfigurationError, match="post it in the session's own process"):
                await memory.post(Form(Booking))
            with pytest.raises(ConfigurationError, match="at most 524288 bytes"):
                await memory.post(File("a.bin", bytes(600_000)))
        await anyio.sleep(0.5)
        assert [one["id"] for one in messages(harness.room)] == [part]
        harness.room.answer_part(json.dumps({"part": part, "choice": 1}))
        await harness.until(4.0)

    options = SessionOptions(memory=MemoryOptions(store=store))
    SessionHarness(Agent("Help."), ScriptedLLM(default="Fine."), options=options).run(scenario).expect_history(
        ("user", "b"), ("assistant", "Fine.")
    )


def test_while_the_store_is_down_parts_are_shown_and_recorded_later() -> None:
    store = ScriptedStore()

    async def scenario(harness: SessionHarness) -> None:
        store.is_down = True
        await harness.session.memory.post(Markdown("hi"))
        assert len(messages(harness.room)) == 1
        await anyio.sleep(1.0)
        store.is_down = False
        await anyio.sleep(10.0)
        assert len(await store.records(Place(harness.session.id, "parts"), 0, 10)) == 1

    options = SessionOptions(memory=MemoryOptions(store=store))
    SessionHarness(Agent("Help."), options=options).expects_error("memory").run(scenario)
