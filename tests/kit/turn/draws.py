"""Draws for the laws of the turn machine: options, policies, waits, and inputs that depend on nothing else."""

from __future__ import annotations

from dataclasses import replace

import hypothesis.strategies as st

from vivavoce.agents.turn import inputs as i
from vivavoce.agents.turn.options import EndpointingOptions, InterruptionOptions, PipelineTraits, TurnOptions, WakeUp
from vivavoce.agents.turn.policy import Decision, InterruptionMoment


class Moody:
    """Decides this and that, or fails, but the same for the same moment."""

    def decide(self, moment: InterruptionMoment) -> Decision:
        mood = len(moment.text) + round(10 * (moment.speech_seconds + moment.agent_seconds))
        if mood % 5 == 4:
            raise ValueError("not today")
        moods: tuple[Decision, ...] = ("ignore", "pause", "interrupt", moment.default)
        return moods[mood % 5]


class Obedient:
    """Decides as if it were not there."""

    def decide(self, moment: InterruptionMoment) -> Decision:
        return moment.default


def obedient(options: InterruptionOptions) -> InterruptionOptions:
    """Return the same options, with a policy that decides as if it were not there in place of "pause"."""
    return replace(options, mode=Obedient()) if options.mode == "pause" else options


DELAYS = st.one_of(st.sampled_from([0.0, 0.05, 0.2, 0.3, 0.4, 0.5, 1.0, 3.0]), st.floats(0, 4))
ENDPOINTING = st.builds(
    EndpointingOptions,
    mode=st.sampled_from(["fixed", "fixed", "dynamic", "manual"]),
    max_delay=st.sampled_from([1.2, 3.0]),
    transcript_timeout=st.sampled_from([0.3, 1.0]),
    no_words=st.sampled_from([0.5, 3.0]),
    max_turn_words=st.sampled_from([None, None, 2]),
    max_turn_duration=st.sampled_from([None, None, 2.0]),
)
INTERRUPTION = st.builds(
    InterruptionOptions,
    enabled=st.sampled_from([True, True, True, False]),
    mode=st.sampled_from(["pause", "pause", "immediate", Moody()]),
    min_duration=st.sampled_from([0.0, 0.5]),
    min_words=st.sampled_from([0, 0, 2]),
    false_timeout=st.sampled_from([0.0, 1.0]),
    max_pause=st.sampled_from([None, 1.0, 5.0]),
    thinking_min_duration=st.sampled_from([0.0, 0.3]),
    stable_interim=st.sampled_from([0.0, 0.2]),
    echo_warm_up=st.sampled_from([0.0, 0.0, 3.0]),
    backchannels=st.just(frozenset({"b"})),
)
OPTIONS = st.builds(
    TurnOptions,
    endpointing=ENDPOINTING,
    interruption=INTERRUPTION,
    traits=st.builds(
        PipelineTraits,
        detector_timeout=st.sampled_from([None, 1.0]),
        remote_decides=st.sampled_from([False, False, True]),
        recogniser_decides=st.sampled_from([False, False, True]),
        hears_audio=st.sampled_from([False, False, True]),
        voice_lag=st.sampled_from([0.0, 0.06, 0.5]),
        emits_interims=st.sampled_from([True, True, False]),
        max_attempts=st.sampled_from([0, 1, 3]),
    ),
    max_errors=st.integers(1, 3),
    wake_up=st.builds(
        WakeUp,
        after=st.sampled_from([0.5, 3.0, 10.0]),
        repeat=st.integers(1, 3),
        backoff=st.sampled_from([1.0, 1.5]),
        then=st.sampled_from([None, "close", "hangup"]),
    )
    | st.none(),
    away_after=st.sampled_from([None, 2.0, 15.0]),
)
DECISIONS = st.sampled_from(
    [
        i.Tick(),
        i.SessionStarted(),
        i.UserInterim(text=""),
        i.TextReceived(" "),
        i.UserTurnPredicted(True),
        i.UserTurnPredicted(False),
        i.UserTurnEndedEagerly(),
        i.UserTurnEndedEagerly(),
        i.UserTurnResumed(),
        i.UserTurnEnded(),
        i.RecogniserLost(),
        i.RecogniserBack(),
        i.RecogniserReplaced(),
        i.RemoteReplyCancelled(),
        i.TurnCommitRequested(),
        i.UserAudioStopped(),
        i.TurnClearRequested(),
        i.ParticipantLeft(1.0),
        i.ParticipantLeft(None),
        i.ParticipantLinked(),
        i.ParticipantLinked(),
        i.ToolsRunning(True),
        i.ToolsRunning(False),
        i.WakeUpChanged(WakeUp(after=4.0, repeat=2)),
        i.WakeUpChanged(None),
        i.WakeUpPaused(),
        i.WakeUpResumed(),
        i.WakeUpReset(),
        i.SpeechWithheld(True),
        i.SpeechWithheld(False),
        i.CallerHeld(True),
        i.CallerHeld(False),
        i.CallerHeld(False),
    ]
)
TELLING = ["final", "backchannel", "final of the interim", "interim", "typed", "nothing", "past", "past of the interim"]
TOOLS_AND_HANDOFFS = [
    i.ToolsStarted,
    i.ToolsAwaited,
    i.ToolsFinished,
    i.ToolCallSettled,
    i.HandoffRequested,
    i.HandoffReady,
    i.HandoffEnded,
]
