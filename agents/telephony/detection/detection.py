"""AnswerDetection: finds out who has answered the call of one session, and waits for the beep of a voicemail."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from vivavoce.agents.events import (
    CallAnsweredBy,
    HoldChanged,
    SpeechCreated,
    SpeechIn,
    UserStateChanged,
    UserTranscript,
)
from vivavoce.agents.states import AnsweredBy, BeepEnd, UserState
from vivavoce.agents.telephony.detection.judge import AnswerJudge, Judged
from vivavoce.agents.telephony.detection.line_tones import LineTone, line_tone
from vivavoce.agents.telephony.detection.model import ask_model
from vivavoce.agents.telephony.detection.verdict import CallVerdict
from vivavoce.agents.turn_records.turn_record import used_tokens
from vivavoce.pipelines.core.errors import ProviderError, ProviderTimeoutError
from vivavoce.pipelines.media.tone_detector import ToneDetector

if TYPE_CHECKING:
    from vivavoce.agents.core.speech_handle import SpeechHandle
    from vivavoce.agents.extension.extension import Host
    from vivavoce.agents.telephony.detection.options import MachineDetection
    from vivavoce.pipelines.llm.base import LLM, Usage

LINK_LOOK = 1.0
"""Seconds between two looks at whether the line has a caller who sends no audio."""
APPLICATION_FIRST = 0.05
"""Seconds from the verdict in which the application may ask for speech that takes the place of the model's answer."""

JUDGED_BY_TONE: dict[LineTone, Judged] = {
    "beep": Judged("machine", "beep"),
    "tones": Judged("unavailable", "tones"),
}


class _Detection:
    """One detection, from its begin to its verdict.

    Args:
        playing: The speeches that have begun before; it does not stop them.
        no_speech: Seconds without speech that end it.
    """

    def __init__(self, options: MachineDetection, playing: list[SpeechHandle], no_speech: float) -> None:
        self._options = options
        self.playing = playing
        self._no_speech = no_speech
        self.judge: AnswerJudge | None = None
        """None until the call is answered."""
        self.by_tone: Judged | None = None
        """The judgement of a tone of the line."""
        self.asked = ""
        """The transcript about which the model was asked last."""
        self._asking = anyio.CancelScope()
        self.verdict: CallVerdict | None = None
        self.judged_at = 0.0
        self.is_over = anyio.Event()
        self._has_spoken = False
        """Whether the application has asked for speech since the begin."""
        self._goes_on = False
        """Whether the other side has spoken since the verdict."""

    @property
    def may_be_greeting(self) -> bool:
        """Whether a turn may be the greeting: the other side has not spoken since the verdict."""
        return not self._goes_on

    def is_greeting(self, onset: float | None) -> bool:
        """Return whether a turn with that onset of speech is the greeting."""
        return self.may_be_greeting and onset is not None and onset <= self.judged_at

    @property
    def has_spoken(self) -> bool:
        """Whether the application has asked for speech since the begin."""
        return self._has_spoken

    def note_request(self) -> None:
        """Note that the application asks for speech."""
        self._has_spoken = True

    def go_on(self) -> None:
        """Note that the other side speaks."""
        self._goes_on = self.verdict is not None
        self.cut_question()

    def answered(self, now: float, *, is_speaking: bool) -> None:
        """Note that the call is answered."""
        self.judge = AnswerJudge(self._options, now, is_speaking=is_speaking, no_speech=self._no_speech)

    def take_tone(self, found: LineTone) -> None:
        """Judge by a tone of the line."""
        self.by_tone = JUDGED_BY_TONE[found]
        self.cut_question()

    def ask(self) -> anyio.CancelScope:
        """Return the scope of a question to the model, which `cut_question` cancels."""
        self._asking = anyio.CancelScope()
        return self._asking

    def cut_question(self) -> None:
        """Cancel the question to the model: there is more to judge."""
        self._asking.cancel()

    def note_asked(self, transcript: str) -> None:
        """Note that the model was asked about these words."""
        self.asked = transcript

    def restore(self, verdict: CallVerdict) -> None:
        """End with the verdict of a session before this one."""
        self.verdict, self._goes_on = verdict, True
        self.is_over.set()

    def settle(self, judged: Judged, now: float) -> CallVerdict:
        """End with that judgement."""
        judge, self.judged_at = self.judge, now
        self.verdict = CallVerdict(
            kind=judged.kind,
            reason=judged.reason,
            transcript="" if judge is None else judge.transcript,
            after=0.0 if judge is None else now - judge.answered_at,
        )
        self.is_over.set()
        return self.verdict


class AnswerDetection:
    """Finds out who has answered, by the events of the session's own VAD and recogniser, and by the frames they get.

    The agent's speech is withheld from `begin` to the verdict.

    Args:
        host: The session.
    """

    def __init__(self, host: Host, options: MachineDetection) -> None:
        self._host = host
        self._context = host.context
        self.options = options
        self._tones = ToneDetector()
        self._listens = False
        self._waiting = 0
        """The number of waits for a beep."""
        self._beeped_at: float | None = None
        """The time of a beep, behind which there was no speech."""
        self._speaking_since: float | None = None
        self._silent_since = 0.0
        self._news = anyio.Event()
        self._has_ended = False
        self._current: _Detection | None = None
        emitter = self._context.log.emitter
        emitter.on(UserStateChanged, self._state_changed)
        emitter.on(UserTranscript, self._heard)
        emitter.on(SpeechCreated, self._requested)
        emitter.on(HoldChanged, self._held)

    # --- for the application

    def begin(self) -> None:
        """Begin a detection, unless one goes on."""
        if self._has_ended or not (self._current is None or self._current.is_over.is_set()):
            return
        is_first = self._current is None  # later there may be a long silence: a telephone rings, a menu searches
        no_speech = self.options.no_speech if is_first else self.options.limit
        self._current = _Detection(self.options, self._host.speeches(), no_speech)
        self._beeped_at = None
        self._host.withhold_speech(True)
        self._listen()
        self._context.group.start_soon(self._run, self._current)

    async def verdict(self) -> CallVerdict:
        """Wait for the verdict of the detection that goes on, or return the last one."""
        assert self._current is not None, "begin() comes first"
        detection = self._current
        await detection.is_over.wait()
        assert detection.verdict is not None
        return detection.verdict

    async def beep(self, limit: float, silence: float) -> BeepEnd:
        """Wait for the beep of a voicemail, or for so long a silence behind its greeting."""
        began_at = self._context.clock.now()
        self._waiting += 1
        self._listen()
        try:
            with anyio.move_on_after(limit):
                while self._beeped_at is None and not self._has_ended:
                    news, quiet_for = self._news, float("inf")
                    if self._speaking_since is None:
                        quiet_for = max(self._silent_since, began_at) + silence - self._context.clock.now()
                    if quiet_for <= 0:
                        return "silence"
                    with anyio.move_on_after(quiet_for):
                        await news.wait()
                return "hung_up" if self._beeped_at is None else "beep"
            return "limit"
        finally:
            self._waiting -= 1
            self._listen()

    # --- for the session

    @property
    def last_verdict(self) -> CallVerdict | None:
        """The verdict that stands; None as long as one is to come."""
        return None if self._current is None else self._current.verdict

    def restore(self, verdict: CallVerdict) -> None:
        """Go on with the verdict of a session before this one."""
        self._current = _Detection(self.options, [], self.options.no_speech)
        self._current.restore(verdict)

    @property
    def is_deciding(self) -> bool:
        """Whether a verdict is to come, or the standing one lets no answer begin."""
        detection = self._current
        if detection is None or detection.verdict is None:
            return detection is not None
        return not self._answers(detection.verdict.kind) or detection.may_be_greeting

    async def takes_turn(self, onset: float | None) -> bool:
        """Wait for the verdict; return whether a turn of the other side gets an answer then.

        Args:
            onset: The onset of its speech; None for typed text.
        """
        detection = self._current
        if detection is None:
            return True
        await detection.is_over.wait()
        assert detection.verdict is not None
        if not self._answers(detection.verdict.kind):
            return False
        if not detection.is_greeting(onset):
            return True
        await anyio.sleep(APPLICATION_FIRST)
        return not detection.has_spoken

    def end(self) -> None:
        """Find out nothing more: the close begins."""
        self._has_ended = True
        if (detection := self._current) is not None and detection.verdict is None:
            self._settle(detection, Judged("unknown", "hung_up"))
        self._wake()
        self._listen()

    # --- the rules, in a task of the session

    async def _run(self, detection: _Detection) -> None:
        while detection.verdict is None:
            news, judge = self._news, detection.judge
            if judge is None:
                with anyio.move_on_after(LINK_LOOK):
                    await news.wait()
                if detection.judge is None and self._is_linked:
                    self._answered(detection)
                continue
            judged = detection.by_tone or judge.expire(self._context.clock.now())
            if judged is None:
                with anyio.move_on_after(max(0.0, judge.deadline - self._context.clock.now())):
                    await news.wait()
            elif (llm := self._model_for(detection, judge, judged)) is not None:
                await self._ask(detection, judge, llm)
            else:
                self._conclude(detection, judged)

    def _model_for(self, detection: _Detection, judge: AnswerJudge, judged: Judged) -> LLM | None:
        """Return the model that is to be asked before that judgement; None if none is."""
        is_new = bool(judge.transcript) and judge.transcript != detection.asked
        is_last = self._context.clock.now() >= judge.ends_at
        return self.options.llm if is_new and not (is_last or detection.by_tone) else None

    async def _ask(self, detection: _Detection, judge: AnswerJudge, llm: LLM) -> None:
        """Ask the model, until the other side goes on, or the limit has come; then the rules decide."""
        transcript, now = judge.transcript, self._context.clock.now()
        limit = min(self.options.llm_limit, judge.ends_at - now)
        kind: AnsweredBy | None = None
        with detection.ask() as asking:
            try:
                with anyio.move_on_after(limit):
                    kind = await ask_model(llm, transcript, self._count)
                if kind is None:
                    problem = f"the model gave no judgement of a greeting within {limit:g} s"
                    raise ProviderTimeoutError(problem, provider=llm.provider)
            except ProviderError as error:
                self._context.report_error(error, "telephony", is_recovered=True)
        if not asking.cancel_called:
            detection.note_asked(transcript)
            if kind is not None and detection.verdict is None:
                self._conclude(detection, Judged(kind, "model"))

    def _count(self, usage: Usage) -> None:
        self._context.add_usage(used_tokens(usage), "llm", usage.made_by)

    def _conclude(self, detection: _Detection, judged: Judged) -> None:
        if not self._answers(judged.kind):  # speech that was meant for a human; turns are dropped
            for speech in self._of_application(detection):
                speech.interrupt(force=True)
        self._host.withhold_speech(False)
        self._settle(detection, judged)
        self._context.inbox.wake()
        self._listen()

    def _settle(self, detection: _Detection, judged: Judged) -> None:
        verdict = detection.settle(judged, self._context.clock.now())
        self._context.log.note(
            CallAnsweredBy,
            kind=verdict.kind,
            reason=verdict.reason,
            transcript=verdict.transcript,
            after=verdict.after,
        )

    def _of_application(self, detection: _Detection) -> list[SpeechHandle]:
        """Return the speeches that the application has asked for since the detection began."""
        return [one for one in self._host.speeches() if one.kind != "turn" and one not in detection.playing]

    def _answers(self, kind: AnsweredBy) -> bool:
        return kind in self.options.answers

    # --- what is heard

    def _going_on(self) -> tuple[_Detection, AnswerJudge] | None:
        """Return the detection that goes on, and its judge, once the call is answered."""
        detection = self._current
        if detection is None or detection.verdict is not None or detection.judge is None:
            return None
        return detection, detection.judge

    @property
    def _is_linked(self) -> bool:
        """Whether the line names a caller, who may send no audio."""
        transport = self._context.live.transport
        return transport is not None and transport.caller is not None

    def _answered(self, detection: _Detection) -> None:
        now = self._context.clock.now()
        detection.answered(now, is_speaking=self._speaking_since is not None)
        self._silent_since = max(self._silent_since, now)
        self._wake()

    def _frame(self, event: SpeechIn) -> None:
        """Take a frame: the first one is the answer to the call."""
        detection, now = self._current, self._context.clock.now()
        if detection is not None and detection.verdict is None and detection.judge is None:
            self._answered(detection)
        for row in self._tones.push(event.frame):
            if (found := line_tone(row)) is not None:
                self._beeped_at = now if found == "beep" else None
                if detection is not None and detection.verdict is None:
                    detection.take_tone(found)
                self._wake()

    def _state_changed(self, event: UserStateChanged) -> None:
        at, going_on = self._context.log.started_at + event.at, self._going_on()
        if event.state is UserState.SPEAKING:
            self._speaking_since = at
            if self._current is not None:
                self._current.go_on()
            if self._beeped_at is not None and at > self._beeped_at:  # else the beep itself may be the sound
                self._beeped_at = None
            if going_on is not None:
                going_on[1].speech_started(at)
        elif event.old is UserState.SPEAKING:
            self._speaking_since, self._silent_since = None, at
            if going_on is not None:
                going_on[1].speech_ended(at)
        self._wake()

    def _heard(self, event: UserTranscript) -> None:
        if event.is_final and (going_on := self._going_on()) is not None:
            detection, judge = going_on
            judge.heard(event.text, self._context.clock.now())
            detection.cut_question()
            self._wake()

    def _requested(self, event: SpeechCreated) -> None:
        if event.kind != "turn" and self._current is not None:
            self._current.note_request()

    def _held(self, event: HoldChanged) -> None:
        """Judge no more: the hold cuts what the other side says, and it would look like the end of a greeting."""
        if event.state != "talking" and (going_on := self._going_on()) is not None:
            self._conclude(going_on[0], Judged("unknown", "on_hold"))

    def _wake(self) -> None:
        news, self._news = self._news, anyio.Event()
        news.set()

    def _listen(self) -> None:
        """Take the caller's frames as long as a tone in them may matter."""
        detection = self._current
        is_open = detection is not None and (detection.verdict is None or detection.verdict.kind == "machine")
        wanted = (is_open or self._waiting > 0) and not self._has_ended
        if wanted is not self._listens:
            self._listens = wanted
            emitter = self._context.log.emitter
            (emitter.on if wanted else emitter.off)(SpeechIn, self._frame)
