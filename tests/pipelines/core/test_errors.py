"""The parts of an error that may be written down, and the contents of error groups."""

from __future__ import annotations

import pytest

from vivavoce.pipelines.core.errors import ProviderTimeoutError, SessionError, describe, first_error


def test_our_own_errors_are_described_with_their_text_and_foreign_ones_by_kind() -> None:
    assert describe(SessionError("call start() first")) == "SessionError: call start() first"
    assert describe(ProviderTimeoutError("too slow", provider="openai")) == "ProviderTimeoutError: openai: too slow"
    assert describe(ValueError("pin 4711")) == "ValueError"
    assert describe(SessionError()) == "SessionError"


def test_foreign_text_is_quoted_only_where_that_is_asked_for() -> None:
    assert describe(KeyError("no such table"), quotes_foreign=True) == "KeyError: 'no such table'"


def test_a_group_is_described_by_its_leaves() -> None:
    inner = ExceptionGroup("inner", [ValueError("pin 4711"), SessionError("closed")])
    assert describe(ExceptionGroup("outer", [inner, KeyError("x")])) == "ValueError; SessionError: closed; KeyError"


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_the_first_error_is_found_inside_nested_groups(depth: int) -> None:
    leaf = ValueError("x")
    error: Exception = leaf
    for _ in range(depth):
        error = ExceptionGroup("group", [error, KeyError("y")])
    assert first_error(error) is leaf
