"""The members of all fallbacks: which are refused, and the members that a fallback shows to an application."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from vivavoce.pipelines import FallbackLLM, FallbackRealtime, FallbackSTT, FallbackTTS
from vivavoce.pipelines.core.component import Component
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.testing import ScriptedLLM, ScriptedRealtimeModel, ScriptedSTT, ScriptedTTS

FALLBACKS = pytest.mark.parametrize(
    ("fallback", "member"),
    [
        (FallbackSTT, ScriptedSTT),
        (FallbackLLM, ScriptedLLM),
        (FallbackTTS, ScriptedTTS),
        (FallbackRealtime, ScriptedRealtimeModel),
    ],
)


@FALLBACKS
def test_the_same_component_twice_is_refused_with_its_places(
    fallback: Callable[[list[Component]], Component], member: Callable[[], Component]
) -> None:
    twice = member()
    with pytest.raises(ConfigurationError, match="that differ, got the same scripted as number 1 and 3; .* remove one"):
        fallback([twice, member(), twice])
    fallback([member(), member()])


@FALLBACKS
def test_members_without_a_list_are_refused_with_the_list_that_is_needed(
    fallback: Callable[..., Component], member: Callable[[], Component]
) -> None:
    name = getattr(fallback, "__name__", "")
    wanted = rf"need the members of {name} in one list, {name}\(\[a, b\]\), got .*{type(member()).__name__}"
    with pytest.raises(ConfigurationError, match=wanted):
        fallback(member(), member())


@FALLBACKS
def test_one_member_in_place_of_the_list_is_refused_with_a_list_as_the_remedy(
    fallback: Callable[..., Component], member: Callable[[], Component]
) -> None:
    for wrong in (member(), 1, member):
        with pytest.raises(ConfigurationError, match=r"as a list of \w+, got .*; give a list: \[\.\.\.\]$"):
            fallback(wrong)
    with pytest.raises(ConfigurationError, match="among them; call the classes$"):
        fallback([member, member])


@FALLBACKS
def test_a_fallback_shows_the_members_of_its_port_and_no_others(
    fallback: type[Component], member: type[Component]
) -> None:
    def public(cls: type) -> set[str]:
        return {name for name in dir(cls) if not name.startswith("_")}

    port = next(base for base in fallback.__mro__[1:] if base is not fallback)
    assert public(fallback) == public(port)
    assert public(Component) == {"aclose", "members", "model", "provider"}
