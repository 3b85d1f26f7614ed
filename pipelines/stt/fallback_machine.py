"""FallbackMachine: decides which member of a `FallbackSTT` serves one session's stream.

It is pure: no task, no clock. Each input comes with its time `now`, and is answered by acts, which `FallbackStream`
carries out. The rules:

- The recogniser that serves is replaced if its stream is lost, or if it owes a final for longer than the limit. Words
  are owed after an interim, and by a recogniser that needs a flush after every flush. It goes on until the next one is
  open; if its final comes before that, nothing changes.
- Other recognisers need not report on noise. If one is silent in clear speech, the next recogniser hears that speech
  too, as a *witness*. If the witness hears words, it takes over. If no other recogniser hears any, the sound was noise,
  and nothing changes. A recogniser is never its own witness.
- A successor hears the audio that no final has settled. Words that an interim has shown are never dropped: if no
  recogniser makes a final of them, the interim becomes one. A final that may be of those words or of new ones counts
  as new: words that come twice are better than words that are lost.
- The call goes back to a preferred recogniser in a silence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count

from vivavoce.pipelines.core.errors import ProviderError, ProviderTimeoutError
from vivavoce.pipelines.core.words import unless_blank
from vivavoce.pipelines.stt.base import STTEagerEndOfTurn, STTEvent, STTFinal, STTInterim, STTJudgement
from vivavoce.pipelines.stt.fallback_acts import Acts, MemberStream, MemberTraits, Purpose
from vivavoce.pipelines.stt.unsettled_audio import UnsettledAudio, Utterance

CLEAR_SPEECH = 1.0
"""Seconds of speech, by the VAD, in which a recogniser should hear words."""

STABLE_AFTER = 5.0
"""Seconds of life after which a stream ends a row of failures."""

ROUNDS = 2
"""How often each member may fail in a row."""

SILENCE = 0.5
"""Seconds without speech and events after which the call goes back to a preferred member; also between two checks for
one."""


class FallbackMachine:
    """Decides for one stream. The first member's stream has number 0, and is open.

    Args:
        acts: Carries the decisions out.
        first: The member that serves.
        final_limit: Seconds from the end of speech to its final.
        kept_seconds: Unsettled audio that is kept.
    """

    def __init__(
        self,
        acts: Acts,
        members: Sequence[MemberTraits],
        first: int,
        now: float,
        *,
        final_limit: float,
        kept_seconds: float,
    ) -> None:
        self._acts = acts
        self.audio = UnsettledAudio(kept_seconds)
        self._traits = tuple(members)
        self._everyone = frozenset(range(len(self._traits)))
        self._limit = final_limit
        self._numbers = count(1)
        self._serving: MemberStream | None = MemberStream(0, first, now, is_open=True)
        self._relief: MemberStream | None = None
        self._row: list[ProviderError] = []
        """The failures since a member worked."""
        self._failures: list[tuple[int, ProviderError]] = []
        """The members that were lost or could not be opened while no stream serves."""
        self._refused: set[int] = set()
        """The members that could not be opened in this search."""
        self._late: set[int] = set()
        """The members that owe words of this audio for too long."""
        self._silent: set[int] = set()
        """The witnesses that heard no words in this audio."""
        self._doubted: int | None = None
        """The number of ended utterances that a witness hears; None for all audio."""
        self._is_reopened = False
        """Whether the serving member was opened again for this audio."""
        self._active_at = now
        self._words_at = now
        self._looked_at = now

    @property
    def serving(self) -> int | None:
        """The member that serves."""
        return None if self._serving is None else self._serving.member

    # --- the caller; its frames go to `audio`

    def speech_started(self, ago: float, now: float) -> None:
        self._active_at = now
        relief, is_new = self._relief, not self.audio.open.is_speech
        if relief is not None and relief.heard is None and relief.purpose == "witness" and is_new:
            self._doubted = relief.heard = len(self.audio.ended)
            if relief.is_open:
                self._acts.pause(relief.id)
        self.audio.speech_started(ago, now)

    def speech_ended(self, now: float) -> None:
        """Note that speech has ended, of which the recogniser owes no final before its own end of the turn."""
        self._active_at = now
        self.audio.speech_ended(now)

    def flush(self, now: float) -> None:
        """Note that the utterance is over."""
        self._active_at = now
        self.audio.flush(now)

    def discard(self, now: float) -> None:
        self._active_at = now
        self.audio.discard()
        if self._serving is not None:
            self._dismiss()
            self._forget_search()

    # --- streams

    def event(self, stream: int, event: STTEvent, now: float) -> None:
        """Take an event of a stream."""
        if not isinstance(event, STTJudgement):
            event = replace(event, text=unless_blank(event.text))
        if self._serving is not None and stream == self._serving.id:
            self._heard(self._serving, event, now)
        elif self._relief is not None and stream == self._relief.id and self._relief.purpose == "witness":
            self._witnessed(self._relief, event, now)

    def opened(self, stream: int, member: int, now: float) -> None:
        """Note that the requested stream is open."""
        relief = self._relief
        if relief is None or relief.id != stream:
            self._acts.close(stream)
            return
        relief.member, relief.is_open = member, True
        self._refused.clear()
        self._use_relief(relief, now)

    def none_left(self, stream: int, now: float) -> None:
        """Note that none of the requested members may be opened now."""
        if self._relief is not None and self._relief.id == stream:
            self._search_failed(self._relief, now)

    def lost(self, stream: int, member: int, error: ProviderError, now: float) -> None:
        """Note that a stream could not be opened, failed or ended."""
        if self._serving is not None and stream == self._serving.id:
            self._serving_lost(self._serving, error, now)
        elif self._relief is not None and stream == self._relief.id:
            self._relief_lost(self._relief, member, error, now)

    # --- time

    @property
    def deadline(self) -> float | None:
        """The time when `due()` has something to decide, or None until another input."""
        return min((time for time in self._deadlines() if time is not None), default=None)

    def due(self, now: float, better: int | None) -> None:
        """Decide what is due at this time.

        Args:
            better: A working member that is preferred to the serving one, if any.
        """
        witness_until, late_at, looks_at = self._deadlines()
        if witness_until is not None and witness_until <= now:
            assert self._relief is not None
            self._witness_is_silent(self._relief, now)
        elif late_at is not None and late_at <= now:
            self._is_late(now)
        elif looks_at is not None and looks_at <= now:
            self._looked_at = now
            if self._relief is not None:
                self._take_over(self._relief, now)
            elif better is not None:
                self._ask("return", frozenset({better}))

    @property
    def _search_for(self) -> Purpose | None:
        """The purpose of the search for another member, if one is going on."""
        return None if self._relief is None or self._relief.purpose == "return" else self._relief.purpose

    def _deadlines(self) -> tuple[float | None, float | None, float | None]:
        late_at = None if self._serving is None or self._search_for else self._late_at(self._serving)
        return self._witness_until(), late_at, self._looks_at()

    def _late_at(self, serving: MemberStream) -> float | None:
        """Return when that recogniser, which serves, is late."""
        traits, times, audio = self._traits[serving.member], [], self.audio
        voiced = 0.0
        for one in audio.ended:
            if one.is_excused:
                continue
            if not one.has_words and not traits.needs_flush and self._words_at > (one.ended_at or 0.0):
                continue  # it works: it has heard words since then
            voiced += one.voiced
            if traits.needs_flush or one.has_words or voiced >= CLEAR_SPEECH - 1e-6:
                times.append(self._due_at(serving, one))
                break
        if traits.shows_words and not audio.open.has_words:
            if audio.open.is_speech:
                times.append(max(audio.open.began_at, serving.since, self._words_at) + CLEAR_SPEECH + self._limit)
            elif audio.open.voiced >= CLEAR_SPEECH - 1e-6 and not audio.open.is_excused:  # it judges turns: no flush
                times.append(max(audio.open.spoken_until, serving.since) + self._limit)
        return min(times, default=None)

    def _due_at(self, serving: MemberStream, utterance: Utterance) -> float:
        assert utterance.ended_at is not None
        return max(utterance.ended_at, serving.since) + self._limit

    def _witness_until(self) -> float | None:
        relief = self._relief
        if relief is None or not relief.is_open or relief.purpose != "witness":
            return None
        ended = [one.ended_at for one in self.audio.ended if one.ended_at is not None][: relief.heard]
        if not ended and not self._traits[relief.member].shows_words:
            return None  # it cannot answer before the end of speech
        return max([relief.since, *ended]) + self._limit + (0.0 if ended else CLEAR_SPEECH)

    def _looks_at(self) -> float | None:
        """Return when to look for a preferred member, or when to go back to one whose stream is open."""
        serving, relief = self._serving, self._relief
        if serving is None or not self.audio.is_quiet:
            return None
        is_waiting = relief is not None and relief.is_open and relief.purpose == "return"
        if is_waiting or (relief is None and (serving.member != 0 or serving.is_slow)):
            return max(self._active_at, self._looked_at) + SILENCE
        return None

    # --- the recogniser that serves

    def _heard(self, serving: MemberStream, event: STTEvent, now: float) -> None:
        self._active_at = now
        if isinstance(event, STTJudgement) or (isinstance(event, STTEagerEndOfTurn) and not event.text):
            self._acts.emit(event)
            return
        one_each, at_most = self._traits[serving.member].needs_flush, serving.heard
        if event.text:
            self._words_at = now
            self._row.clear()
            self._acts.works(serving.member)
            self._silent.clear()
            self._refused.clear()
        if isinstance(event, STTFinal):
            self._forget_search()
            if (news := self.audio.final(event, now, one_each=one_each, at_most=at_most)) is not None:
                self._acts.emit(news)
        elif not self.audio.are_passed_on(event.text, now):
            if event.text:
                interim = event if isinstance(event, STTInterim) else STTInterim(text=event.text)
                self.audio.interim(interim, one_each=one_each, at_most=at_most)
            self._acts.emit(event)
        self._settle_search(serving, now)

    def _forget_search(self) -> None:
        self._late.clear()
        self._silent.clear()
        self._refused.clear()
        self._is_reopened = False

    def _settle_search(self, serving: MemberStream, now: float) -> None:
        """End the search for another member if the serving one has answered after all."""
        late_at = self._late_at(serving)
        if self._search_for and (late_at is None or late_at > now):
            if self._search_for == "successor":
                serving.is_slow = True
                self._acts.fails(serving.member, is_slow=True)
            self._dismiss()

    def _is_late(self, now: float) -> None:
        assert (serving := self._serving) is not None
        self._late.add(serving.member)
        self._refused.clear()
        overdue = [one for one in self.audio.ended if not one.is_excused and self._due_at(serving, one) <= now]
        is_owed = self._traits[serving.member].needs_flush or any(one.has_words for one in overdue)
        self._doubted = len(overdue) + sum(one.is_excused for one in self.audio.ended) if overdue else None
        self._search("successor" if is_owed and overdue else "witness", now)

    def _serving_lost(self, serving: MemberStream, error: ProviderError, now: float) -> None:
        self._acts.fails(serving.member, is_slow=False)
        if now - serving.since >= STABLE_AFTER:
            self._row.clear()
        self._row.append(error)
        self._failures.append((serving.member, error))
        self._serving = None
        if len(self._row) >= ROUNDS * len(self._traits):  # they open, and fail at once
            self._give_up()
            return
        self._refused.clear()
        self._silent.clear()  # later words may be doubted next, which they have not heard
        if self._relief is None:
            self._search("successor", now)
        elif not self._relief.is_open:
            self._relief.purpose, self._relief.heard = "successor", None
        elif self._relief.purpose == "witness":
            self._witness_serves(self._relief, None, now)
        else:
            self._take_over(self._relief, now)

    # --- another one

    def _search(self, purpose: Purpose, now: float) -> None:
        """Have the next member opened, or use the member whose stream is open."""
        if self._relief is not None:  # it was to take over in a silence
            self._relief.purpose = purpose
            if purpose == "witness":
                self._relief.heard = self._doubted
            if self._relief.is_open:
                self._use_relief(self._relief, now)
            return
        passed = self._refused if self._serving is None else self._refused | self._late | self._silent
        if among := self._everyone - passed:
            self._ask(purpose, among)
        else:
            self._search_failed(MemberStream(-1, purpose=purpose), now)

    def _ask(self, purpose: Purpose, among: frozenset[int]) -> None:
        heard = self._doubted if purpose == "witness" else None
        self._relief = MemberStream(next(self._numbers), purpose=purpose, heard=heard)
        self._acts.open(self._relief.id, among)

    def _search_failed(self, relief: MemberStream, now: float) -> None:
        self._relief = None
        if relief.purpose == "return":
            return
        if self._serving is None:
            self._give_up()
        elif not self._is_reopened and not self._silent and self._serving.member not in self._refused:
            self._is_reopened = True  # its connection may be dead, and its server well
            self._ask(relief.purpose, frozenset({self._serving.member}))
        else:
            self._conclude(now)

    def _use_relief(self, relief: MemberStream, now: float) -> None:
        if relief.purpose == "successor":
            self._take_over(relief, now)
        elif relief.purpose == "witness":
            relief.since = now
            self._acts.let_hear(relief.id, end=relief.heard)
        elif self.audio.is_quiet and now >= self._active_at + SILENCE:
            self._take_over(relief, now)

    def _relief_lost(self, relief: MemberStream, member: int, error: ProviderError, now: float) -> None:
        self._acts.fails(member, is_slow=False)
        self._relief = None
        if self._serving is None:
            self._row.append(error)
            self._failures.append((member, error))
        if relief.purpose != "return":
            self._refused.add(member)
            self._search(relief.purpose, now)

    def _take_over(self, relief: MemberStream, now: float) -> None:
        """Let that stream serve; if it is a witness, it has heard the audio already."""
        old, self._serving, self._relief = self._serving, relief, None
        has_heard = relief.purpose == "witness"
        if old is not None:
            self._acts.close(old.id)
            if relief.purpose != "return" and old.member != relief.member:
                problem = f"no transcript within {self._limit:g} s of the speech"
                late = ProviderTimeoutError(problem, provider=self._traits[old.member].provider, retryable=True)
                self._failures.append((old.member, late))
                self._acts.fails(old.member, is_slow=True)
        failures, self._failures = tuple(self._failures), []
        self._acts.take_over(relief.member, failures, self.audio.take_dropped())
        self.audio.take_recogniser()
        self._refused.clear()
        if not has_heard:
            relief.since = now
            self._acts.let_hear(relief.id)

    # --- witnesses

    def _witnessed(self, witness: MemberStream, event: STTEvent, now: float) -> None:
        if isinstance(event, STTJudgement):
            return
        if event.text:
            for member in sorted(self._silent - {witness.member}):
                self._acts.fails(member, is_slow=True)
            self._witness_serves(witness, event, now)
        elif isinstance(event, STTFinal):
            witness.settled += 1
            ended = len(self.audio.ended) if witness.heard is None else witness.heard
            if ended and witness.settled >= ended:
                self._silent.add(witness.member)
                self._dismiss()
                self._conclude(now)

    def _witness_serves(self, witness: MemberStream, event: STTEvent | None, now: float) -> None:
        """Let a witness take over by an event with words; it goes on with the audio that was kept from it."""
        self.audio.settle(witness.settled)
        self._take_over(witness, now)
        before = len(self.audio.ended)
        if witness.heard is not None:
            witness.heard -= witness.settled
        if event is not None:
            self._heard(witness, event, now)
        if witness.heard is not None:
            begin = max(0, witness.heard - (before - len(self.audio.ended)))
            witness.heard = None
            self._acts.let_hear(witness.id, begin=begin)

    def _witness_is_silent(self, witness: MemberStream, now: float) -> None:
        self._dismiss()
        if self._traits[witness.member].needs_flush and self.audio.ended:  # it owes an answer: it does not work
            self._acts.fails(witness.member, is_slow=True)
            self._late.add(witness.member)
        else:
            self._silent.add(witness.member)
        self._search("witness", now)

    def _dismiss(self) -> None:
        """End the search; the serving recogniser stays."""
        if self._search_for and self._relief is not None:
            self._acts.close(self._relief.id)
            self._relief = None

    def _conclude(self, now: float) -> None:
        """End a search in which no member had more words of the ended utterances."""
        assert self._serving is not None
        if self._take_shown(now, goes_on=self.audio.open.is_speech and self.audio.open.has_words):
            self.audio.forget_noise(now, None)
        elif self._silent - {self._serving.member}:
            self.audio.forget_noise(now, self._doubted)
        else:
            self.audio.excuse(now)
        self._forget_search()

    def _take_shown(self, now: float, *, goes_on: bool) -> bool:
        """Make finals of the words that were shown; leave those of the open utterance if it goes on."""
        shown = self.audio.take_shown(now, goes_on=goes_on)
        for interim in shown:
            self._acts.emit(STTFinal(**interim.recognised()))
        return bool(shown)

    def _give_up(self) -> None:
        self._take_shown(0.0, goes_on=False)
        if self._relief is not None:
            self._acts.close(self._relief.id)
            self._relief = None
        self._acts.give_up(tuple(self._row))
