"""A conversation for the turn machine's tests: inputs at explicit times, deadlines kept, effects as short tuples."""

from __future__ import annotations

from typing import Any

from vivavoce.agents.turn import effects as fx
from vivavoce.agents.turn import inputs as i
from vivavoce.agents.turn.machine import TurnMachine
from vivavoce.agents.turn.options import EndpointingOptions, InterruptionOptions, PipelineTraits, TurnOptions

REPORT_DELAY = 0.2
"""Seconds of silence after which the VAD reports the end of speech."""

KINDS: tuple[tuple[str, Any], ...] = (
    ("interruption", InterruptionOptions),
    ("endpointing", EndpointingOptions),
    ("traits", PipelineTraits),
)
"""The parts of `TurnOptions` whose fields a `Conversation` takes by their own names."""


class Conversation:
    """Feeds a machine in order of time. `log` holds its effects, each with its time; states are apart.

    Args:
        endpointing_mode: `EndpointingOptions.mode`; `mode` is the mode of the interruption.
        options: Fields of the three option classes.
    """

    def __init__(self, *, is_started: bool = True, endpointing_mode: str = "fixed", **options: Any) -> None:
        fields = {name: dict[str, Any]() for name in ("endpointing", "interruption", "traits", "turn")}
        fields["endpointing"]["mode"] = endpointing_mode
        for name, value in options.items():
            owner = next(
                (part for part, kind in KINDS if name in kind.__dataclass_fields__),
                "turn",
            )
            fields[owner][name] = value
        self.machine = TurnMachine(
            TurnOptions(
                endpointing=EndpointingOptions(**fields["endpointing"]),
                interruption=InterruptionOptions(**fields["interruption"]),
                traits=PipelineTraits(**fields["traits"]),
                **fields["turn"],
            )
        )
        self.reports_edges = True
        """Whether the VAD reports pauses of the voice."""
        self.now = 0.0
        self.log: list[tuple[Any, ...]] = []
        self.effects: list[fx.Effect] = []
        self.pipelines: list[tuple[Any, ...]] = []
        """The pipelines that were opened or lost."""
        self.forgotten: list[tuple[float, str, str]] = []
        """The speeches that are over: time, id and outcome."""
        self.agent_states: list[tuple[str, float]] = []
        self.user_states: list[tuple[str, float]] = []
        if is_started:
            self.at(0.0, i.SessionStarting(), i.SessionStarted())
            self.agent_states.clear()

    def at(self, now: float, *events: i.TurnInput) -> Conversation:
        """Let time pass until `now`, then feed `events`."""
        while (deadline := self.machine.next_deadline()) is not None and deadline < now:
            self.now = deadline
            self._feed(i.Tick())
        self.now = now
        for event in events:
            self._feed(event)
        return self

    def until(self, now: float) -> Conversation:
        """Let time pass until `now`, and handle due deadlines."""
        return self.at(now, i.Tick())

    def starts(self, at: float) -> Conversation:
        """The user begins to speak, reported 0.05 later."""
        return self.at(at + 0.05, i.UserSpeechStarted(at))

    def stops(self, at: float) -> Conversation:
        """The user stopped speaking: the voice pauses at once, the end is reported later."""
        if self.reports_edges:
            self.at(at, i.UserVoicePaused(at))
        return self.at(at + REPORT_DELAY, i.UserSpeechEnded(at))

    def says(self, text: str, start: float, end: float, *, final_at: float | None = None) -> Conversation:
        """A burst of speech with its final, by default with the end's report."""
        self.starts(start).stops(end)
        return self.at(end + REPORT_DELAY if final_at is None else final_at, i.UserFinal(text=text))

    def asks(
        self,
        now: float,
        speech_id: str,
        kind: i.SpeechKind = "say",
        *,
        interruptible: bool = True,
        priority: int = 0,
        when_busy: i.WhenBusy = "queue",
        by_hook: bool = False,
    ) -> Conversation:
        """The application calls `say()` or `reply()`."""
        return self.at(
            now,
            i.SpeechRequested(
                speech_id=speech_id,
                kind=kind,
                interruptible=interruptible,
                priority=priority,
                when_busy=when_busy,
                by_hook=by_hook,
            ),
        )

    def plays(self, now: float, speech_id: str = "") -> Conversation:
        """Play the first frame of the speech that has the floor."""
        self.at(now)
        return self.at(now, i.PlayoutStarted(speech_id or self.machine.current_speech_id, now))

    def played(self, now: float, *, is_last: bool = True) -> Conversation:
        """The last frame of a step is played; after the last step the speech ends."""
        self.at(now)
        speech_id = self.machine.current_speech_id
        self.at(now, i.PlayoutFinished(speech_id, now, is_last))
        return self.at(now, i.SpeechEnded(speech_id, "completed")) if is_last else self

    def speaking(self, speech_id: str = "talk", *, interruptible: bool = True) -> Conversation:
        """The agent speaks from 1.0 on."""
        self.asks(0.5, speech_id, interruptible=interruptible).plays(1.0)
        self.log.clear()
        return self

    def take(self) -> list[tuple[Any, ...]]:
        """Return the effects since the last call."""
        log, self.log = self.log, []
        return log

    def _feed(self, event: i.TurnInput) -> None:
        for effect in self.machine.handle(event, now=self.now):
            self.effects.append(effect)
            match effect:
                case fx.SetAgentState():
                    self.agent_states.append((effect.state.value, round(effect.at, 6)))
                case fx.SetUserState():
                    self.user_states.append((effect.state.value, round(effect.at, 6)))
                case fx.TakeFloorBack():  # a speech's report led to it
                    pass
                case fx.OpenPipeline():
                    self.pipelines.append((round(self.now, 6), "open", effect.change_id, effect.pipeline))
                case fx.ReportLoss():
                    kept = "keeps audio" if effect.keeps_audio else ""
                    goes_on = "goes on" if effect.goes_on else ""
                    self.pipelines.append((round(self.now, 6), "lost", effect.pipeline, goes_on, kept))
                case fx.ForgetSpeech():
                    self.forgotten.append((round(self.now, 6), effect.speech_id, effect.outcome))
                case _:
                    self.log.append((round(self.now, 6), *_short(effect)))


def _short(effect: fx.Effect) -> tuple[str | int, ...]:
    match effect:
        case fx.CommitUserTurn():
            kind = "merge" if effect.merged else "commit"
            adopted = (effect.attempt_id,) if effect.attempt_id else ()
            return (kind, effect.turn_id, effect.text, *adopted)
        case fx.AmendUserTurn():
            return ("amend", effect.turn_id, effect.text)
        case fx.AddBackchannel():
            return ("aside", effect.turn_id, effect.text)
        case fx.DropUserTurn():
            return ("drop", effect.turn_id, effect.reason)
        case fx.CancelSpeech():
            return ("withdraw", effect.speech_id) if effect.is_withdrawn else (effect.outcome, effect.speech_id)
        case fx.AnswerHistory():
            return ("AnswerHistory", effect.speech_id, effect.turn_id)
        case fx.ResumeSpeech():
            return ("resume", effect.speech_id, "false interruption" if effect.is_false_interruption else "")
        case fx.InterruptCalls():
            return ("interrupt calls", effect.speech_id)
        case fx.GrantFloor() | fx.PauseSpeech() | fx.PrepareSpeech():
            return (type(effect).__name__.removesuffix("Speech").removesuffix("Floor").lower(), effect.speech_id)
        case fx.PredictEndOfTurn():
            return ("predict", effect.text)
        case fx.RefuseRemoteReply():
            return ("refuse", effect.remote_reply_id)
        case fx.StartAttempt():
            return ("attempt", effect.attempt_id, effect.turn_id, effect.text)
        case fx.DropAttempt():
            return ("throw away", effect.attempt_id)
        case fx.BeginHandoff():
            return ("hand off", effect.handoff_id)
        case fx.DropHandoff():
            return ("drop handoff", effect.handoff_id)
        case fx.TakePipeline():
            return ("take pipeline", effect.change_id)
        case fx.DropPipeline():
            return ("drop pipeline", effect.change_id, effect.reason)
        case fx.WakeUser():
            return ("wake up", effect.level)
        case fx.UserTurnLimitReached():
            return ("limit", effect.turn_id, effect.limit)
        case fx.CloseSession():
            return ("close", effect.reason)
        case fx.HangUp():
            return ("hang up",)
        case _:
            return (type(effect).__name__,)
