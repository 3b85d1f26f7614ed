"""The application's own judgement: when the caller takes the floor, and which words are only a backchannel."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kit.turn import Conversation
from vivavoce.agents.turn import effects as fx
from vivavoce.agents.turn import inputs as i
from vivavoce.agents.turn.options import InterruptionOptions, TurnOptions
from vivavoce.agents.turn.policy import Decision, InterruptionMoment
from vivavoce.agents.turn.trace.codec import opaque_parts
from vivavoce.agents.turn.trace.record import TURN


class Policy:
    """Answers by a function and records its questions."""

    def __init__(self, answer: Callable[[InterruptionMoment], object] = lambda moment: moment.default) -> None:
        self._answer = answer
        self.asked: list[InterruptionMoment] = []

    def decide(self, moment: InterruptionMoment) -> Decision:
        self.asked.append(moment)
        return self._answer(moment)  # type: ignore[return-value]  # nonsense too


def talk_with(answer: Callable[[InterruptionMoment], object], **options: object) -> Conversation:
    return Conversation(mode=Policy(answer), **options).speaking()  # type: ignore[arg-type]


def failures(talk: Conversation) -> list[tuple[str, str]]:
    return [(effect.option, effect.problem) for effect in talk.effects if isinstance(effect, fx.PolicyFailed)]


def test_it_is_told_all_that_is_known_of_the_moment() -> None:
    policy = Policy()
    talk = Conversation(mode=policy).speaking().starts(2.0).at(2.6, i.UserInterim(text="wait")).stops(2.7)
    talk.at(2.95, i.UserFinal(text="wait stop")).until(4.0)
    assert policy.asked == [
        InterruptionMoment(
            trigger="speech",
            text="",
            is_final=True,
            is_stable=True,
            is_backchannel=False,
            speech_seconds=0.5,
            is_speaking=True,
            agent_seconds=1.5,
            is_paused=False,
            default="pause",
        ),
        InterruptionMoment(
            trigger="words",
            text="wait",
            is_final=False,
            is_stable=False,
            is_backchannel=False,
            speech_seconds=0.6,
            is_speaking=True,
            agent_seconds=1.6,
            is_paused=True,
            default="pause",
        ),
        InterruptionMoment(
            trigger="words",
            text="wait",
            is_final=False,
            is_stable=True,
            is_backchannel=False,
            speech_seconds=0.7,
            is_speaking=True,
            agent_seconds=1.8,
            is_paused=True,
            default="interrupt",
        ),
    ]
    assert talk.take()[:2] == [(2.5, "pause", "talk"), (2.8, "interrupted", "talk")]


@pytest.mark.parametrize(
    ("decision", "expected"),
    [
        ("ignore", []),
        ("pause", [(2.5, "pause", "talk")]),
        ("interrupt", [(2.5, "interrupted", "talk")]),
    ],
)
def test_speech_of_min_duration_is_judged_once(decision: Decision, expected: list[tuple[object, ...]]) -> None:
    assert talk_with(lambda _: decision).starts(2.0).until(4.0).take() == expected


def test_words_may_be_ignored_to_the_end_and_are_kept_as_an_aside() -> None:
    talk = talk_with(lambda _: "ignore").says("what a day", 2.0, 3.0).until(6.0)
    assert talk.take() == [(3.4, "aside", "turn_1", "what a day")]


@pytest.mark.parametrize("decision", ["pause", "interrupt"])
def test_at_the_end_of_a_turn_whoever_is_not_ignored_has_the_floor(decision: Decision) -> None:
    talk = talk_with(lambda moment: decision if moment.trigger == "end_of_turn" else "ignore")
    talk.says("mhm", 2.0, 2.3).until(5.0)
    assert talk.take()[:2] == [(2.7, "interrupted", "talk"), (2.7, "commit", "turn_1", "mhm")]


def test_a_guess_may_be_enough_to_cut() -> None:
    talk = talk_with(lambda moment: "interrupt" if "stop" in moment.text else "ignore")
    talk.starts(2.0).at(2.2, i.UserInterim(text="well")).at(2.3, i.UserInterim(text="stop"))
    assert talk.take() == [(2.3, "interrupted", "talk")]


def test_words_may_pause_the_agent_which_goes_on_after_false_timeout() -> None:
    talk = talk_with(lambda moment: "pause" if moment.trigger == "words" else "ignore", detector_timeout=1.0)
    talk.starts(2.0).stops(2.2).at(2.5, i.UserFinal(text="hm hm")).at(2.6, i.UserTurnPredicted(False)).until(6.0)
    assert talk.take() == [
        (2.5, "pause", "talk"),
        (2.5, "predict", "hm hm"),
        (3.5, "resume", "talk", "false interruption"),
        (5.2, "aside", "turn_1", "hm hm"),
    ]


def test_without_a_vad_words_may_pause_the_agent_too() -> None:
    talk = talk_with(lambda moment: "pause" if moment.trigger == "words" else "ignore")
    talk.at(2.0, i.UserInterim(text="hm hm")).at(2.1, i.UserInterim(text="")).until(5.0)
    assert talk.take() == [
        (2.0, "pause", "talk"),
        (3.0, "resume", "talk", "false interruption"),
        (3.1, "drop", "turn_1", "transcript_missing"),
    ]


def test_a_paused_agent_may_be_let_go_on_while_the_caller_still_sounds() -> None:
    talk = talk_with(lambda moment: "ignore" if moment.text else "pause").starts(2.0)
    talk.at(3.0, i.UserInterim(text="so I told her")).until(4.0)
    assert talk.take() == [(2.5, "pause", "talk"), (3.0, "resume", "talk", "false interruption")]


def test_without_a_vad_a_paused_agent_may_be_let_go_on() -> None:
    talk = talk_with(lambda moment: "ignore" if "told" in moment.text else "pause")
    talk.at(2.0, i.UserInterim(text="so I")).at(2.3, i.UserInterim(text="so I told her"))
    assert talk.take() == [(2.0, "pause", "talk"), (2.3, "resume", "talk", "false interruption")]


@pytest.mark.parametrize(("decision", "effect"), [("pause", "resume"), ("interrupt", "interrupted")])
def test_when_the_pause_has_lasted_for_too_long_it_is_asked_again(decision: Decision, effect: str) -> None:
    talk = talk_with(lambda moment: decision if moment.is_paused else "pause", max_pause=2.0).starts(2.0).until(6.0)
    assert [entry[:2] for entry in talk.take()] == [(2.5, "pause"), (4.0, effect), (4.0, "drop")]


def test_it_is_not_asked_about_a_protected_speech_nor_about_an_answer_that_nobody_has_heard() -> None:
    policy = Policy(lambda _: "ignore")
    talk = Conversation(mode=policy).speaking(interruptible=False).says("stop", 2.0, 3.0).until(4.0)
    talk.at(4.0, i.UserInterim(text="now")).played(5.0)
    assert policy.asked == []
    talk = Conversation(mode=policy).says("a table", 0.5, 1.0).says("for two", 1.6, 2.4).until(4.0)
    assert [entry[1] for entry in talk.take()] == ["commit", "grant", "pause", "withdraw", "merge", "grant"]
    assert policy.asked == []


@pytest.mark.parametrize(
    "answers",
    [
        lambda talk: talk.says("wait stop", 2.0, 2.6),
        lambda talk: talk.says("stop", 2.0, 2.2),
        lambda talk: talk.starts(2.0).stops(3.0),
        lambda talk: talk.says("Yeah, okay.", 2.0, 2.8, final_at=3.2),
        lambda talk: talk.starts(2.0).at(2.7, i.UserFinal(text="okay")).stops(2.8),
        lambda talk: talk.at(2.0, i.UserFinal(text="wait")),
        lambda talk: talk.starts(2.0).at(2.3, i.UserFinal(text="wait")).stops(3.0),
    ],
)
def test_who_answers_the_default_changes_nothing(answers: Callable[[Conversation], Conversation]) -> None:
    plain, judged = Conversation().speaking(), Conversation(mode=Policy()).speaking()
    assert answers(judged).until(8.0).take() == answers(plain).until(8.0).take()


def test_one_that_raises_is_overruled_by_the_default_and_told() -> None:
    def fail(_: InterruptionMoment) -> object:
        raise KeyError("secret words")

    talk = talk_with(fail).says("wait stop", 2.0, 2.6)
    assert [entry for entry in talk.take() if entry[1] != "PolicyFailed"] == [
        (2.5, "pause", "talk"),
        (2.8, "interrupted", "talk"),
    ]
    assert failures(talk) == [("mode", "KeyError")] * 2
    failed = next(effect for effect in talk.effects if isinstance(effect, fx.PolicyFailed))
    assert "in fail" in failed.details
    assert "secret" not in repr(failed)


def test_one_that_answers_nonsense_is_overruled_by_the_default_and_told() -> None:
    talk = talk_with(lambda _: None).starts(2.0).until(3.0)
    assert talk.take()[-1] == (2.5, "pause", "talk")
    assert failures(talk) == [("mode", "needed one of ('ignore', 'pause', 'interrupt'), got None")]


def test_backchannels_may_be_judged_by_a_function_asked_once_for_the_same_words() -> None:
    asked: list[str] = []

    def is_laugh(text: str) -> bool:
        asked.append(text)
        return set(text) <= set("ha ")

    talk = Conversation(backchannels=is_laugh).speaking().says("ha ha", 2.0, 2.8).until(5.0)
    assert talk.take()[-1] == (3.2, "aside", "turn_1", "ha ha")
    assert asked == ["ha ha"]
    assert talk.says("okay", 6.0, 6.8).take()[-1] == (7.0, "interrupted", "talk")


def test_where_the_function_fails_all_words_take_the_floor() -> None:
    def fail(_: str) -> bool:
        raise ValueError("no")

    talk = Conversation(backchannels=fail).speaking().says("okay", 2.0, 2.8)
    assert talk.take()[-1] == (3.0, "interrupted", "talk")
    assert failures(talk) == [("backchannels", "ValueError")]


class Late:
    async def decide(self, moment: InterruptionMoment) -> Decision:
        return moment.default


async def judge_late(text: str) -> bool:
    return bool(text)


@pytest.mark.parametrize(
    "options", [{"mode": "patient"}, {"mode": Late()}, {"backchannels": judge_late}, {"backchannels": "mhm"}]
)
def test_what_can_never_judge_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        InterruptionOptions(**options)  # type: ignore[arg-type]


def test_a_trace_names_the_policies_that_it_cannot_hold() -> None:
    options = TurnOptions(interruption=InterruptionOptions(mode=Policy(), backchannels=bool))
    named = opaque_parts(TURN.encode(options), "options")
    assert [part.split(":")[0] for part in named] == ["options.interruption.mode", "options.interruption.backchannels"]


@pytest.mark.parametrize(("seconds", "default"), [(0.3, "ignore"), (0.5, "interrupt"), (0.9, "interrupt")])
def test_words_of_speech_that_was_long_enough_would_interrupt_though_nothing_was_paused(
    seconds: float, default: Decision
) -> None:
    policy = Policy(lambda moment: "ignore")
    Conversation(mode=policy).speaking().starts(2.0).at(2.0 + seconds, i.UserFinal(text="stop"))
    assert [moment.default for moment in policy.asked if moment.trigger == "words"] == [default]


def test_a_guess_at_more_words_would_not_interrupt_even_behind_words_that_were_ignored() -> None:
    policy = Policy(lambda moment: "ignore")
    talk = Conversation(mode=policy).speaking().starts(2.0).at(2.6, i.UserFinal(text="stop"))
    talk.at(2.8, i.UserInterim(text="and"))
    moments = [(moment.text, moment.is_final, moment.default) for moment in policy.asked if moment.trigger == "words"]
    assert moments[0][1:] == (True, "interrupt")
    assert moments[-1][1:] == (False, "ignore")


def test_how_long_the_agent_has_sounded_is_told_to_the_microsecond() -> None:
    policy = Policy()
    for onset in (2.000004, 2.0000004):
        Conversation(mode=policy).speaking().starts(onset).until(3.0)
    assert [moment.agent_seconds for moment in policy.asked] == [1.500004, 1.5]


@pytest.mark.parametrize("has_vad", [False, True])
def test_a_policy_is_told_no_seconds_of_speech_before_any_voice_is_known(has_vad: bool) -> None:
    """Without a VAD, and within the time that the VAD needs to notice silence."""
    policy = Policy()
    talk = Conversation(mode=policy, voice_lag=0.5).speaking()
    if has_vad:
        talk.starts(2.0)
    talk.at(2.2, i.UserInterim(text="wait"))
    assert [moment.speech_seconds for moment in policy.asked] == [0.0]


def test_it_is_not_asked_about_a_speech_that_waits_for_its_tools() -> None:
    policy = Policy(lambda _: "interrupt")
    talk = Conversation(mode=policy).speaking().at(1.5, i.ToolsAwaited("talk")).says("mhm", 2.0, 2.3).until(5.0)
    assert talk.take() == [(2.7, "aside", "turn_1", "mhm")]
    assert policy.asked == []


def test_words_that_are_ignored_in_a_pause_make_their_speech_mean_nothing_to_the_end() -> None:
    talk = talk_with(lambda moment: "ignore" if moment.trigger == "words" else "pause")
    talk.starts(2.0).at(2.8, i.UserInterim(text="well")).until(4.5)
    assert talk.take() == [(2.5, "pause", "talk"), (2.8, "resume", "talk", "false interruption")]


def test_a_speech_that_only_begins_to_sound_has_sounded_for_no_time() -> None:
    policy = Policy()
    talk = Conversation(mode=policy).asks(0.5, "talk").at(1.0, i.PlayoutStarted("talk", 1.5))
    talk.at(1.2, i.UserInterim(text="wait"))
    assert [moment.agent_seconds for moment in policy.asked] == [0.0]
