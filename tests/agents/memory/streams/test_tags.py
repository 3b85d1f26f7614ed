"""The laws of tags: which streams they select."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivavoce.agents.memory.streams.tags import Wanted, checked_tags, checked_wanted, matches
from vivavoce.pipelines.core.errors import ConfigurationError

TAG = st.sampled_from("abcd")
TAGS = st.frozensets(TAG)
ENTRY: st.SearchStrategy[Wanted] = st.one_of(TAG, st.lists(TAG, min_size=1, max_size=3).map(tuple))
ENTRIES = st.lists(ENTRY, max_size=4)


@given(TAGS, ENTRIES, ENTRIES)
def test_a_stream_matches_if_an_entry_wants_it_and_none_excludes_it(
    tags: frozenset[str], wanted: list[Wanted], exclude: list[Wanted]
) -> None:
    def has(entry: Wanted) -> bool:
        return ({entry} if isinstance(entry, str) else set(entry)) <= tags

    assert matches(tags, wanted, exclude) == (any(map(has, wanted)) and not any(map(has, exclude)))


@pytest.mark.parametrize("wrong", ["orders", 3, None, [3], [""], ["a\nb"], ["x" * 300], [()], [("a", 3)], [["a", ""]]])
def test_entries_that_are_no_tags_are_refused(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match="need"):
        checked_wanted("tags", wrong)


@pytest.mark.parametrize("wrong", ["orders", 3, None, [3], [("a", "b")]])
def test_a_stream_has_plain_tags_only(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match="need"):
        checked_tags(wrong)


def test_the_tags_of_a_stream_count_once_in_their_order() -> None:
    assert checked_tags(["b", "a", "b"]) == ("b", "a")
    assert checked_wanted("tags", ["b", ["a", "c"]]) == ("b", ("a", "c"))
