"""Who has answered a call, in whole sessions in virtual time: each rule, each limit, and what the agent says when."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import numpy as np
import pytest

from vivavoce.agents import Agent, AgentSession, EndpointingOptions, SessionOptions
from vivavoce.agents.events import CallAnsweredBy, ErrorOccurred
from vivavoce.agents.telephony import CallVerdict, MachineDetection, TelephonyOptions
from vivavoce.agents.testing import ScriptedLLM, ScriptedRealtimeModel, SessionHarness
from vivavoce.pipelines.core.errors import CapabilityError, ConfigurationError, ProviderError
from vivavoce.pipelines.llm.base import GenerateRequest, Usage
from vivavoce.pipelines.llm.chat_context import ChatMessage
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.silent import SilentPipeline

Scenario = Callable[[SessionHarness], Awaitable[None]]
VOICEMAIL = "you have reached the voicemail of ann please leave a message after the tone"


def a_call(
    *said: tuple[str, float, float],
    scenario: Scenario | None = None,
    agent: Agent | None = None,
    until: float = 10.0,
    llm: ScriptedLLM | None = None,
    llm_of: ScriptedLLM | None = None,
    **options: Any,
) -> SessionHarness:
    """Run a call whose other side says these texts, each from one time to another.

    Args:
        llm_of: The model of the detection.
    """
    telephony = TelephonyOptions(machine_detection=MachineDetection(llm=llm_of, **options))
    harness = SessionHarness(
        agent or Agent("You call people."),
        llm or ScriptedLLM(default="Good day."),
        options=SessionOptions(telephony=telephony),
    )
    for text, start, end in said:
        if text:
            harness.caller.says(text, start, end)
        else:
            harness.caller.makes_noise(start, end)
    return harness.run(scenario, until=until)


def waiting_call(
    agent: Agent | None = None,
    *,
    keys_as_turn: str = "",
    endpointing: EndpointingOptions | None = None,
    **options: float,
) -> SessionHarness:
    """Make a call whose other side has no script yet."""
    detection = MachineDetection(**options)  # type: ignore[arg-type]  # numbers only
    telephony = TelephonyOptions(machine_detection=detection, keys_as_turn=keys_as_turn)
    return SessionHarness(
        agent or Agent("Call."),
        ScriptedLLM(default="Good day."),
        options=SessionOptions(telephony=telephony, endpointing=endpointing or EndpointingOptions()),
    )


def verdict_of(harness: SessionHarness) -> tuple[str, str, float]:
    [event] = harness.recording.of(CallAnsweredBy)
    assert event.after == pytest.approx(event.at, abs=0.1)
    return event.kind, event.reason, round(event.at, 1)


# --- each rule


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ([("hello", 1.0, 1.6)], ("human", "short_greeting", 2.1)),
        ([("", 1.0, 1.6)], ("human", "short_greeting", 2.6)),
        ([(VOICEMAIL, 1.0, 6.0)], ("machine", "phrase", 7.2)),
        ([("voicemail of ann", 1.0, 2.0)], ("machine", "phrase", 3.2)),
        ([("hi this is the mailbox of ann", 1.0, 1.5), ("leave a message", 1.9, 3.0)], ("machine", "phrase", 4.2)),
        ([("for sales press one", 1.0, 4.0), ("for support press two", 5.0, 8.0)], ("menu", "phrase", 9.2)),
        ([("please state your name and why you are calling", 1.0, 4.0)], ("screening", "phrase", 5.2)),
        ([("the number you have dialed is not in service", 0.5, 3.0)], ("unavailable", "phrase", 4.2)),
        ([("la la la la la la la la", 1.0, 5.0)], ("machine", "long_greeting", 6.2)),
        ([], ("unknown", "silence", 5.0)),
        ([("", 1.0, 1.1)], ("unknown", "silence", 5.0)),
        ([("", 1.0, 60.0)], ("unknown", "silence", 7.2)),
    ],
)
def test_a_verdict_comes_from_length_silence_and_words(
    said: list[tuple[str, float, float]], expected: tuple[str, str, float]
) -> None:
    assert verdict_of(a_call(*said)) == expected


@pytest.mark.parametrize(
    ("options", "said", "expected"),
    [
        ({"limit": 3.0}, [("hello", 2.0, 2.8)], ("unknown", "limit", 3.0)),
        ({"limit": 4.0}, [(VOICEMAIL, 0.5, 3.6)], ("machine", "phrase", 4.0)),
        ({"no_speech": 2.0}, [("hello", 3.0, 3.6)], ("unknown", "silence", 2.0)),
        ({"max_greeting": 6.0}, [("good morning this is smith and sons", 1.0, 5.0)], ("human", "short_greeting", 5.5)),
    ],
)
def test_each_limit_can_be_set(
    options: dict[str, Any], said: list[tuple[str, float, float]], expected: tuple[str, str, float]
) -> None:
    assert verdict_of(a_call(*said, **options)) == expected


def test_speech_that_goes_on_to_the_limit_is_no_human_s() -> None:
    harness = waiting_call(limit=7.0)
    harness.caller.says("la la la", 1.0, 9.0, interims=[(float(at), "la " * at) for at in range(2, 9)])
    assert verdict_of(harness.run(until=8.0)) == ("machine", "long_greeting", 7.0)


def test_words_that_come_late_are_waited_for_but_not_long() -> None:
    def call(final_at: float) -> tuple[str, str, float]:
        harness = waiting_call()
        harness.caller.says("voicemail of ann", 1.0, 2.0, final_at=final_at)
        return verdict_of(harness.run(until=10.0))

    assert call(2.8) == ("machine", "phrase", 3.2)
    assert call(3.5) == ("human", "short_greeting", 3.0)


# --- the agent's speech


def test_the_answer_to_a_human_s_greeting_waits_for_the_verdict() -> None:
    harness = a_call(("hello", 1.0, 1.6))
    harness.expect_history(("user", "hello"), ("assistant", "Good day."))
    assert harness.played[0][0] >= 2.1


class Opening(Agent):
    """Speaks as soon as the session has started, without a look at who is there."""

    async def on_enter(self) -> None:
        _ = self.session.say("This is the clinic.")


def test_speech_of_the_application_waits_too_and_takes_the_place_of_the_model_s_answer() -> None:
    harness = a_call(("hello", 1.0, 1.6), agent=Opening("Call."), llm=ScriptedLLM())
    assert [text for _, text in harness.messages] == ["This is the clinic."]
    assert 2.1 <= harness.played[0][0] < 2.5


def test_after_the_greeting_the_agent_answers_as_usual() -> None:
    harness = a_call(("hello", 1.0, 1.6), ("who is there", 6.0, 7.0), agent=Opening("Call."))
    assert [text for _, text in harness.messages] == ["This is the clinic.", "who is there", "Good day."]


@pytest.mark.parametrize(
    "said", [VOICEMAIL, "for sales press one", "state your name and why you are calling", "it is not in service"]
)
def test_no_machine_hears_the_speech_that_was_meant_for_a_human_nor_an_answer(said: str) -> None:
    harness = a_call((said, 1.0, 4.0), ("beep boop", 8.0, 9.0), agent=Opening("Call."), llm=ScriptedLLM())
    assert harness.played == []
    [opening, *_] = harness.session.turns
    assert opening.outcome == "cancelled"


def test_speech_begins_at_the_limit_where_nobody_is_known() -> None:
    harness = a_call(agent=Opening("Call."), no_speech=8.0, limit=6.0)
    assert verdict_of(harness) == ("unknown", "limit", 6.0)
    assert 6.0 <= harness.played[0][0] < 6.4


def test_the_application_speaks_to_a_machine() -> None:
    async def scenario(harness: SessionHarness) -> None:
        verdict = await harness.session.telephony.answered_by()
        assert (verdict.kind, verdict.reason) == ("screening", "phrase")
        assert verdict.transcript == "state your name and why you are calling"
        await harness.session.say("Ann of the clinic, about your appointment.")
        verdict = await harness.session.telephony.answered_by(again=True)
        assert verdict.kind == "human"

    harness = a_call(
        ("state your name and why you are calling", 1.0, 4.0),
        ("hello ann", 13.0, 13.8),
        scenario=scenario,
        until=16.0,
    )
    assert [kind.kind for kind in harness.recording.of(CallAnsweredBy)] == ["screening", "human"]
    assert [text for _, text in harness.messages] == [
        "Ann of the clinic, about your appointment.",
        "hello ann",
        "Good day.",
    ]


def test_a_model_may_answer_the_words_of_a_menu() -> None:
    harness = a_call(("for sales press one", 1.0, 4.0), answers=("human", "menu"))
    assert [text for _, text in harness.messages] == ["for sales press one", "Good day."]


def test_a_late_end_of_the_greeting_s_turn_gets_no_second_answer() -> None:
    harness = waiting_call(
        agent=Opening("Call."), endpointing=EndpointingOptions(mode="fixed", min_delay=2.5, max_delay=3.0)
    )
    harness.caller.says("hello", 1.0, 1.6)
    harness.run(until=10.0)
    assert [text for _, text in harness.messages] == ["This is the clinic."]


def test_keys_and_words_behind_the_opening_are_answered() -> None:
    harness = waiting_call(agent=Opening("Call."), keys_as_turn="I pressed {keys}.")
    harness.caller.says("hello", 1.0, 1.6)
    harness.caller.presses("1#", 5.0)
    harness.run(until=10.0)
    assert [text for _, text in harness.messages] == ["This is the clinic.", "I pressed 1.", "Good day."]


def test_a_human_who_goes_on_speaking_is_answered() -> None:
    harness = waiting_call(agent=Opening("Call."))
    harness.caller.says("hello", 1.0, 1.6)
    harness.caller.says("who is there please", 2.4, 3.6)
    harness.run(until=10.0)
    assert harness.messages[-1] == ("assistant", "Good day.")


def test_a_handler_of_the_event_may_speak_first() -> None:
    class Polite(Agent):
        async def on_enter(self) -> None:
            self.session.on("call_answered_by", self.judged)

        async def judged(self, event: CallAnsweredBy) -> None:
            if event.kind == "human":
                await self.session.say("This is the clinic.")

    harness = a_call(("hello", 1.0, 1.6), agent=Polite("Call."), llm=ScriptedLLM())
    assert [text for _, text in harness.messages] == ["This is the clinic."]


def test_the_end_of_the_call_ends_the_wait() -> None:
    verdicts: list[CallVerdict] = []
    ends: list[str] = []

    async def scenario(harness: SessionHarness) -> None:
        telephony = harness.session.telephony

        async def judge() -> None:
            verdicts.append(await telephony.answered_by())

        async def beep() -> None:
            ends.append(await telephony.wait_for_beep(100.0, silence=50.0))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(judge)
            tasks.start_soon(beep)
            await harness.until(1.0)
            await harness.session.close()

    a_call(scenario=scenario, until=1.0)
    [verdict] = verdicts
    assert (verdict.kind, verdict.reason) == ("unknown", "hung_up")
    assert ends == ["hung_up"]


def test_nothing_is_judged_before_the_call_is_answered() -> None:
    async def scenario(harness: SessionHarness) -> None:
        harness.caller.stop()  # no audio comes
        with anyio.move_on_after(60.0):
            await harness.session.telephony.answered_by()
        assert harness.recording.of(CallAnsweredBy) == []

    waiting_call().run(scenario)


# --- a model


def judging(*kinds: str) -> ScriptedLLM:
    return ScriptedLLM(*(f'{{"answered_by": "{kind}"}}' for kind in kinds))


def asked_about(request: GenerateRequest) -> str:
    [message] = request.context.items
    assert isinstance(message, ChatMessage)
    return message.content


OFFICE = "good morning smith and sons this is anna speaking how can i help you"


def test_a_model_judges_the_words_in_place_of_length_and_phrases() -> None:
    model = judging("human")
    assert verdict_of(a_call((OFFICE, 1.0, 5.0), llm_of=model)) == ("human", "model", 6.2)
    [request] = model.requests
    assert OFFICE in asked_about(request)
    assert verdict_of(a_call((VOICEMAIL, 1.0, 5.0), llm_of=judging("unavailable"))) == ("unavailable", "model", 6.2)


def test_a_model_is_not_asked_about_silence() -> None:
    assert verdict_of(a_call(llm_of=judging())) == ("unknown", "silence", 5.0)


def test_a_model_that_fails_or_is_late_or_gives_no_judgement_leaves_it_to_the_rules() -> None:
    def failed(llm: ScriptedLLM, **options: Any) -> tuple[str, str, float]:
        harness = a_call((VOICEMAIL, 1.0, 5.0), llm_of=llm, **options)
        [error] = harness.recording.of(ErrorOccurred)
        assert (error.source, error.is_recovered) == ("telephony", True)
        return verdict_of(harness)

    failing = ScriptedLLM([ProviderError("down", provider="scripted")])
    assert failed(failing) == ("machine", "phrase", 6.2)
    late = ScriptedLLM(default='{"answered_by": "human"}', delay=10.0)
    assert failed(late, llm_limit=2.0) == ("machine", "phrase", 8.2)
    assert failed(late, limit=7.0) == ("machine", "phrase", 7.0)
    assert failed(ScriptedLLM("Hm.")) == ("machine", "phrase", 6.2)


def test_a_model_is_asked_anew_when_the_greeting_goes_on() -> None:
    model = ScriptedLLM('{"answered_by": "human"}', '{"answered_by": "machine"}', delay=0.8)
    harness = a_call(("hi this is ann", 1.0, 2.0), ("speak now", 3.0, 4.0), llm_of=model)
    assert verdict_of(harness)[:2] == ("machine", "model")
    assert "hi this is ann speak now" in asked_about(model.requests[-1])


def test_the_model_s_tokens_count_as_the_session_s() -> None:
    model = ScriptedLLM(['{"answered_by": "machine"}', Usage(input_tokens=90, output_tokens=7)])
    usage = a_call((OFFICE, 1.0, 5.0), llm_of=model).session.usage
    assert (usage.llm_input_tokens, usage.llm_output_tokens) == (90, 7)


# --- what is wrong


@pytest.mark.parametrize(
    "wrong",
    [
        {"limit": 0},
        {"no_speech": -1.0},
        {"max_greeting": "2"},
        {"answers": "human"},
        {"answers": ("robot",)},
        {"llm": "gpt"},
        {"llm_limit": None},
    ],
)
def test_wrong_options_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        MachineDetection(**wrong)


def test_a_pipeline_that_hears_nothing_is_refused() -> None:
    options = SessionOptions(telephony=TelephonyOptions(machine_detection=MachineDetection()))
    with pytest.raises(CapabilityError, match="machine_detection"):
        AgentSession(Agent("Write."), SilentPipeline(), options=options)


def test_a_session_without_detection_says_how_to_get_it() -> None:
    async def scenario(harness: SessionHarness) -> None:
        with pytest.raises(ConfigurationError, match=r"TelephonyOptions\(machine_detection=MachineDetection\(\)\)"):
            await harness.session.telephony.answered_by()
        with pytest.raises(ConfigurationError, match="limit"):
            await harness.session.telephony.wait_for_beep(0)

    SessionHarness(Agent("Call."), options=SessionOptions(telephony=TelephonyOptions())).run(scenario)


# --- the beep


def tone(frequency: float, seconds: float) -> AudioFrame:
    times = np.arange(round(seconds * 16000)) / 16000
    return AudioFrame((8000 * np.sin(2 * np.pi * frequency * times)).astype(np.int16).tobytes(), 16000)


class Messenger(Agent):
    """Leaves a message after the beep."""

    def __init__(self, **wait: float) -> None:
        super().__init__("Call.")
        self.wait = wait
        self.ends: list[str] = []

    async def on_enter(self) -> None:
        verdict = await self.session.telephony.answered_by()
        if verdict.kind == "machine":
            end = await self.session.telephony.wait_for_beep(**self.wait)
            self.ends.append(end)
            await self.session.say("Call back please.")


def beeps(harness: SessionHarness, frequency: float, start: float, end: float) -> None:
    harness.caller.plays(tone(frequency, end - start), start)


def a_voicemail(agent: Agent, *, greets: tuple[float, float] = (0.4, 3.0)) -> SessionHarness:
    telephony = TelephonyOptions(machine_detection=MachineDetection())
    harness = SessionHarness(agent, ScriptedLLM(), options=SessionOptions(telephony=telephony))
    harness.caller.says(VOICEMAIL, *greets)
    return harness


def test_a_message_is_spoken_after_the_beep() -> None:
    harness = a_voicemail(Messenger())
    beeps(harness, 1000.0, 5.0, 5.4)
    harness.run(until=12.0, waits_for_start=False)
    assert verdict_of(harness) == ("machine", "phrase", 4.2)
    assert [text for role, text in harness.messages if role == "assistant"] == ["Call back please."]
    assert 5.5 <= harness.played[0][0] < 6.0


def test_a_beep_is_a_verdict_and_counts_for_the_wait_that_begins_later() -> None:
    agent = Messenger()
    harness = a_voicemail(agent, greets=(0.4, 1.0))
    beeps(harness, 1400.0, 1.2, 1.4)
    harness.run(until=12.0, waits_for_start=False)
    assert verdict_of(harness) == ("machine", "beep", 1.5)
    assert agent.ends == ["beep"]
    assert harness.played[0][0] < 2.0


def test_the_tones_of_the_network_are_an_announcement() -> None:
    harness = a_voicemail(Messenger(), greets=(2.0, 5.0))
    for number, frequency in enumerate((950.0, 1400.0, 1800.0)):
        beeps(harness, frequency, 0.4 + 0.34 * number, 0.4 + 0.34 * (number + 1) - 0.02)
    harness.run(until=8.0)
    assert verdict_of(harness)[:2] == ("unavailable", "tones")


@pytest.mark.parametrize(
    ("wait", "frequency", "expected"), [({}, 0.0, "silence"), ({"limit": 1.0}, 0.0, "limit"), ({}, 425.0, "silence")]
)
def test_a_wait_without_a_beep_ends(wait: dict[str, float], frequency: float, expected: str) -> None:
    agent = Messenger(**wait)
    harness = a_voicemail(agent)
    if frequency:
        beeps(harness, frequency, 5.0, 5.5)
    harness.run(until=20.0, waits_for_start=False)
    assert agent.ends == [expected]


def test_a_voicemail_that_speaks_on_is_waited_for() -> None:
    agent = Messenger()
    harness = a_voicemail(agent)
    harness.caller.says("you may press a key", 5.0, 9.0)
    beeps(harness, 620.0, 10.0, 11.0)
    harness.run(until=20.0, waits_for_start=False)
    assert agent.ends == ["beep"]
    assert harness.played[0][0] >= 11.0


# --- another session continues the call


def test_a_call_that_was_judged_is_not_judged_again_after_a_crash() -> None:
    before = a_call((VOICEMAIL, 1.0, 6.0))
    harness = waiting_call()
    harness.resume_from = before.session.snapshot()
    harness.caller.says("more words of the greeting", 1.0, 3.0)
    harness.run(until=8.0)
    assert harness.recording.of(CallAnsweredBy) == []
    assert harness.played == []


# --- a model whose server decides turns


def test_the_answer_of_a_model_s_server_waits_for_the_verdict_too() -> None:
    model = ScriptedRealtimeModel()
    telephony = TelephonyOptions(machine_detection=MachineDetection())
    harness = SessionHarness(Agent("Call."), model=model, options=SessionOptions(telephony=telephony))
    harness.caller.says("hello", 1.0, 1.6)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.8)
        model.start_reply("Good day.")

    harness.run(scenario, until=8.0)
    assert verdict_of(harness)[0] == "human"
    assert harness.played[0][0] >= harness.recording.of(CallAnsweredBy)[0].at


def test_the_answer_of_a_model_s_server_to_a_machine_is_not_heard() -> None:
    model = ScriptedRealtimeModel()
    telephony = TelephonyOptions(machine_detection=MachineDetection())
    harness = SessionHarness(Agent("Call."), model=model, options=SessionOptions(telephony=telephony))
    harness.caller.says(VOICEMAIL, 1.0, 4.0)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(4.4)
        model.start_reply("Good day.")

    harness.run(scenario, until=8.0)
    assert verdict_of(harness)[0] == "machine"
    assert harness.played == []
