"""Whole examples in virtual time: their own entrypoints in a job, scripted ears and voices, and a caller who types.

The same conversations in a room, with real voices: `tests/e2e/test_examples.py` and `test_examples_of_agents.py`.
"""

from __future__ import annotations

import runpy
from pathlib import Path

import anyio
import pytest

from vivavoce.agents.cli.console.job import ConsoleJob
from vivavoce.agents.job import JobInfo
from vivavoce.agents.testing import ScriptedLLM, ScriptedSTT, ScriptedTTS, ScriptedVAD, VirtualClock, run_virtual
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.agents.worker.options import WorkerOptions
from vivavoce.agents.worker.run import JobRun
from vivavoce.pipelines.core.errors import ProviderConnectionError
from vivavoce.plugins import espeak, hibari, moonshine, openai, pocketsphinx, silero

TESTS = Path(__file__).parents[1]
EXAMPLES = TESTS.parent / "examples"
ANSWERED_WITHIN = 15.0
"""Virtual seconds for an answer, its speech included."""
DOWN = ProviderConnectionError("the test has no such server", provider="scripted", retryable=False)

CALLS = {
    "hello.py": [
        ("", "Hello! For which day?"),
        ("on friday", "At what time?"),
        ("at seven", "Your table is booked for friday at seven. Is there anything else?"),
    ],
    "fallback.py": [
        ("", "Hello! For which day?"),
        ("on friday", "We will see you on friday. Is there anything else?"),
    ],
    "conversation_flow.py": [
        ("", "Hello! How many tickets?"),
        ("two", "Do you want to sit together?"),
        ("yes", "Shall I book them?"),
        ("yes", "Thank you. Two tickets. They are booked."),
    ],
    "call_notes.py": [
        ("", "Hello! For which day?"),
        ("on friday", "We will see you on friday. Is there anything else?"),
    ],
    "custom_plugin.py": [("", "hello"), ("two", "two")],
    "two_languages.py": [
        ("", "Hello! For which day?"),
        ("spanish please", "¡Hola! ¿Para qué día?"),
        ("friday", "Su mesa está reservada: friday. ¿Algo más?"),
        ("english please", "Hello! For which day?"),
        ("saturday", "Your table is booked for saturday. Anything else?"),
    ],
    "receptionist.py": [
        ("", "Corner hotel, how can I help?"),
        ("when do you open", "We are open day and night."),
        ("my bill please", "Billing here. What is your question?"),
        ("how much is it", "It is ninety euros."),
        ("back to reception", "Reception again."),
    ],
    "appointment.py": [
        ("", "For which day, and at what time?"),
        ("on sunday", "At what time?"),
        ("at seven", "We are closed then. Which other day?"),
        ("on friday", "friday at 19:00. Is that right?"),
        ("yes", "It is booked. Goodbye."),
    ],
    "guard.py": [
        ("", "Hello! For which day?"),
        ("card number", "Please tell me no numbers of cards."),
        ("on sunday", "On Sunday we are closed. Is there anything else?"),
    ],
    "own_turn_detector.py": [
        ("", "Hello! Your code of four digits, please."),
        ("one two three four", "Thank you. Is there anything else?"),
    ],
    "telephone_survey.py": [("", "How was your visit? Press 1 for good, 2 for bad.")],
    "warm_transfer.py": [("", "Bicycle shop, hello! How can I help you?")],
}

ELSEWHERE = {
    "booking_graph.py": "docs/test_booking_graph_example.py",
    "either_pipeline.py": "docs/test_either_pipeline_example.py",
    "memory.py": "docs/test_memory_example.py",
    "push_to_talk.py": "docs/test_push_to_talk_example.py",
    "realtime_agent.py": "docs/test_realtime_agent_example.py",
    "screen_share.py": "docs/test_screen_share_example.py",
    "table_booking.py": "e2e/test_table_booking_example.py",
    "telephone_call_out.py": "docs/test_telephone_call_out_example.py",
    "telephone_survey.py": "docs/test_telephone_survey_example.py",
    "twilio_number.py": "docs/test_twilio_number_example.py",
    "wake_up.py": "docs/test_wake_up_example.py",
    "warm_transfer.py": "e2e/test_warm_transfer.py",
}
"""Examples with other callers -> their tests; those that stand in `CALLS` too begin here."""


@pytest.fixture
def scripted_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the plugins' ears, voices and servers; the examples' own models stay."""
    for plugin, name, make in (
        (silero, "VAD", ScriptedVAD),
        (moonshine, "STT", ScriptedSTT),
        (hibari, "TTS", ScriptedTTS),
        (pocketsphinx, "STT", ScriptedSTT),
        (espeak, "TTS", ScriptedTTS),
        (openai, "STT", ScriptedSTT),
        (openai, "LLM", lambda: ScriptedLLM(default=[DOWN])),
        (openai, "TTS", ScriptedTTS),
    ):
        monkeypatch.setattr(plugin, name, lambda make=make, **_options: make())
    monkeypatch.setenv("SIP_TRUNK", "ST_1")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def said(room: LocalTransport) -> list[str]:
    """What the agent has said."""
    return [segment.text for segment in room.transcripts if segment.who == "agent" and segment.is_final]


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.usefixtures("scripted_parts")
def test_a_caller_who_types_is_answered_as_the_example_promises(name: str) -> None:
    entrypoint = runpy.run_path(str(EXAMPLES / name))["entrypoint"]
    room = LocalTransport(VirtualClock())

    async def main() -> JobRun:
        async with anyio.create_task_group() as tasks:
            job = ConsoleJob(JobInfo(id="AJ_1", room="kitchen"), room, shared={}, tasks=tasks)
            run = JobRun(job, entrypoint, WorkerOptions(crash_safety=None), tasks)
            tasks.start_soon(run.run)
            for text, answer in CALLS[name]:
                before = len(said(room))
                if text:
                    room.send_text(text)
                await anyio.sleep(ANSWERED_WITHIN)
                assert answer in said(room)[before:]
            run.end("the test is over", is_forced=False)
        return run

    assert run_virtual(main()).error == ""


@pytest.mark.usefixtures("scripted_parts")
def test_the_call_out_begins_its_session_and_needs_a_room_to_call_into() -> None:
    entrypoint = runpy.run_path(str(EXAMPLES / "telephone_call_out.py"))["entrypoint"]
    room = LocalTransport(VirtualClock())

    async def main() -> JobRun:
        async with anyio.create_task_group() as tasks:
            info = JobInfo(id="AJ_1", room="kitchen", metadata="+15550100")
            job = ConsoleJob(info, room, shared={}, tasks=tasks)
            run = JobRun(job, entrypoint, WorkerOptions(crash_safety=None), tasks)
            await run.run()
        return run

    assert "start the session in a LiveKit room with a SIP service" in run_virtual(main()).error


def test_each_example_that_takes_calls_is_tested_here_or_in_a_file_that_is_named() -> None:
    takes_calls = {path.name for path in EXAMPLES.glob("*.py") if "\nasync def entrypoint(" in path.read_text("utf-8")}
    assert takes_calls == {*CALLS, *ELSEWHERE}
    for name, file in ELSEWHERE.items():
        assert Path(name).stem in (TESTS / file).read_text("utf-8"), f"{file} names no {name}"
