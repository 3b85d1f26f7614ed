"""The text of a call's extra: its maker reads it back, and nobody else does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.llm.call_extra import pack_extra, unpack_extra
from vivavoce.pipelines.llm.tools import ToolCall

json_data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.text(), st.dictionaries(st.text(), json_data, max_size=3), st.text())
def test_law_the_maker_reads_its_data_and_another_one_nothing(maker: str, data: dict[str, Any], other: str) -> None:
    extra = pack_extra(maker, data)
    assert unpack_extra(extra, maker) == data
    assert other == maker or unpack_extra(extra, other) == {}


def test_without_data_there_is_no_extra() -> None:
    assert pack_extra("gemini", {}) == ""


@pytest.mark.parametrize(
    "text", ["", "signed", "5", "[1]", "{}", '{"maker": "gemini"}', '{"maker": "gemini", "data": 5}', "[" * 50_000]
)
def test_any_other_text_is_read_as_nothing(text: str) -> None:
    assert unpack_extra(text, "gemini") == {}


@pytest.mark.parametrize("extra", [b"signed", None, {"signature": "x"}])
def test_a_call_with_an_extra_that_is_no_text_is_refused_with_the_remedy(extra: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"extra must be JSON text, got \w+; use pack_extra"):
        ToolCall(call_id="a", name="book", arguments="{}", extra=extra)


def test_a_call_does_not_show_it() -> None:
    assert "hunter2" not in repr(ToolCall(call_id="a", name="book", arguments="{}", extra="hunter2"))
