"""The merge of several streams by time: nothing is lost, nothing twice, each stream in its own order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vivavoce.agents.memory.streams.following import in_order
from vivavoce.agents.streams import StreamItem

TIMES = st.lists(st.integers(0, 20), max_size=12)
STREAMS = st.dictionaries(st.sampled_from("abc"), TIMES)


def items(times: list[int]) -> list[StreamItem]:
    return [StreamItem(index=index, at=float(at), value=index) for index, at in enumerate(times)]


@given(STREAMS, st.integers(1, 5))
def test_batch_by_batch_all_items_come_once_and_each_stream_in_its_order(
    streams: dict[str, list[int]], size: int
) -> None:
    left = {name: items(times) for name, times in streams.items()}
    merged: list[tuple[str, StreamItem]] = []
    for _ in range(100):
        step = in_order({name: found[:size] for name, found in left.items() if found}, size)
        assert step or not any(left.values()), "a step without an item would be the last one"
        for name, item in step:
            assert left[name].pop(0) is item
        merged += step
    assert not any(left.values())
    if all(times == sorted(times) for times in streams.values()):
        assert [item.at for _, item in merged] == sorted(item.at for _, item in merged)
