"""Buffers of the media kernel against plain byte strings."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vivavoce.pipelines.media.buffer import FrameChunker, RecentFrames, SampleStore
from vivavoce.pipelines.media.frame import AudioFrame

pieces = st.lists(st.binary(max_size=20).map(lambda data: data[: len(data) // 2 * 2]), max_size=12)


@given(pieces, st.integers(0, 60), st.integers(0, 60), st.integers(0, 60))
def test_a_sample_store_reads_at_any_kept_position_what_was_appended(
    parts: list[bytes], forgotten: int, position: int, samples: int
) -> None:
    store, whole = SampleStore(), b"".join(parts)
    for part in parts:
        store.append(part)
    store.forget(forgotten)
    assert store.end == len(whole) // 2
    assert store.start <= min(forgotten, store.end)
    position = max(position, store.start)
    assert store.read(position, samples) == whole[2 * position : 2 * (position + samples)]


def test_a_sample_store_forgets_whole_pieces_only_and_all_of_them_when_cleared() -> None:
    store = SampleStore()
    for _ in range(3):
        store.append(bytes(20))
    store.forget(19)
    assert store.start == 10
    store.forget(20)
    assert store.start == 20
    store.clear()
    assert (store.start, store.end, store.read(30, 5)) == (30, 30, b"")


@given(pieces)
def test_a_chunker_cuts_frames_of_one_size_and_loses_no_sample(parts: list[bytes]) -> None:
    chunker = FrameChunker(100, 0.03)
    frames = [frame for part in parts for frame in chunker.push(part)]
    assert all(frame.samples == 3 for frame in frames)
    rest = chunker.flush()
    assert rest is None or 0 < rest.samples < 3
    assert b"".join(frame.data for frame in frames) + (rest.data if rest else b"") == b"".join(parts)


def test_recent_frames_drop_the_oldest_and_count_them() -> None:
    recent = RecentFrames(0.5)
    frames = [AudioFrame(bytes([n, 0]) * 20, 100) for n in range(4)]  # 0.2 s each
    for frame in frames:
        recent.push(frame)
    assert recent.dropped == 2
    assert recent.drain() == frames[2:]
    assert recent.drain() == []


def test_recent_frames_forget_those_before_a_time() -> None:
    recent = RecentFrames(2.0)
    frames = [AudioFrame(bytes([n, 0]) * 20, 100) for n in range(4)]  # 0.2 s each
    for frame in frames:
        recent.push(frame)
    recent.forget_until(0.5)
    recent.push(frames[0])
    assert recent.drain() == [*frames[2:], frames[0]]
    recent.forget_until(0.0)
    assert recent.drain() == []


def test_of_one_long_piece_what_was_read_can_be_forgotten() -> None:
    store = SampleStore()
    store.append(bytes(range(250)) * 2000)
    store.forget(200_000)
    assert 150_000 < store.start <= 200_000
    assert store.read(200_000, 2) == (bytes(range(250)) * 2000)[400_000:400_004]
