"""The examples of handoffs, tasks, buttons, guards, screens and detectors keep their promises, on both room servers."""

from __future__ import annotations

import runpy
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from e2e.test_video import RED, color_of, is_near, showing
from livekit import rtc

from kit.e2e.dev_app import hears
from kit.e2e.examples import EXAMPLES, IN_A_ROOM, has_said, worker_of
from kit.e2e.listener import Listener, listening
from kit.e2e.room_endpoint import RoomEndpoint
from kit.e2e.sdk_client import Peer, joined
from kit.e2e.talker import record
from kit.e2e.working import Working
from vivavoce.agents import Agent, Worker, WorkerOptions
from vivavoce.agents.cli.app_file import load_app
from vivavoce.agents.testing import ScriptedLLM, ScriptedSTT, ScriptedTTS, SessionHarness
from vivavoce.agents.worker.executors.options import TaskExecution
from vivavoce.pipelines.llm.base import LLMCapabilities
from vivavoce.pipelines.testing import check_turn_detector
from vivavoce.pipelines.turn_detector.base import TurnContext, TurnDetector
from vivavoce.plugins import openai

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]


async def types_and_hears(anna: Peer, text: str, answer: str) -> None:
    await anna.room.local_participant.send_text(text, topic="lk.chat")
    await anna.until(partial(has_said, anna, answer))


@IN_A_ROOM
async def test_a_receptionist_hands_over_to_billing_which_hands_back(room_server: RoomEndpoint, room_name: str) -> None:
    worker = worker_of("receptionist.py", room_server)
    async with Working(worker), joined(room_server, room_name, "anna") as anna:
        await anna.until(partial(has_said, anna, "Corner hotel, how can I help?"))
        await types_and_hears(anna, "when do you open", "We are open day and night.")
        await types_and_hears(anna, "my bill please", "Billing here. What is your question?")
        await types_and_hears(anna, "how much is it", "It is ninety euros.")
        await types_and_hears(anna, "back to reception", "Reception again.")


@IN_A_ROOM
async def test_an_appointment_is_a_typed_result_which_the_caller_confirms(
    room_server: RoomEndpoint, room_name: str
) -> None:
    worker = worker_of("appointment.py", room_server)
    async with Working(worker), joined(room_server, room_name, "anna") as anna:
        await anna.until(partial(has_said, anna, "For which day, and at what time?"))
        await types_and_hears(anna, "on sunday", "At what time?")
        await types_and_hears(anna, "at seven", "We are closed then. Which other day?")
        await types_and_hears(anna, "on friday", "friday at 19:00. Is that right?")
        await types_and_hears(anna, "yes", "It is booked. Goodbye.")


async def calls(caller: Listener, method: str) -> str:
    """Call an RPC method of the agent."""
    (agent,) = caller.agents
    return await caller.room.local_participant.perform_rpc(destination_identity=agent, method=method, payload="")


@IN_A_ROOM
async def test_a_button_begins_and_ends_turns(room_server: RoomEndpoint, room_name: str) -> None:
    lines = await record(["on friday"])
    worker, token = worker_of("push_to_talk.py", room_server), room_server.token("caller", room_name)
    async with Working(worker), listening(room_server.url, token) as caller:
        await hears(caller, "Hold the button and say a day.")
        await caller.speak(lines["on friday"])  # without the button: not heard
        assert await calls(caller, "start_turn") == "ok"
        await caller.speak(lines["on friday"])
        assert not any("see you" in text for text in caller.texts.values())
        assert await calls(caller, "end_turn") == "ok"
        await hears(caller, "We will see you on friday.")


@IN_A_ROOM
async def test_a_guard_lets_the_caller_hear_only_what_passed(room_server: RoomEndpoint, room_name: str) -> None:
    async with Working(worker_of("guard.py", room_server)), joined(room_server, room_name, "anna") as anna:
        await anna.until(partial(has_said, anna, "Hello! For which day?"))
        await types_and_hears(anna, "card number", "Please tell me no numbers of cards.")
        await types_and_hears(anna, "on sunday", "On Sunday we are closed. Is there anything else?")


@IN_A_ROOM
async def test_a_helper_sees_the_screen_that_the_caller_shares(
    room_server: RoomEndpoint, room_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entrypoint as it is, with scripted parts in place of the server's."""
    llm = ScriptedLLM("It is red.", capabilities=LLMCapabilities(supports_images=True))
    for name, part in (("STT", ScriptedSTT()), ("LLM", llm), ("TTS", ScriptedTTS())):
        monkeypatch.setattr(openai, name, lambda part=part: part)
    entrypoint = runpy.run_path(str(EXAMPLES / "screen_share.py"))["entrypoint"]
    url, key, secret = room_server.url, room_server.api_key, room_server.api_secret
    options = WorkerOptions(url=url, api_key=key, api_secret=secret, executor=TaskExecution())
    async with Working(Worker(entrypoint, options=options)), joined(room_server, room_name, "anna") as anna:
        async with showing(anna.room, RED, rtc.TrackSource.SOURCE_SCREENSHARE):
            await anna.until(partial(has_said, anna, "Hello! Share your screen, and ask me about it."))
            await types_and_hears(anna, "which colour is it", "It is red.")
    (picture, *_) = llm.requests[0].context.messages("user")[-1].images
    assert is_near(color_of(picture), RED)


@IN_A_ROOM
async def test_a_code_is_noted_by_the_app_with_a_detector_of_its_own(room_server: RoomEndpoint, room_name: str) -> None:
    worker = worker_of("own_turn_detector.py", room_server)
    async with Working(worker), joined(room_server, room_name, "anna") as anna:
        await anna.until(partial(has_said, anna, "Hello! Your code of four digits, please."))
        await types_and_hears(anna, "one two three four", "Thank you. Is there anything else?")


def the_detector() -> TurnDetector:
    space: dict[str, Any] = {"__name__": "own_turn_detector"}
    path = Path(EXAMPLES / "own_turn_detector.py")
    exec(compile(path.read_text(), path, "exec"), space)
    detector = space["CodeDetector"]()
    assert isinstance(detector, TurnDetector)
    return detector


async def test_the_detector_of_one_s_own_keeps_the_promises_of_the_port() -> None:
    assert load_app(EXAMPLES / "own_turn_detector.py").worker
    await check_turn_detector(the_detector, TurnContext(text="one two three four"), TurnContext(text="one two"))
    await check_turn_detector(the_detector, TurnContext(text="That is it."), TurnContext(text="my code is"))


def test_the_detector_of_one_s_own_waits_for_the_rest_of_a_code() -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM("Thank you."), turn_detector=the_detector())
    harness.caller.says("one two", 0.5, 1.5)
    harness.caller.says("three four", 3.5, 4.5)  # after two seconds: `max_delay` is three
    harness.run(until=8.0)
    assert harness.messages == [("user", "one two three four"), ("assistant", "Thank you.")]
