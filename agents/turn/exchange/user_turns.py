"""UserTurns: the user's open turn, from its first sound, word or key to the decision that it is over."""

from __future__ import annotations

from collections.abc import Iterator

from vivavoce.agents.turn.barge_in.guard import InterruptionGuard
from vivavoce.agents.turn.barge_in.interruption import Interruption
from vivavoce.agents.turn.deadlines import Deadline
from vivavoce.agents.turn.effects import ClearAudio, Effect, PredictEndOfTurn, RefuseRemoteReply, SettleAudio
from vivavoce.agents.turn.exchange.commit import TurnCommit
from vivavoce.agents.turn.exchange.noise import Noise
from vivavoce.agents.turn.floor.floor import Floor
from vivavoce.agents.turn.options_in_use import OptionsInUse
from vivavoce.agents.turn.user.burst import REPORT_LAG, Burst
from vivavoce.agents.turn.user.endpointing import Endpointing
from vivavoce.agents.turn.user.learned_delay import REACTION
from vivavoce.agents.turn.user.limits import TurnLimits
from vivavoce.agents.turn.user.turn import UserTurn
from vivavoce.agents.turn.user.user_side import UserSide

LEAST_REST = 0.3
"""The shortest rest of a burst after a commit, in seconds of voice, that is a turn for a model that hears the
caller."""


class UserTurns:
    """Takes the user's inputs: opens turns, calls Interruption at once and TurnCommit at the end."""

    def __init__(
        self,
        options: OptionsInUse,
        floor: Floor,
        user: UserSide,
        interruption: Interruption,
        commit: TurnCommit,
        guard: InterruptionGuard,
        endpointing: Endpointing,
        out: list[Effect],
    ) -> None:
        self._options = options
        self._floor = floor
        self._user = user
        self._interruption = interruption
        self._turn_commit = commit
        self._guard = guard
        self._endpointing = endpointing
        self._limits = TurnLimits(options, user, out)
        self._noise = Noise(options, floor, user, interruption, commit)
        self._requested_at: float | None = None
        self._out = out
        self._began_at = 0.0

    def take_agent(self) -> None:
        """Take the options of another agent, which now has the conversation. They end the open turn too.

        Only push-to-talk begins with the next turn, since the caller has begun this one without a button.
        """
        self._endpointing.learned.take_options(self._options.endpointing)
        if self._user.turn is not None and not self._options.is_manual:
            self._user.turn.let_pauses_end()

    def begin(self, now: float) -> None:
        """Note that the session starts."""
        self._began_at = now

    def lose_turn(self, now: float) -> None:
        """Drop audio without words, which is lost with its pipeline; the user may be heard anew."""
        self._end_speech(now)
        turn, burst = self._user.turn, self._user.burst
        if burst is not None:
            burst.lose_audio()
        if turn is not None:
            turn.owed.forgive()
            if not turn.has_words:
                self._turn_commit.drop("cleared")
        self._interruption.let_go_on()

    # --- voice

    def speech_started(self, at: float, now: float) -> None:
        """Note that the VAD hears speech, since `at`."""
        if self._user.is_speaking:
            return
        traits = self._options.traits
        burst = Burst(
            at,
            voice_lag=traits.voice_lag,
            emits_interims=traits.emits_interims,
            onset=at,
            heard_from=now - REPORT_LAG,
        )
        self._user.pace.burst_began(at, silence=self._silence_before(at))
        committed_at = self._turn_commit.speech_began(at)
        if committed_at is not None:
            self._user.pace.interim_came(committed_at)
        if self._endpointing.learned.is_dynamic:
            self._endpointing.learned.speech_began(at, self._pause_since(at))
        turn = self._open_turn(at) if committed_at is None else None
        self._user.begin_speech(burst, committed_at=committed_at)
        if turn is not None and turn.is_shown(burst):
            self._user.pace.interim_came(turn.utterance_at)
        self._interruption.speech_began()

    def speech_ended(self, at: float, now: float) -> None:
        """Note that the VAD hears no more speech, since `at`."""
        user = self._user
        if user.burst is None or not user.is_speaking:
            return
        self._end_burst(user.burst, at, now)
        if user.turn is not None and user.turn.burst is user.burst:
            user.turn.end_speech(at)
        if self._options.model_hears_turns:
            self._hear(user.burst, at)
        self._interruption.speech_stopped(now)
        turn = user.turn
        if turn is None or turn.owes_final:
            return
        if turn.has_words:
            self._ask_detector(turn)
        else:
            self._turn_commit.drop("noise")

    def _hear(self, burst: Burst, at: float) -> None:
        """Note speech until `at` that the model has heard: it is a turn, or too short to be one while the agent speaks.

        In push-to-talk the rest of a burst after a limit waits for the request; words after the request belong to no
        turn.
        """
        turn, active, options = self._user.turn, self._floor.active, self._options.interruption
        is_rest, limit = burst.onset is None, 0.0
        if is_rest:
            limit = LEAST_REST
        elif active is not None:
            limit = options.min_duration if active.is_playing else options.thinking_min_duration
        is_enough = burst.voiced_seconds(burst.started_at) >= limit
        is_over = burst.is_rest_of_noise or (self._options.is_manual and self._is_behind_request(burst))
        if turn is None and is_rest and is_enough and not is_over:
            self._open_turn(burst.started_at).hear_rest(burst, at)
            if self._options.is_manual:
                return
        elif turn is None:
            if not self._options.is_manual:
                self._out.append(ClearAudio())
            return
        elif turn.burst is not burst:
            return
        else:
            turn.owed.forgive()
            if not is_enough:
                return
            turn.hear(at)
        if active is not None and self._interruption.may_cut(active):
            if not self._guard.overrules(active, burst.started_at):
                self._interruption.take_floor()

    def _end_speech(self, now: float) -> None:
        if self._user.burst is not None and self._user.is_speaking:
            self._end_burst(self._user.burst, now, now)

    def _end_burst(self, burst: Burst, at: float, now: float) -> None:
        burst.end(at, now)
        self._turn_commit.speech_ended(at)

    def interim(self, text: str, now: float, item_id: str = "") -> None:
        """Take a guess at the present utterance."""
        if text:
            self._user.act(now)
        if self._turn_commit.is_named(item_id):
            return
        if not text and self._user.turn is None:
            return
        if self._user.turn is None and self._turn_commit.covers_interim(text, now, item_id):
            return
        turn = self._open_turn(now)
        if text:
            self._user.words_tell_onset(now)
            self._user.word_came(now)
            if text != turn.interim:
                self._user.pace.interim_came(now)
        if text and not turn.owed_before:
            self._endpointing.learned.words_came()
        turn.add_interim(text, now, item_id)
        if not turn.has_words and self._user.is_speaking:
            self._user.words_were_none()
        self._interruption.words_came(now, is_guess=True)

    def final(self, text: str, now: float, item_id: str, *, is_past: bool, held: float) -> None:
        """Settle an utterance; an empty text means that it had no words.

        Args:
            is_past: Whether a recogniser that was replaced settles it.
            held: Seconds between the recogniser's report and this call.
        """
        if text:
            self._user.act(now)
        newer = self._user.turn
        news = self._turn_commit.settle_late(text, now, item_id, is_past=is_past, held=held)
        if news is None:
            return
        if is_past and newer is not None:
            if news:
                newer.add_past_final(news)
                self._interruption.words_came(now)
            return
        text = news
        if not text and self._user.turn is None:
            return
        turn = self._user.turn or self._open_turn_by_final(now)
        if text:
            self._user.words_tell_onset(now)
        if text and turn.owed_before and self._user.is_speaking:
            self._user.pace.final_of_earlier_came()
        elif text:
            self._user.word_came(now)
            self._user.pace.final_came(now if turn.burst is None else turn.burst.sounded_until(now))
            self._endpointing.learned.words_came()
        turn.add_final(text, now, item_id)
        if self._options.is_manual and turn.over is None and self._was_requested(now):
            turn.end_as_requested(now)
        if turn.has_words:
            self._guard.final_came(turn)
            self._interruption.words_came(now)
            if not self._user.is_speaking:
                self._ask_detector(turn)
        elif self._user.is_speaking:
            self._user.words_were_none()
        else:
            self._turn_commit.drop("noise")
            self._interruption.let_go_on()

    def predicted(self, complete: bool, now: float) -> None:
        """Take the turn detector's judgement of the pause."""
        turn = self._user.turn
        if turn is not None and not self._user.is_speaking:
            turn.judge(complete, now)

    def _ask_detector(self, turn: UserTurn) -> None:
        if self._options.traits.detector_timeout is not None and not self._options.is_manual:
            self._out.append(PredictEndOfTurn(turn.text))

    # --- decided from outside

    def turn_ended(self, now: float, item_id: str = "") -> None:
        """End the turn by the judgement of the recogniser, if the turn has words, or of the model's server, which has
        heard it."""
        if self._options.traits.hears_audio and self._options.traits.remote_decides:
            self._end_speech(now)
            self._open_turn(now).hear(now)
            if item_id:
                self._turn_commit.audio_named(item_id)
        turn, decides = self._user.turn, self._options.traits.recogniser_decides
        if turn is None or turn.waits_for_request:
            return
        if turn.has_words:
            if decides and turn.over is None:
                self._end_with_sound(turn, now)
            self._turn_commit.finish(now, "recogniser")
        elif decides and not self._user.is_speaking:
            self._turn_commit.drop("noise")
            self._interruption.let_go_on()

    def _end_with_sound(self, turn: UserTurn, now: float) -> None:
        """End the turn, perhaps before the VAD reports it: its present sound is noise until another word comes.

        Sound without a word so far may be that of a caller who goes on.
        """
        turn.end(now, "recogniser")
        burst = self._user.burst
        if burst is not None and burst.is_going_on and burst.has_words:
            burst.turn_to_noise(now)

    def ended_eagerly(self, now: float) -> None:
        """Take the recogniser's judgement that the words so far are perhaps the whole turn: they count as stable words,
        and an answer to them may begin."""
        turn = self._user.turn
        if turn is not None and turn.new_text and not turn.waits_for_request:
            turn.judge_words(is_over=True)
            self._interruption.trust_words(turn, now)

    def resumed(self) -> None:
        """Take the recogniser's judgement that the user goes on."""
        if self._user.turn is not None:
            self._user.turn.judge_words(is_over=False)

    def commit_requested(self, now: float) -> None:
        """End the turn by the application's request: at once, or when the words that are still owed have come."""
        self._requested_at = now
        # Without a VAD there may be words that the recogniser has not reported.
        is_idle = self._user.turn is None and not self._user.is_active
        if is_idle and not (self._options.is_manual and self._user.burst is None):
            return
        turn = self._open_turn(now)
        if self._options.traits.hears_audio and turn.burst is not None:
            turn.hear(now)
        turn.end(now)
        if not (turn.has_words or self._options.model_hears_turns):  # such a model has heard silence alone
            self._out.append(SettleAudio())

    def clear_requested(self, now: float) -> None:
        """Drop the words that are not committed, by the application's request; words committed before are answered
        after all."""
        self._requested_at = None
        self._out.append(ClearAudio())
        if self._user.turn is not None and self._user.turn.is_merged:
            turn = self._user.take_words_back()
            if self._options.is_manual:
                turn.end_as_requested(now)
        else:
            self._turn_commit.drop("cleared")
            if self._user.is_speaking:  # words from here on are of another turn
                self._user.split_burst(now, keeps_noise=True)
        self._interruption.let_go_on()

    def typed(self, text: str, now: float) -> None:
        """Take a whole turn that the user typed. It joins words said just before, but not speech that goes on.

        A sound without a word counts as noise then, where the recogniser would show words: it does not delay the
        answer.
        """
        text = text.strip()
        if not text:
            return
        self._user.act(now)
        spoken, burst, is_wordless = self._user.turn, self._user.burst, self._user.is_wordless
        if burst is not None and is_wordless:
            burst.ignore()
        is_speech = spoken is not None and spoken.is_speech_going_on and not is_wordless
        if spoken is None or not spoken.has_words or (is_speech and not spoken.is_merged):
            turn = self._user.typed_turn(text, now)
            if spoken is None or not self._turn_commit.is_deferred(turn):
                aside = self._user.put_before(turn)
                self._turn_commit.finish(now)
                if aside is not None:
                    self._user.put_back(aside)
                    if not aside.has_words and self._user.would_show_words:
                        self._interruption.caller.pass_over()
                return
        spoken.add_typed(text, now, is_over_noise=is_wordless)

    def remote_reply_cancelled(self) -> None:
        """Cut the rest of an answer that the remote model has cut for the user, unless it is protected."""
        active = self._floor.active
        if active is not None and active.kind != "say" and self._interruption.may_cut(active):
            self._interruption.take_floor()

    def remote_reply(self, remote_reply_id: str, now: float, item_id: str = "") -> None:
        """Take the beginning of an answer of the remote model: by its judgement, the turn is over."""
        active, turn, interruption = self._floor.active, self._user.turn, self._interruption
        if not (active is None or interruption.may_cut(active) or interruption.caller.spares(turn, active)):
            self._out.append(RefuseRemoteReply(remote_reply_id))
            if (
                self._options.traits.hears_audio and not active.interruptible
            ):  # the model has heard it: answered afterwards
                self._end_speech(now)
                self._open_turn(now).hear(now)
            return
        self._end_speech(now)
        turn = self._open_turn(now)
        self._turn_commit.commit(turn, now, "remote_reply", remote_reply_id=remote_reply_id, item_id=item_id)

    def close(self, now: float) -> None:
        """Hear nothing more. Commit words that are not answered yet, so that they are kept."""
        user = self._user
        if user.burst is not None and user.is_speaking:
            user.burst.end(now, now)
        if user.turn is not None and user.turn.has_words:
            self._turn_commit.commit(user.turn, now, "close")
        else:
            self._turn_commit.drop("closed")
        self._turn_commit.expect_no_final()

    # --- the open turn

    def deadlines(self) -> Iterator[Deadline]:
        """Yield the times when the present pause, or sound without words, ends the turn."""
        yield from self._noise.deadlines()
        turn, amended = self._user.turn, self._turn_commit.amended
        if turn is None and amended is not None:
            yield Deadline(amended[1], self._turn_commit.open_amended)
        if turn is None or self._turn_commit.is_deferred(turn):
            return
        if turn.over is None:
            yield from self._limits.deadlines(turn)
            if self._user.is_speaking or (turn.waits_for_request and turn.has_words):
                return
        yield Deadline(self._endpointing.ends_at(turn), self._turn_commit.finish)

    def _pause_since(self, at: float) -> float | None:
        """Return when the pause before the speech at `at` began, if it is a pause within a turn."""
        turn, active = self._user.turn, self._floor.active
        if active is not None and active.playing_since is not None:  # it listens, unless it cannot have reacted yet
            is_too_soon = active.kind == "turn" and at - active.playing_since < REACTION
            return self._endpointing.learned.ended_at if is_too_soon else None
        if turn is None:
            return None if self._floor.unheard_answer is None else self._endpointing.learned.ended_at
        is_of_turn = turn.burst is not None and (turn.has_words or turn.owes_final)
        return turn.silence_since if is_of_turn and turn.is_complete is not False else None

    def _silence_before(self, at: float) -> float:
        """Return the seconds before `at` in which neither the caller nor the agent was heard."""
        active, burst = self._floor.active, self._user.burst
        if active is not None and active.is_playing:
            return 0.0
        spoke_at = self._began_at if burst is None or burst.ended_at is None else burst.ended_at
        return at - max(spoke_at, self._floor.last_ended_at, self._began_at)

    def _open_turn(self, now: float) -> UserTurn:
        if self._user.turn is None:
            self._guard.keep_answer(now)
            return self._user.open_turn(now, waits_for_request=self._options.is_manual)
        return self._user.turn

    def _open_turn_by_final(self, now: float) -> UserTurn:
        turn, burst = self._open_turn(now), self._user.burst
        if burst is not None and burst.ended_at is not None and not burst.is_answered:
            # Too late for its own turn, but of the last speech: the pause has been counting since that.
            if now - burst.ended_at <= self._options.endpointing.max_delay:
                turn.join_ended(burst)
        return turn

    def _was_requested(self, now: float) -> bool:
        """Return whether these words are late words of a turn that the application has ended: no sound came since."""
        asked, burst = self._requested_at, self._user.burst
        if asked is None or now - asked > self._options.endpointing.max_delay:
            return False
        return burst is None or burst.started_at <= asked

    def _is_behind_request(self, burst: Burst) -> bool:
        return self._requested_at is not None and burst.started_at <= self._requested_at
