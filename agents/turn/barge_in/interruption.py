"""Interruption: the user's speech holds the agent's speech, lets it continue, cuts it, or takes back an unheard
answer."""

from __future__ import annotations

from collections.abc import Iterator

from vivavoce.agents.turn.barge_in.guard import InterruptionGuard
from vivavoce.agents.turn.barge_in.policy_runner import PolicyRunner
from vivavoce.agents.turn.deadlines import NANOSECOND_DIGITS, Deadline
from vivavoce.agents.turn.effects import Effect, InterruptCalls
from vivavoce.agents.turn.floor.caller_floor import CallerFloor
from vivavoce.agents.turn.floor.floor import Floor
from vivavoce.agents.turn.floor.speech import Speech
from vivavoce.agents.turn.floor.stops import Stops
from vivavoce.agents.turn.options import InterruptionOptions
from vivavoce.agents.turn.options_in_use import OptionsInUse
from vivavoce.agents.turn.policy import Decision, InterruptionMoment, Trigger
from vivavoce.agents.turn.user.burst import Burst
from vivavoce.agents.turn.user.turn import UserTurn
from vivavoce.agents.turn.user.user_side import UserSide
from vivavoce.pipelines.core.words import count_words


class Interruption:
    """Decides the effect of the user's inputs on the speech that has the floor, and on speeches that wait behind it.

    Args:
        user: The user's side; its open turn is merged with the turn whose answer is taken back.
        out: Effects go here.
    """

    def __init__(
        self,
        options: OptionsInUse,
        floor: Floor,
        user: UserSide,
        guard: InterruptionGuard,
        caller: CallerFloor,
        stops: Stops,
        out: list[Effect],
    ) -> None:
        self._in_use = options
        self.caller = caller
        """The caller's claim to the floor, and the speech that the caller's words spare."""
        self._guard = guard
        self._floor = floor
        self._user = user
        self._stops = stops
        self._out = out
        self._policies = PolicyRunner(options.interruption, out)
        self._words_paused_at = float("-inf")
        self._calls_interrupted: tuple[str, set[str]] = ("", set())  # by the turn of that id

    @property
    def _options(self) -> InterruptionOptions:
        return self._in_use.interruption

    def take_agent(self) -> None:
        """Take the policies of another agent, which now has the conversation; release a held speech that no voice may
        hold any more."""
        self._policies.take_options(self._options)
        active = self._floor.active
        if active is not None and not (self._stops.is_caller_gone or self.may_cut(active)):
            self._stops.release(active)

    # --- judgements

    def may_cut(self, speech: Speech) -> bool:
        """Return whether the user's voice may hold or cut that speech."""
        return self._options.enabled and speech.interruptible and not self._guard.shields(speech)

    def takes_floor(self, text: str) -> bool:
        """Return whether these words are more than a sign of listening. If no speech was heard, all words are."""
        return self._are_words(text) if self._floor.was_heard else bool(text)

    def _are_words(self, text: str) -> bool:
        if not text or (self._options.min_words and count_words(text) < self._options.min_words):
            return False
        return not self._policies.is_backchannel(text)

    def is_only_sign(self, turn: UserTurn, now: float) -> bool:
        """Return whether the finished turn is only a backchannel to the agent's speech.

        Words that had to wait are judged when the wait is over.
        """
        is_sign = not self.takes_floor(turn.loud_text or turn.new_text)
        active = self._floor.active
        if not self._policies.has_policy or active is None or not active.is_playing:
            return is_sign
        return self._decide("end_of_turn", active, now, "ignore" if is_sign else "interrupt") == "ignore"

    def _decide(self, trigger: Trigger, active: Speech, now: float, default: Decision) -> Decision:
        """Return the policy's decision, or the default without a policy."""
        if not self._policies.has_policy:
            return default
        turn, burst = self._user.turn, self._user.burst
        text = "" if turn is None else turn.loud_text
        assert active.playing_since is not None
        return self._policies.decide(
            InterruptionMoment(
                trigger=trigger,
                text=text,
                is_final=turn is not None and not turn.interim,
                is_stable=turn is not None and (turn.is_interim_stable or not turn.interim),
                is_backchannel=bool(text) and self._policies.is_backchannel(text),
                speech_seconds=0.0 if burst is None else burst.voiced_seconds(now),
                is_speaking=self._user.is_speaking,
                agent_seconds=max(0.0, round(now - active.playing_since, 6)),
                is_paused=active.is_paused,
                default=default,
            )
        )

    # --- the user's inputs

    def speech_began(self) -> None:
        """Note that the user speaks: an answer that has not begun to sound is held back from the onset on."""
        active, burst = self._floor.active, self._user.burst
        if burst is not None and self.caller.is_noise:
            burst.ignore()
        if active is not None and burst is not None and not active.is_playing:
            self._hold_back(active, burst.started_at)

    def speech_stopped(self, now: float) -> None:
        """Note that the user is silent: after a short or meaningless sound the agent continues at once.

        Words of a short sound hold it until their turn is over; so do those that an interim shows, until they are
        settled.
        """
        active, burst, turn = self._floor.active, self._user.burst, self._user.turn
        if active is None or burst is None:
            return
        if active.paused_at is None:
            if turn is not None and active.is_playing:
                self._hold_for_words(turn, active, now)
            return
        active.count_hold(burst, burst.started_at)
        was_noise = self._is_short(active) and not self._may_be_words(turn, active)
        means_nothing = self._guard.overrules(active, burst.started_at)
        if was_noise or means_nothing or (turn is not None and not turn.owes_final):
            self._stops.resume(active)

    def _hold_for_words(self, turn: UserTurn, active: Speech, now: float) -> None:
        if self._words_may_cut(active, turn) and self._is_short(active) and self.takes_floor(turn.settled_text):
            self._carry_out(self._decide("words", active, now, "pause"), active, now)

    def _words_may_cut(self, active: Speech, turn: UserTurn) -> bool:
        return self.may_cut(active) and not (self._guard.covers(turn) or self.caller.spares(turn, active))

    def _is_short(self, active: Speech) -> bool:
        """Return whether the newest sound is over and too short to cut that speech, and no sound before it holds it."""
        burst, options = self._user.burst, self._options
        if burst is None or burst.is_going_on:
            return False
        if active.paused_at is not None and active.paused_at < burst.started_at:
            return False
        limit = options.min_duration if active.is_playing else options.thinking_min_duration
        return burst.voiced_seconds(burst.started_at) < limit

    def _may_be_words(self, turn: UserTurn | None, active: Speech) -> bool:
        """Return whether an interim that is not settled shows words that would cut that speech."""
        if turn is None or not turn.interim or self.caller.spares(turn, active):
            return False
        return self.takes_floor(turn.loud_text)

    def words_came(self, now: float, *, is_guess: bool = False) -> None:
        """Note that the open turn has new words.

        Args:
            is_guess: Whether they are an interim that may still change, by which only a policy cuts; else a final or a
                stable interim.
        """
        turn, active = self._user.turn, self._floor.active
        if turn is not None and not is_guess and turn.firm_text:
            self._interrupt_calls(turn, turn.firm_text)
            if active is None and self._prepared_answer is not None:
                self.take_floor()
        if turn is None or active is None or not self._words_may_cut(active, turn):
            return
        active.forgive_holds()
        decision = self._effect_of_words(turn, active, now, is_guess=is_guess)
        if active.is_playing:
            decision = self._decide("words", active, now, decision)
        self._carry_out(decision, active, now)

    def _effect_of_words(self, turn: UserTurn, active: Speech, now: float, *, is_guess: bool) -> Decision:
        is_short, is_settled = self._is_short(active), self.takes_floor(turn.settled_text)
        if is_short and active.is_playing and is_settled:
            return "pause"  # the end of the turn cuts it: "I" may become "I see"
        if is_short and active.is_paused and not is_settled:
            return "pause" if self._may_be_words(turn, active) else "ignore"
        if is_guess:
            return "pause" if active.is_paused else "ignore"
        if self.takes_floor(turn.firm_text):
            is_long = turn.burst is None or turn.burst.voiced_seconds(now) >= self._options.min_duration
            return "interrupt" if is_long or active.is_paused or not active.is_playing else "ignore"
        is_open = turn.owes_final or self._user.has_voice
        return "pause" if active.is_paused and is_open else "ignore"

    def trust_words(self, turn: UserTurn, now: float) -> None:
        """Count the interim of the open turn as words, unless no voice takes the floor now."""
        if turn.interim and not self._guard.covers(turn):
            turn.trust_interim()
            self.words_came(now)

    def _carry_out(self, decision: Decision, active: Speech, now: float) -> None:
        burst = self._user.burst
        if decision == "interrupt":
            self.take_floor()
        elif decision == "pause" and not active.is_paused:
            self._words_paused_at = now
            self._stops.hold(active, now)
        elif decision == "ignore" and active.is_paused:
            if burst is not None:  # else it would be held again at once
                burst.ignore()
            self._stops.resume(active)

    # --- acts on the agent's speech

    def _hold_back(self, speech: Speech, at: float) -> None:
        """Pause that speech, or keep it from beginning, if a voice may do so."""
        burst = self._user.burst
        is_mere_noise = burst is not None and (burst.is_mere_noise or self._is_worn_out(speech, burst))
        if self.may_cut(speech) and not is_mere_noise:
            self._stops.hold(speech, at)

    def caller_came(self, now: float) -> None:
        """Resume the held speech, since the caller is back, unless the user speaks."""
        active, was_gone = self._floor.active, self._stops.caller_came()
        if not was_gone or active is None or not active.is_paused:
            return
        if self._user.has_voice and self.may_cut(active):
            active.hold(now)
        else:
            self._stops.release(active)

    def floor_given(self, speech: Speech, now: float) -> None:
        """Note that a speech got the floor."""
        self._guard.floor_given(speech)
        self.step_follows(speech, now)

    def step_follows(self, speech: Speech, now: float) -> None:
        """Note that a speech is about to sound. Hold an answer over the user's voice, and any speech while the caller
        is gone."""
        if self._stops.is_caller_gone:
            self._stops.hold(speech, now)
        elif self._user.has_voice and (speech.kind != "say" or speech.was_audible):
            self._hold_back(speech, now)

    def let_go_on(self) -> None:
        """Let the agent continue after the sound that paused it, unless the user still speaks."""
        active = self._floor.active
        if active is not None and active.is_paused and not self._user.has_voice:
            self._stops.resume(active)

    def take_floor(self) -> None:
        """Cut the agent for the user; an unheard answer is taken back into the open turn."""
        turn, answer = self._user.turn, self._floor.unheard_answer
        if turn is not None:
            self._interrupt_calls(turn, turn.new_text)
        if turn is not None and answer is not None:
            assert answer.answers is not None
            turn.merge(answer.answers)
            self._stops.cancel(answer, is_withdrawn=True)
        if self._floor.active is not None and not self.caller.spares(turn, self._floor.active):
            self._stops.cancel(self._floor.active)
        for speech in self._floor.waiting:
            is_owed = speech.is_owed and turn is not None and not turn.is_over_by_word
            if is_owed or self.caller.spares(turn, speech):
                continue
            if not speech.interruptible:
                return
            self._stops.cancel(speech)

    def _interrupt_calls(self, turn: UserTurn, text: str) -> None:
        """Take the floor from answers that wait for their tools, for words of that turn; unknown words do so too."""
        if text and not self._are_words(text):
            return
        if self._calls_interrupted[0] != turn.turn_id:
            self._calls_interrupted = turn.turn_id, set()
        done = self._calls_interrupted[1]
        for speech in self._floor.in_tools:
            if self.may_cut(speech) and speech.speech_id not in done:
                done.add(speech.speech_id)
                self._out.append(InterruptCalls(speech.speech_id))

    @property
    def _prepared_answer(self) -> Speech | None:
        """The answer at work without the floor that further words take back, or None."""
        answer = self._floor.unheard_answer
        return answer if answer is not None and answer.phase == "prepared" else None

    # --- deadlines

    def deadlines(self) -> Iterator[Deadline]:
        """Yield the times when speech is long enough to pause the agent, silence to let it continue, and an interim to
        be words."""
        active, burst, turn, options = self._floor.active, self._user.burst, self._user.turn, self._options
        may_cut = active is not None and self.may_cut(active)
        is_at_work = active is None and bool(self._floor.in_tools or self._prepared_answer)
        if self._stops.is_caller_gone or not (may_cut or is_at_work):
            return
        if turn is not None and turn.interim and not turn.is_interim_stable and not self._guard.covers(turn):
            yield Deadline(turn.interim_since + options.stable_interim, self._on_interim_stable)
        if active is None:
            return
        is_spared = self.caller.spares(turn, active)
        if burst is None:
            if active.paused_at is not None:  # by a policy
                yield Deadline(self._words_paused_at + options.false_timeout, self._on_silence)
            return
        if active.paused_at is not None:
            if burst.ended_at is not None:
                silent_since = max(burst.ended_at, self._words_paused_at)
                yield Deadline(silent_since + options.false_timeout, self._on_silence)
            elif options.max_pause is not None and not (is_spared and turn is not None and turn.has_words):
                yield Deadline(
                    self._held_until(active, active.paused_at, burst, options.max_pause), self._on_long_pause
                )
        elif active.is_playing and burst.is_going_on and not (burst.is_mere_noise or self._is_worn_out(active, burst)):
            if not (is_spared or self._guard.overrules(active, burst.started_at)):
                assert active.playing_since is not None
                since = max(burst.started_at, active.playing_since, self._guard.warm_at)
                if burst.voiced_until is None or burst.voiced_seconds(since, since=since) >= options.min_duration:
                    yield Deadline(since + options.min_duration + burst.voice_lag, self._on_long_speech)

    def _on_interim_stable(self, now: float) -> None:
        assert self._user.turn is not None
        self.trust_words(self._user.turn, now)

    def _on_silence(self, now: float) -> None:
        """Let the agent continue, unless the end of the turn would cut it at once, or after a while."""
        active, turn = self._floor.active, self._user.turn
        if active is None or turn is None or self._in_use.is_manual or self.caller.spares(turn, active):
            self.let_go_on()
        elif self.takes_floor(self._last_words(turn, now)):
            self.take_floor()
        else:
            self.let_go_on()

    def _last_words(self, turn: UserTurn, now: float) -> str:
        """Return the words that the end of that turn will find: an interim counts once its final is overdue."""
        burst, limit = self._user.burst, self._in_use.endpointing.transcript_timeout
        if burst is None or burst.ended_at is None or round(now - burst.ended_at, NANOSECOND_DIGITS) >= limit:
            return turn.loud_text
        return turn.settled_text

    def _held_until(self, active: Speech, paused_at: float, burst: Burst, max_pause: float) -> float:
        """Return the time until which that sound may hold the agent if no word comes."""
        until = burst.noise_at(max_pause)
        if not burst.emits_interims:
            return until
        return min(until, max(paused_at, burst.started_at) + 2 * max_pause - active.held_for)

    def _is_worn_out(self, active: Speech, burst: Burst) -> bool:
        """Return whether sounds without a word have held that speech for as long as they may in total."""
        max_pause = self._options.max_pause
        if max_pause is None or burst.has_words or not burst.emits_interims:
            return False
        return round(active.held_for, NANOSECOND_DIGITS) >= 2 * max_pause

    def _on_long_pause(self, now: float) -> None:
        active, burst, turn = self._floor.active, self._user.burst, self._user.turn
        assert active is not None
        assert burst is not None
        active.count_hold(burst, now)
        takes_floor = turn is not None and not self._guard.covers(turn) and self.takes_floor(turn.loud_text)
        if self.caller.spares(turn, active):
            takes_floor = False
        elif active.is_playing:
            takes_floor = self._decide("speech", active, now, "interrupt" if takes_floor else "ignore") == "interrupt"
        if takes_floor:
            self.take_floor()
        else:
            burst.ignore()
            self._stops.resume(active)

    def _on_long_speech(self, now: float) -> None:
        active, turn, burst = self._floor.active, self._user.turn, self._user.burst
        assert active is not None
        assert burst is not None
        has_words = turn is not None and self.takes_floor(turn.firm_text)
        cuts = has_words or (self._options.mode == "immediate" and not self._options.min_words)
        decision = self._decide("speech", active, now, "interrupt" if cuts else "pause")
        if decision == "interrupt":
            self.take_floor()
        elif decision == "pause":
            self._hold_back(active, now)
        else:
            burst.ignore()
