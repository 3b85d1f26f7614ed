"""Laws of FallbackSTT's machine: in any call, with any recognisers, no word is lost and none comes twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kit.fallback_world import LIMIT, Said, Temper, World, text_of
from vivavoce.pipelines.core.errors import ProviderConnectionError, ProviderError
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.stt.base import STTEndOfTurn, STTEvent, STTFinal, STTInterim
from vivavoce.pipelines.stt.fallback_acts import MemberTraits
from vivavoce.pipelines.stt.fallback_machine import CLEAR_SPEECH, FallbackMachine

GOOD = st.builds(
    Temper,
    latency=st.floats(0.0, 0.9),
    opening=st.floats(0.0, 2.0),
    needs_flush=st.booleans(),
    shows=st.booleans(),
)
MUTE = st.builds(replace, GOOD, answers=st.just(False))
DOWN = st.builds(replace, GOOD, opens=st.just(False))
BREAKS = st.builds(replace, GOOD, lives=st.lists(st.floats(0.0, 8.0), min_size=1, max_size=2).map(tuple))
SLOW = st.builds(replace, GOOD, latency=st.floats(1.9, 4.0), needs_flush=st.just(True))

GAP = st.integers(7, 16).map(lambda fifths: fifths / 5)
"""A pause, longer than a recogniser's latency: what a final belongs to is certain."""
WORDS = st.builds(Said, gap=GAP, seconds=st.integers(1, 15).map(lambda fifths: fifths / 5))
CLEAR_WORDS = st.builds(Said, gap=GAP, seconds=st.integers(5, 15).map(lambda fifths: fifths / 5))
NOISE = st.builds(replace, WORDS, is_words=st.just(False))


SURE = Temper(latency=0.0, opening=0.0)
NEEDS_FLUSH = replace(SURE, needs_flush=True)


@st.composite
def one_good(draw: st.DrawFn) -> list[Temper]:
    others = draw(st.lists(st.one_of(GOOD, MUTE, DOWN, BREAKS, SLOW), min_size=1, max_size=3))
    place = draw(st.integers(0, len(others)))
    tempers = [*others[:place], draw(GOOD), *others[place:]]
    return [replace(tempers[0], opens=True), *tempers[1:]]  # the stream of the first one is open


@given(one_good(), st.lists(st.one_of(CLEAR_WORDS, NOISE), max_size=6))
@settings(max_examples=60)
def test_where_one_recogniser_works_every_clear_utterance_gets_exactly_one_final(
    tempers: list[Temper], said: list[Said]
) -> None:
    world = World(tempers, said).run()
    assert not world.has_given_up
    for number, each in enumerate(said, 1):
        assert len(world.words(number)) == int(each.is_words), (number, world.finals, world.takes)


@given(one_good(), st.lists(st.one_of(WORDS, NOISE), max_size=6))
@example(  # the second one shows the words again, when the noise sounds
    [replace(NEEDS_FLUSH, answers=False), replace(NEEDS_FLUSH, latency=3.0), NEEDS_FLUSH],
    [Said(1.4, 1.0), Said(1.4, 1.0, is_words=False)],
)
@settings(max_examples=60)
def test_no_utterance_gets_two_finals(tempers: list[Temper], said: list[Said]) -> None:
    world = World(tempers, said).run()
    for number in range(1, len(said) + 1):
        assert len(world.words(number)) <= 1, (number, world.finals, world.takes)


@given(
    st.lists(MUTE, min_size=1, max_size=2),
    st.builds(replace, GOOD, opening=st.just(0.1)),
    st.lists(WORDS, min_size=1, max_size=4),
)
@settings(max_examples=60)
def test_a_mute_recogniser_that_owes_a_final_after_each_flush_is_replaced_within_the_limit_after_any_word(
    mute: list[Temper], good: Temper, said: list[Said]
) -> None:
    first = replace(mute[0], needs_flush=True)
    world = World([first, good], said).run()
    for number in range(1, len(said) + 1):
        assert len(world.words(number)) == 1
    assert world.words(1)[0] <= world.ends[1] + LIMIT + 0.1 + 0.9 + 0.2
    assert world.takes[0][1] == 1
    assert world.takes[0][0] <= world.ends[1] + LIMIT + 0.2


@given(MUTE, st.builds(replace, GOOD, opening=st.just(0.1)), CLEAR_WORDS)
def test_any_mute_recogniser_is_replaced_within_the_limit_after_clear_speech(
    mute: Temper, good: Temper, said: Said
) -> None:
    world = World([mute, good], [said]).run()
    (at,) = world.words(1)
    assert at <= world.ends[1] + LIMIT + 0.1 + 0.9 + 0.2
    assert world.takes[0][1] == 1
    assert 0 in world.failed


@given(st.lists(GOOD, min_size=2, max_size=4), st.lists(NOISE, max_size=6))
@settings(max_examples=60)
def test_noise_alone_replaces_no_recogniser(tempers: list[Temper], said: list[Said]) -> None:
    world = World(tempers, said).run()
    assert world.takes == []
    assert world.failed == []
    assert world.machine.serving == 0


@given(st.lists(st.one_of(WORDS, NOISE), max_size=6), GOOD)
@settings(max_examples=60)
def test_a_recogniser_that_works_is_never_replaced(said: list[Said], good: Temper) -> None:
    world = World([good, Temper()], said).run()
    assert world.takes == []
    assert world.failed == []
    assert [len(world.words(number)) for number in range(1, len(said) + 1)] == [int(each.is_words) for each in said]


@given(st.lists(GOOD, min_size=2, max_size=3), st.lists(CLEAR_WORDS, min_size=1, max_size=3), st.floats(0.0, 10.0))
def test_in_a_silence_the_call_goes_back_to_the_first_recogniser_and_loses_no_word(
    tempers: list[Temper], said: list[Said], lives: float
) -> None:
    first = replace(tempers[0], lives=(lives,))
    world = World([first, *tempers[1:]], said).run(tail=80.0)
    assert world.machine.serving == 0
    for number in range(1, len(said) + 1):
        assert len(world.words(number)) == 1


def mute(temper: Temper) -> Temper:
    return replace(temper, answers=False)


def late(*latencies: float, opening: float = 0.1) -> list[Temper]:
    return [Temper(latency=latency, opening=opening) for latency in latencies]


@pytest.mark.parametrize(
    "witnesses",
    [(NEEDS_FLUSH, SURE, SURE), (SURE, mute(NEEDS_FLUSH), mute(NEEDS_FLUSH))],
    ids=["speech began while a witness heard the noise before it", "witnesses that do not answer are asked once"],
)
def test_clear_words_behind_noise_are_heard_by_a_witness(witnesses: tuple[Temper, ...]) -> None:
    world = World([mute(SURE), *witnesses], [Said(1.4, 1.0, is_words=False), Said(1.4, 1.0)]).run()
    assert [text for _, text in world.finals] == [text_of(2)]


# --- any inputs in any order

EVENTS = st.sampled_from(
    [STTInterim(text="a"), STTInterim(text=""), STTFinal(text="b"), STTFinal(text=""), STTEndOfTurn()]
)


class Acts:
    """Notes the streams that are opened."""

    def __init__(self) -> None:
        self.opened = [0]

    def emit(self, event: STTEvent) -> None: ...

    def open(self, stream: int, among: frozenset[int]) -> None:
        assert among
        self.opened.append(stream)

    def let_hear(self, stream: int, begin: int = 0, end: int | None = None) -> None: ...

    def pause(self, stream: int) -> None: ...

    def close(self, stream: int) -> None: ...

    def fails(self, member: int, *, is_slow: bool) -> None: ...

    def works(self, member: int) -> None: ...

    def take_over(self, member: int, failures: Sequence[tuple[int, ProviderError]], dropped: int) -> None: ...

    def give_up(self, errors: Sequence[ProviderError]) -> None: ...


@given(
    st.lists(st.booleans(), min_size=2, max_size=3),
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 6), EVENTS, st.floats(0.0, 3.0)), max_size=60),
)
@settings(max_examples=60)
def test_no_order_of_inputs_breaks_it_and_its_decisions_stay_sound(
    flushes: list[bool], inputs: list[tuple[int, int, STTEvent, float]]
) -> None:
    traits = [MemberTraits(f"m{n}", needs_flush) for n, needs_flush in enumerate(flushes)]
    acts = Acts()
    machine, now = FallbackMachine(acts, traits, 0, 0.0, final_limit=LIMIT, kept_seconds=2.0), 0.0
    for kind, number, event, seconds in inputs:
        now += seconds
        stream = number % (max(acts.opened) + 2)
        member = number % len(traits)
        error = ProviderConnectionError("down", provider="m")
        if kind == 0:
            machine.audio.push(AudioFrame(bytes(2000), 1000))
        elif kind == 1:
            machine.speech_started(0.1, now)
        elif kind == 2:
            machine.flush(now)
        elif kind in (3, 4):
            machine.event(stream, event, now)
        elif kind == 5:
            machine.lost(stream, member, error, now)
        elif kind == 6:
            machine.opened(stream, member, now)
        elif kind == 7:
            machine.none_left(stream, now)
        elif number == 0:
            machine.discard(now)
        else:
            machine.due(now, member)
        deadline = machine.deadline
        assert deadline is None or deadline >= 0
    assert len(acts.opened) == len(set(acts.opened))


@pytest.mark.parametrize("seconds", [0.2, CLEAR_SPEECH])
def test_words_shown_by_a_recogniser_that_breaks_become_a_final_if_nobody_is_left(seconds: float) -> None:
    breaks = Temper(latency=0.9, lives=(1.0 + seconds,), opens=False)
    world = World([breaks, Temper(opens=False)], [Said(0.6, seconds + 0.3)]).run()
    assert world.has_given_up
    assert [text for _, text in world.finals] == [text_of(1)]
    assert world.kept == set()


LATE = st.builds(replace, GOOD, latency=st.floats(1.9, 4.0))
"""Its final may come when the interim has been passed on as one, or when another one has taken over."""
ANY_GAP = st.integers(2, 30).map(lambda fifths: fifths / 5)
"""A pause, also a short one: several finals may be on their way at once."""


@st.composite
def late_ones(draw: st.DrawFn) -> list[Temper]:
    first = draw(LATE)
    return [replace(one, shows=True) for one in (first, *draw(st.lists(st.one_of(LATE, LATE, DOWN, GOOD), max_size=2)))]


@given(
    late_ones(),
    st.lists(st.builds(replace, st.one_of(WORDS, WORDS, NOISE), gap=ANY_GAP), max_size=5),
)
@example(late(3.0, 2.5, 3.0), [Said(1.4, 1.0), Said(1.4, 1.0), Said(1.4, 2.0), Said(1.4, 1.0)])
@example(late(3.0, 3.0), [Said(1.4, 1.0), Said(1.4, 3.0, is_words=False), Said(1.4, 1.0)])
@example(late(2.5, 2.4, opening=1.4), [Said(2.8, 1.0), Said(1.4, 1.0)])  # a final settled the words behind it too
@example(  # the interim of the words counts for the noise before them
    [replace(NEEDS_FLUSH, latency=3.0), NEEDS_FLUSH], [Said(0.4, 0.2, is_words=False), Said(0.4, 0.2)]
)
@settings(max_examples=60)
def test_where_recognisers_are_late_each_utterance_gets_one_final_though_its_interim_may_be_passed_on(
    tempers: list[Temper], said: list[Said]
) -> None:
    world = World(tempers, said).run()
    for number, each in enumerate(said, 1):
        assert len(world.words(number)) == int(each.is_words), (number, world.finals, world.takes)


TENTHS = st.integers(5, 250).map(lambda tenths: tenths / 10)
IN_TIME = st.builds(
    Temper,
    latency=st.sampled_from([0.0, 0.2, 0.5, 1.0, 1.5, 1.9]),
    opening=st.sampled_from([0.0, 0.1, 0.5]),
    lives=st.lists(TENTHS, max_size=3).map(tuple),
)
"""Its streams break, and its final may come when the next words are spoken, or are over."""


@given(
    st.lists(IN_TIME, min_size=2, max_size=3),
    st.lists(st.builds(replace, st.one_of(WORDS, WORDS, WORDS, NOISE), gap=ANY_GAP), max_size=6),
)
@example(  # words without an interim behind a late final
    [Temper(latency=1.5, opening=0.0, lives=(5.2,)), Temper()],
    [Said(1.6, 0.6), Said(1.2, 0.2), Said(1.4, 0.2), Said(2.2, 0.4)],
)
@example(  # a final of words that are like those which are being spoken
    [Temper(latency=1.9, opening=0.0, lives=(7.5,)), Temper(latency=1.5, opening=0.5)],
    [Said(0.6, 0.6), Said(1.4, 2.0), Said(0.8, 0.6)],
)
@settings(max_examples=60)
def test_where_streams_break_while_finals_are_on_their_way_no_word_is_lost_and_none_comes_twice(
    tempers: list[Temper], said: list[Said]
) -> None:
    world = World(tempers, said).run()
    for number, each in enumerate(said, 1):
        assert world.has_given_up or len(world.words(number)) == int(each.is_words), (number, world.finals, world.takes)


def check_the_give_up(tempers: list[Temper], lives: list[float], said: list[Said]) -> None:
    members = [replace(one, lives=(life, *[0.1] * 9)) for one, life in zip(tempers, lives, strict=False)]
    world = World([replace(members[0], opens=True), *members[1:], Temper(opens=False)], said).run()
    for number in range(1, world.begun + 1):
        if said[number - 1].is_words and world.has_given_up:
            assert len(world.words(number)) + (number in world.kept) == 1, (number, world.finals, world.kept)


@st.composite
def at_most_one_mute(draw: st.DrawFn) -> list[Temper]:
    """Two mute ones agree that it was noise: then no audio is kept, by the rules."""
    members = draw(st.lists(st.one_of(GOOD, BREAKS), max_size=2))
    if not members or draw(st.booleans()):
        members.insert(draw(st.integers(0, len(members))), draw(MUTE))
    return members


@given(
    at_most_one_mute(),
    st.lists(st.floats(0.0, 12.0), min_size=1, max_size=3),
    st.lists(st.one_of(WORDS, NOISE), min_size=1, max_size=5),
)
@settings(max_examples=100)
def test_at_a_give_up_each_utterance_has_its_final_or_its_audio_is_kept_and_never_both(
    tempers: list[Temper], lives: list[float], said: list[Said]
) -> None:
    check_the_give_up(tempers, lives, said)


def test_words_behind_a_noise_are_kept_though_a_witness_that_heard_the_noise_alone_was_silent() -> None:
    plain = Temper(latency=0.0, opening=0.0, shows=False)
    mute = replace(plain, answers=False)
    check_the_give_up([mute, plain, mute], [7.0, 3.0, 3.0], [Said(1.4, 1.0, is_words=False), Said(1.4, 0.2)])
