"""The examples keep their promises, in a room, on both servers.

In `make test` their conversations run in virtual time, in `tests/docs/test_examples_in_writing.py` and in the files
beside it, and the README's agent holds a spoken call (`test_spoken_call.py`).
"""

from __future__ import annotations

from functools import partial

import anyio
import pytest
from livekit import rtc

from kit.e2e.examples import IN_A_ROOM, agent_said, has_said, worker_of
from kit.e2e.room_endpoint import RoomEndpoint
from kit.e2e.sdk_client import joined
from kit.e2e.working import Working
from kit.limits import LIMIT

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]


@IN_A_ROOM
async def test_the_readme_s_agent_greets_asks_and_books_in_writing(room_server: RoomEndpoint, room_name: str) -> None:
    async with Working(worker_of("hello.py", room_server)), joined(room_server, room_name, "anna") as anna:
        await anna.until(lambda: "Hello! For which day?" in agent_said(anna))
        await anna.room.local_participant.send_text("on friday", topic="lk.chat")
        await anna.until(lambda: "At what time?" in agent_said(anna))
        await anna.room.local_participant.send_text("at seven", topic="lk.chat")
        booked = "Your table is booked for friday at seven. Is there anything else?"
        await anna.until(lambda: booked in agent_said(anna))


@IN_A_ROOM
async def test_a_caller_who_says_nothing_is_asked_and_then_hung_up_on(
    room_server: RoomEndpoint, room_name: str
) -> None:
    lines = ("Are you still there?", "I cannot hear you. Please say something.", "Then I hang up now. Goodbye.")
    async with Working(worker_of("wake_up.py", room_server)), joined(room_server, room_name, "anna") as anna:
        reasons: list[int] = []
        over = anyio.Event()

        def on_disconnected(reason: int) -> None:
            reasons.append(reason)
            over.set()

        anna.room.on("disconnected", on_disconnected)
        for number in range(1, len(lines) + 1):
            await anna.until(lambda told=lines[:number]: set(told) <= set(agent_said(anna)))  # type: ignore[misc]
        with anyio.fail_after(LIMIT):
            await over.wait()
        assert reasons == [rtc.DisconnectReason.PARTICIPANT_REMOVED]


@IN_A_ROOM
async def test_without_a_server_the_fallback_s_local_parts_hold_the_call(
    room_server: RoomEndpoint, room_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    async with Working(worker_of("fallback.py", room_server)), joined(room_server, room_name, "anna") as anna:
        await anna.until(lambda: "Hello! For which day?" in agent_said(anna))
        await anna.room.local_participant.send_text("on friday", topic="lk.chat")
        await anna.until(lambda: "We will see you on friday. Is there anything else?" in agent_said(anna))


@IN_A_ROOM
async def test_a_conversation_flow_takes_an_order_without_a_model(room_server: RoomEndpoint, room_name: str) -> None:
    worker = worker_of("conversation_flow.py", room_server)
    async with Working(worker), joined(room_server, room_name, "anna") as anna:
        await anna.until(lambda: "Hello! How many tickets?" in agent_said(anna))
        for said, answer in (
            ("two", "Do you want to sit together?"),
            ("yes", "Shall I book them?"),
            ("yes", "Thank you. Two tickets. They are booked."),
        ):
            await anna.room.local_participant.send_text(said, topic="lk.chat")
            await anna.until(partial(has_said, anna, answer))


@IN_A_ROOM
async def test_a_voice_and_a_model_of_one_s_own_answer_in_a_room(room_server: RoomEndpoint, room_name: str) -> None:
    worker = worker_of("custom_plugin.py", room_server)
    async with Working(worker), joined(room_server, room_name, "anna") as anna:
        await anna.until(partial(has_said, anna, "hello"))
        await anna.room.local_participant.send_text("two", topic="lk.chat")
        await anna.until(partial(has_said, anna, "two"))


@IN_A_ROOM
async def test_a_call_goes_to_another_language_and_back(room_server: RoomEndpoint, room_name: str) -> None:
    worker = worker_of("two_languages.py", room_server)
    async with Working(worker), joined(room_server, room_name, "anna") as anna:
        await anna.until(partial(has_said, anna, "Hello! For which day?"))
        for said, answer in (
            ("spanish please", "¡Hola! ¿Para qué día?"),
            ("friday", "Su mesa está reservada: friday. ¿Algo más?"),
            ("english please", "Hello! For which day?"),
            ("saturday", "Your table is booked for saturday. Anything else?"),
        ):
            before = len(agent_said(anna))
            await anna.room.local_participant.send_text(said, topic="lk.chat")
            await anna.until(lambda before=before, answer=answer: answer in agent_said(anna)[before:])  # type: ignore[misc]
