"""The frames between TTS and its helper, byte by byte."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivavoce.plugins.espeak import wire

headers = st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=20), max_size=4)


@given(st.lists(st.tuples(headers, st.binary(max_size=50)), max_size=5), st.integers(1, 40))
def test_frames_come_out_as_they_went_in_however_the_bytes_are_cut(
    frames: list[tuple[wire.Header, bytes]], size: int
) -> None:
    data = b"".join(wire.encode(header, payload) for header, payload in frames)
    decoder = wire.FrameDecoder()
    found = [frame for start in range(0, len(data), size) for frame in decoder.feed(data[start : start + size])]
    assert found == frames


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (struct.pack(">II", 1 << 30, 0), "at most"),
        (struct.pack(">II", 3, 0) + b"{x}", "must be JSON"),
        (struct.pack(">II", 2, 0) + b"[]", "JSON object"),
    ],
)
def test_garbage_is_named(data: bytes, message: str) -> None:
    with pytest.raises(wire.WireError, match=message):
        list(wire.FrameDecoder().feed(data))
