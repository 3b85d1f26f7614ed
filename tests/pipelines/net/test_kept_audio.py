"""The audio since the last settled word is kept, with its marks, and nothing else."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vivavoce.pipelines.net.kept_audio import OVERLAP, KeptAudio


def items(kept: KeptAudio[str]) -> str:
    return "".join(piece.item for piece in kept.pieces())


def test_settled_audio_is_forgotten_but_for_a_run_up() -> None:
    kept: KeptAudio[str] = KeptAudio(30.0)
    for item in "abcdefgh":
        kept.push(item, 0.25)
    kept.settle(1.25)
    assert items(kept) == "defgh"  # 0.5 s before 1.25 s
    assert (kept.start, kept.end, kept.settled) == (0.75, 2.0, 1.25)
    kept.settle(1.0)  # an earlier word that comes late
    assert kept.settled == 1.25
    kept.settle(9.0)  # a recogniser's clock may run ahead
    assert kept.settled == 2.0
    assert items(kept) == "gh"


def test_an_answered_mark_is_forgotten_and_a_later_one_is_kept() -> None:
    kept: KeptAudio[str] = KeptAudio(30.0)
    kept.push("a", 0.2)
    kept.push("|", 0.0)
    kept.push("b", 0.2)
    kept.push("|", 0.0)
    kept.settle(0.2)
    assert items(kept) == "ab|"
    kept.settle(0.4)
    assert items(kept) == "ab"


def test_a_word_is_repeated_if_its_middle_was_settled() -> None:
    kept: KeptAudio[str] = KeptAudio(30.0)
    kept.push("a", 2.0)
    kept.settle(1.0)
    assert kept.is_repeated(0.6, 1.1)
    assert not kept.is_repeated(0.95, 1.4)


def test_more_than_the_limit_drops_the_oldest_and_counts_only_what_no_word_is_known_of() -> None:
    dropped: list[str] = []
    kept: KeptAudio[str] = KeptAudio(1.0, lambda: dropped.append("x"))
    for item in "abcdefgh":
        kept.push(item, 0.25)
    assert items(kept) == "defgh"
    assert len(dropped) == 3
    kept.settle(1.75)
    for item in "ijkl":
        kept.push(item, 0.25)
    assert items(kept) == "hijkl"
    assert len(dropped) == 3
    kept.push("m", 0.25)
    assert len(dropped) == 4


def test_discarded_audio_is_no_longer_there() -> None:
    kept: KeptAudio[str] = KeptAudio(1.0)
    kept.push("a", 0.5)
    kept.clear()
    assert (items(kept), kept.start, kept.settled, len(kept)) == ("", 0.5, 0.5, 0)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("push"), st.floats(0.01, 0.5)),
            st.tuples(st.just("mark"), st.just(0.0)),
            st.tuples(st.just("settle"), st.floats(0.0, 20.0)),
        )
    )
)
def test_no_audio_after_the_last_settled_word_is_missing(steps: list[tuple[str, float]]) -> None:
    kept: KeptAudio[str] = KeptAudio(1000.0)
    for kind, value in steps:
        if kind == "settle":
            kept.settle(value)
        else:
            kept.push(kind, value)
        pieces = kept.pieces()
        assert all(one.end == other.start for one, other in zip(pieces, pieces[1:], strict=False))
        if kept.end > kept.settled:
            assert pieces[-1].end == kept.end
            assert kept.start <= max(0.0, kept.settled - OVERLAP + 0.5)
