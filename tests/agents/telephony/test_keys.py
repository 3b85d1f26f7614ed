"""Keys of the caller as entries: by terminator, length, pause and limit; as a turn; waited for; and keys sent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import numpy as np
import pytest

from vivavoce.agents import Agent, SessionOptions
from vivavoce.agents.events import KeysEntered
from vivavoce.agents.tasks import GetDigitCode
from vivavoce.agents.telephony import EnteredKeys, KeyEntry, TelephonyOptions
from vivavoce.agents.telephony.tones import PAIRS, RATE, key_tones
from vivavoce.agents.testing import ScriptedLLM, SessionHarness
from vivavoce.agents.transports.local import VirtualSink
from vivavoce.pipelines.core.errors import CapabilityError, ConfigurationError, RoomError, SessionError
from vivavoce.pipelines.silent import SilentPipeline

Scenario = Callable[[SessionHarness], Awaitable[None]]


def a_call(
    *pressed: tuple[str, float],
    options: TelephonyOptions | None = None,
    agent: Agent | None = None,
    scenario: Scenario | None = None,
    llm: ScriptedLLM | None = None,
) -> SessionHarness:
    """Run a call of 20 s whose caller presses keys, 0.2 s apart."""
    harness = SessionHarness(
        agent or Agent("Help."), llm, options=SessionOptions(telephony=options or TelephonyOptions())
    )
    for keys, at in pressed:
        harness.caller.presses(keys, at)
    return harness.run(scenario, until=20.0)


def entries(harness: SessionHarness) -> list[tuple[float, str, str]]:
    return [(round(one.at, 1), one.keys, one.end) for one in harness.recording.of(KeysEntered)]


@pytest.mark.parametrize(
    ("entry", "keys", "expected"),
    [
        (KeyEntry(), "12#", [(1.4, "12", "terminator")]),
        (KeyEntry(), "#", [(1.0, "", "terminator")]),
        (KeyEntry(terminator=""), "1#", [(4.2, "1#", "pause")]),
        (KeyEntry(length=2), "12345", [(1.2, "12", "length"), (1.6, "34", "length"), (4.8, "5", "pause")]),
        (KeyEntry(pause=1.5), "9A", [(2.7, "9A", "pause")]),
        (KeyEntry(max_length=3), "1234#", [(1.4, "123", "limit"), (1.8, "4", "terminator")]),
        (KeyEntry(limit=0.5), "1234#", [(1.5, "123", "limit"), (1.8, "4", "terminator")]),
    ],
)
def test_an_entry_ends_by_its_terminator_length_pause_or_limit(
    entry: KeyEntry, keys: str, expected: list[tuple[float, str, str]]
) -> None:
    assert entries(a_call((keys, 1.0), options=TelephonyOptions(keys=entry))) == expected


def test_an_entry_is_a_turn_of_the_caller_in_the_application_s_words() -> None:
    options = TelephonyOptions(keys_as_turn="I entered {keys}.")
    harness = a_call(("42#", 1.0), ("#", 5.0), options=options, llm=ScriptedLLM("Thank you."))
    harness.expect_history(("user", "I entered 42."), ("assistant", "Thank you."))


def test_the_first_key_of_an_entry_stops_the_agent() -> None:
    class Talker(Agent):
        async def on_enter(self) -> None:
            await self.session.say("one two three four five six seven eight nine ten " * 3)

    harness = a_call(("1#", 2.0), agent=Talker("Talk."))
    [speech] = harness.session.turns
    assert speech.outcome == "interrupted"
    began_at, seconds = harness.played[0]
    assert 2.0 <= began_at + seconds <= 2.1


def test_a_task_that_takes_keys_gets_them_alone() -> None:
    codes: list[str] = []

    class Clerk(Agent):
        async def on_enter(self) -> None:
            codes.append(await GetDigitCode(4, question="Your code?"))

    harness = a_call(("1234", 3.0), options=TelephonyOptions(keys_as_turn="Keys: {keys}"), agent=Clerk("Clerk."))
    assert codes == ["1234"]
    assert entries(harness) == []


def test_code_of_the_application_waits_for_an_entry_which_is_no_turn() -> None:
    async def scenario(harness: SessionHarness) -> None:
        telephony = harness.session.telephony
        await harness.session.say("Your pin, please.")
        pin = await telephony.collect_keys(KeyEntry(length=4), first_within=8.0)
        assert pin == EnteredKeys("1234", "length")
        nothing = await telephony.collect_keys(first_within=2.0)
        assert nothing == EnteredKeys("", "none")
        assert harness.now == pytest.approx(8.6, abs=0.05)

    options = TelephonyOptions(keys_as_turn="Keys: {keys}")
    harness = a_call(("1234", 6.0), options=options, scenario=scenario)
    assert entries(harness) == [(6.6, "1234", "length")]
    harness.expect_history(("assistant", "Your pin, please."))


def test_a_second_wait_for_keys_is_refused_and_the_close_ends_the_first() -> None:
    results: list[EnteredKeys] = []

    async def scenario(harness: SessionHarness) -> None:
        async def first() -> None:
            results.append(await harness.session.telephony.collect_keys(first_within=100.0))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(first)
            await anyio.sleep(1.0)
            with pytest.raises(SessionError, match="one entry at a time"):
                await harness.session.telephony.collect_keys()
            await harness.session.close()

    a_call(scenario=scenario)
    assert results == [EnteredKeys("", "none")]


def test_a_cancelled_wait_leaves_the_keys_to_the_usual_entry() -> None:
    async def scenario(harness: SessionHarness) -> None:
        with anyio.move_on_after(1.0):
            await harness.session.telephony.collect_keys()
        await harness.until(5.0)

    assert entries(a_call(("7#", 2.0), scenario=scenario)) == [(2.2, "7", "terminator")]


def test_keys_go_out_as_tones_where_the_line_has_no_message_for_them() -> None:
    async def scenario(harness: SessionHarness) -> None:
        await harness.session.telephony.send_keys("1w#")

    harness = a_call(scenario=scenario)
    assert [round(seconds, 1) for _, seconds in harness.played] == [0.2, 0.2]  # a tone and a gap each
    sink = harness.room.sink
    assert isinstance(sink, VirtualSink)
    played = np.frombuffer(sink.played(), np.int16)
    rate = sink.capabilities.sample_rate
    tones = np.split(played, 2)
    for tone, key in zip(tones, "1#", strict=True):
        spectrum = np.abs(np.fft.rfft(tone[: rate // 10] * np.hanning(rate // 10)))
        peaks = sorted(float(peak) for peak in np.argsort(spectrum)[-2:] * 10.0)
        assert peaks == pytest.approx(PAIRS[key], abs=10.0)
    assert harness.messages == []


def test_keys_whose_tones_are_cut_are_an_error() -> None:
    async def scenario(harness: SessionHarness) -> None:
        async def cut() -> None:
            await anyio.sleep(0.5)
            await harness.session.interrupt(force=True)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cut)
            with pytest.raises(RoomError, match="tones of the keys were not played to their end"):
                await harness.session.telephony.send_keys("123456")

    a_call(scenario=scenario)


@pytest.mark.parametrize("key", sorted(PAIRS))
def test_a_key_s_tone_has_its_two_frequencies_and_no_others(key: str) -> None:
    samples = key_tones(key).to_numpy().astype(np.float64)[: round(0.1 * RATE)]
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples))))
    step = RATE / len(samples)
    peaks = sorted(np.argsort(spectrum)[-2:] * step)
    near = [any(abs(peak - wanted) <= step for peak in peaks) for wanted in PAIRS[key]]
    assert all(near)
    assert np.abs(samples).max() < 16500


@pytest.mark.parametrize("keys", ["", "w", "12x", "#!", " 1"])
def test_keys_that_no_telephone_has_are_refused(keys: str) -> None:
    async def scenario(harness: SessionHarness) -> None:
        with pytest.raises(ConfigurationError, match="need keys of") as caught:
            await harness.session.telephony.send_keys(keys)
        assert "12" not in str(caught.value).removeprefix("need keys of 0123456789")  # they may be a secret

    a_call(scenario=scenario)


def test_keys_that_are_refused_are_not_in_the_error() -> None:
    async def scenario(harness: SessionHarness) -> None:
        with pytest.raises(ConfigurationError) as caught:
            await harness.session.telephony.send_keys("4711-0815")
        assert "got '-' among them" in str(caught.value)
        assert "4711" not in str(caught.value)

    a_call(scenario=scenario)


def test_a_scripted_caller_presses_keys_of_a_telephone_alone() -> None:
    with pytest.raises(ConfigurationError, match="need keys of 0123456789.#ABCD, got '1x'"):
        SessionHarness(Agent("Help.")).caller.presses("1x", 1.0)


def test_a_session_without_audio_sends_no_keys() -> None:
    async def scenario(harness: SessionHarness) -> None:
        with pytest.raises(CapabilityError):
            await harness.session.telephony.send_keys("1")

    options = SessionOptions(telephony=TelephonyOptions())
    SessionHarness(Agent("Write."), pipeline=SilentPipeline(), options=options).run(scenario)


def test_a_session_without_telephony_says_how_to_get_it() -> None:
    async def scenario(harness: SessionHarness) -> None:
        with pytest.raises(ConfigurationError, match=r"SessionOptions\(telephony=TelephonyOptions\(\)\)"):
            _ = harness.session.telephony

    SessionHarness(Agent("Help.")).run(scenario)


@pytest.mark.parametrize(
    "wrong",
    [
        {"keys": "1"},
        {"keys_as_turn": "keys"},
        {"keys": None, "keys_as_turn": "{keys}"},
        {"keys_as_turn": 3},
    ],
)
def test_wrong_options_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        TelephonyOptions(**wrong)


@pytest.mark.parametrize(
    "wrong", [{"length": 0}, {"length": 9, "max_length": 8}, {"terminator": "x"}, {"terminator": "##"}, {"pause": 0}]
)
def test_wrong_entries_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        KeyEntry(**wrong)
