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


@given(TAGS, ENTRIES, ENTRIES, ENTRY)
def test_one_more_wanted_entry_never_loses_a_stream_and_one_more_excluded_never_wins_one(
    tags: frozenset[str], wanted: list[Wanted], exclude: list[Wanted], entry: Wanted
) -> None:
    before = matches(tags, wanted, exclude)
    assert matches(tags, [*wanted, entry], exclude) >= before
    assert matches(tags, wanted, [*exclude, entry]) <= before


@given(TAGS, ENTRIES, ENTRIES)
def test_the_order_of_entries_and_tags_means_nothing_and_a_tuple_of_one_is_its_tag(
    tags: frozenset[str], wanted: list[Wanted], exclude: list[Wanted]
) -> None:
    turned = [entry if isinstance(entry, str) else tuple(reversed(entry)) for entry in reversed(wanted)]
    alone = [(entry,) if isinstance(entry, str) else entry for entry in turned]
    assert matches(sorted(tags), wanted, exclude) == matches(sorted(tags, reverse=True), alone, exclude[::-1])


@given(TAGS, ENTRIES)
def test_nothing_wanted_matches_nothing_and_the_same_excluded_leaves_nothing(
    tags: frozenset[str], wanted: list[Wanted]
) -> None:
    assert not matches(tags, [])
    assert not matches(tags, wanted, wanted)


@given(TAGS, TAG, ENTRIES)
def test_a_further_tag_of_a_stream_never_loses_it_unless_that_is_excluded(
    tags: frozenset[str], tag: str, wanted: list[Wanted]
) -> None:
    assert matches(tags | {tag}, wanted) >= matches(tags, wanted)
    assert not matches(tags | {tag}, wanted, [tag])


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
