"""Extensions that fail at any moment: they cost their own part, and never the call, its close or its snapshot."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import anyio
import pytest

from kit.keeping import Keeping
from vivavoce.agents import Agent, AgentSession, Extension, SessionOptions
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.extension import Attached, Host, TextParts, TurnInHand
from vivavoce.agents.session_watch import watch_scope
from vivavoce.agents.testing import ScriptedLLM, SessionHarness
from vivavoce.pipelines.core.errors import ConfigurationError, SessionError
from vivavoce.pipelines.io import Transport


def fault() -> Any:
    raise KeyError("a fault of the extension")


@dataclass(frozen=True, eq=False)
class Part(Extension):
    """Notes its calls; what it does otherwise is given."""

    key: ClassVar[str] = "part"
    make: Callable[[Part], Attached]
    calls: list[str] = field(default_factory=list)

    def attach(self, host: Host) -> Attached:
        return self.make(self)


class Noting(Attached):
    close_after = "tools"

    def __init__(self, part: Part) -> None:
        self.calls = part.calls

    async def aclose(self) -> None:
        self.calls.append("aclose")

    def release(self) -> None:
        self.calls.append("release")


class Second(Part):
    key: ClassVar[str] = "second"


class Third(Part):
    key: ClassVar[str] = "third"


def harness_of(*parts: Part, **options: Any) -> SessionHarness:
    return SessionHarness(
        Agent("Help."), ScriptedLLM(default="Fine."), options=SessionOptions(extensions=parts, **options)
    )


def errors_of(harness: SessionHarness) -> list[str]:
    return [event.source for event in harness.recording.of(ErrorOccurred)]


def test_a_start_that_fails_closes_what_was_opened_and_nothing_else() -> None:
    class Failing(Noting):
        async def open(self) -> None:
            fault()

    parts = Part(Noting), Second(Failing), Third(Noting)
    with pytest.raises(KeyError):
        harness_of(*parts).run(until=1.0)
    assert [part.calls for part in parts] == [["aclose", "release"], ["aclose", "release"], ["release"]]


@pytest.mark.parametrize("name", ["has_work", "lost_writes", "judges", "close_after"])
def test_a_property_that_raises_is_one_error_event_and_call_and_close_are_whole(name: str) -> None:
    broken = type("Broken", (Noting,), {name: property(lambda self: fault())})
    part, other = Part(broken), Second(Noting)
    harness = harness_of(part, other).expects_error("part")
    harness.preemptive = True
    harness.caller.says("on friday", 1.0, 2.0)
    harness.run(until=5.0)
    harness.expect_history(("user", "on friday"), ("assistant", "Fine."))
    assert harness.close_report is not None
    assert harness.close_report.is_clean
    assert other.calls == ["aclose", "release"]
    assert errors_of(harness) == ["part"]


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("judges", ["turn"]),
        ("judges", "all"),
        ("lost_writes", "many"),
        ("close_after", "leave"),
        ("turn_limit", "5 s"),
        ("stage", "orders"),
        ("stage", ("orders", "nobody")),
        ("stage", (1, "network")),
    ],
)
def test_a_property_with_a_wrong_value_is_one_error_event_and_call_and_close_are_whole(name: str, given: Any) -> None:
    async def on_turn(self: Noting, turn: TurnInHand) -> None:
        self.calls.append(turn.text)

    part, other = Part(type("Broken", (Noting,), {name: given, "on_turn": on_turn})), Second(Noting)
    harness = harness_of(part, other).expects_error("part", contains=name)
    harness.preemptive = True
    harness.caller.says("on friday", 1.0, 2.0)
    harness.run(until=5.0)
    harness.expect_history(("user", "on friday"), ("assistant", "Fine."))
    assert harness.close_report is not None
    assert harness.close_report.is_clean
    assert part.calls == ["on friday", "aclose", "release"]
    assert errors_of(harness) == ["part"]


@pytest.mark.parametrize("late", [False, True])
def test_a_snapshot_has_no_entry_of_an_extension_that_cannot_make_it(late: bool) -> None:
    class Broken(Noting):
        def take(self) -> Callable[[], Any]:
            return fault if late else fault()

    class Whole(Noting):
        def take(self) -> Callable[[], Any]:
            return lambda: {"kept": True}

    harness = harness_of(Part(Broken), Second(Whole)).expects_error("part")

    async def act(harness: SessionHarness) -> None:
        await harness.until(0.5)
        assert harness.session.snapshot()["extensions"] == {"second": {"kept": True}}

    harness.run(act)


def resumed(make: Callable[[Part], Attached]) -> SessionHarness:
    """Return a session that goes on with data of the extension."""

    class Whole(Noting):
        def take(self) -> Callable[[], Any]:
            return lambda: {"kept": True}

    before = harness_of(Part(Whole))
    snapshots: list[Any] = []

    async def act(harness: SessionHarness) -> None:
        await harness.until(0.5)
        snapshots.append(harness.session.snapshot())

    before.run(act)
    harness = SessionHarness(
        Agent("Help.", id=snapshots[0]["agent"]),
        ScriptedLLM(default="Fine."),
        options=SessionOptions(extensions=(Part(make),)),
    )
    harness.resume_from = snapshots[0]
    return harness


def test_data_that_an_extension_cannot_check_are_refused() -> None:
    class Broken(Noting):
        def check_taken(self, data: Any) -> None:
            fault()

    with pytest.raises(ConfigurationError, match="check_taken of the extension 'part' failed: KeyError"):
        resumed(Broken).run(until=1.0)


def test_an_extension_that_cannot_go_on_with_its_data_begins_without_them() -> None:
    class Broken(Noting):
        def restore(self, data: Any) -> None:
            fault()

    harness = resumed(Broken).expects_error("part")
    harness.caller.says("on friday", 1.0, 2.0)
    harness.run(until=4.0)
    harness.expect_history(("user", "on friday"), ("assistant", "Fine."))


def test_a_turn_that_was_answered_by_an_on_turn_that_then_fails_goes_on() -> None:
    class Broken(Noting):
        async def on_turn(self, turn: TurnInHand) -> None:
            parts = TextParts()
            parts.push("half a")
            turn.answer(parts)
            fault()

    harness = harness_of(Part(Broken)).expects_error("part")
    harness.caller.says("on friday", 1.0, 2.0)
    harness.run(until=5.0)
    harness.expect_history(("user", "on friday"), ("assistant", "Fine."))


def test_an_open_that_ignores_its_cancellation_does_not_hold_the_start() -> None:
    class Clinging(Noting):
        async def open(self) -> None:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(60.0)

    harness = harness_of(Part(Clinging), start_step=1.0)
    with pytest.raises(SessionError, match="open of the extension 'part' did not end within 1 s"):
        harness.run(until=5.0)


async def test_a_session_that_never_started_releases_its_extensions() -> None:
    part = Part(Noting)
    session = AgentSession(Agent("Help."), options=SessionOptions(extensions=(part,)))
    await session.close()
    assert part.calls == ["release"]


@pytest.mark.parametrize("data", [{1, 2}, {"at": object()}, {(1, 2): 3}], ids=["set", "object", "key"])
def test_data_that_are_not_json_are_one_error_event_and_the_rest_is_kept(data: Any) -> None:
    class Broken(Noting):
        def take(self) -> Callable[[], Any]:
            return lambda: data

    class Whole(Noting):
        def take(self) -> Callable[[], Any]:
            return lambda: {"kept": True}

    harness = harness_of(Part(Broken), Second(Whole)).expects_error("part", contains="needs to make JSON data")

    async def act(harness: SessionHarness) -> None:
        await harness.until(0.5)
        for _ in range(2):
            assert json.loads(json.dumps(harness.session.snapshot()))["extensions"] == {"second": {"kept": True}}

    harness.run(act)
    assert errors_of(harness) == ["part"]


def test_a_call_whose_extension_makes_no_json_is_kept_for_a_crash_without_it() -> None:
    class Broken(Noting):
        def take(self) -> Callable[[], Any]:
            return lambda: {1, 2}

    store, harness = Keeping(), harness_of(Part(Broken)).expects_error("part")
    harness.caller.says("on friday", 1.0, 2.0)
    with watch_scope(store):
        harness.run(until=5.0)
    assert store.kept
    assert errors_of(harness) == ["part"]


def test_a_link_that_fails_is_one_error_event_and_one_that_refuses_the_transport_fails_the_start() -> None:
    class Broken(Noting):
        def link(self, transport: Transport) -> None:
            fault()

    class Refusing(Noting):
        def link(self, transport: Transport) -> None:
            raise ConfigurationError("needed a transport with keys")

    harness = harness_of(Part(Broken)).expects_error("part")
    harness.caller.says("on friday", 1.0, 2.0)
    harness.run(until=5.0)
    harness.expect_history(("user", "on friday"), ("assistant", "Fine."))
    with pytest.raises(ConfigurationError, match="a transport with keys"):
        harness_of(Part(Refusing)).run(until=1.0)


@pytest.mark.parametrize("made", [None, Agent("Help.")])
def test_an_attach_that_makes_no_part_is_refused(made: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"attach\(\) of the extension 'part' needs to return an Attached"):
        harness_of(Part(lambda part: made)).run(until=1.0)


def test_a_turn_limit_that_raises_is_one_error_event_and_the_turn_has_the_usual_one() -> None:
    class Broken(Noting):
        @property
        def turn_limit(self) -> float | None:  # type: ignore[override]
            return fault()  # type: ignore[no-any-return]

        async def on_turn(self, turn: TurnInHand) -> None:
            self.calls.append(turn.text)

    part = Part(Broken)
    harness = harness_of(part).expects_error("part")
    harness.caller.says("on friday", 1.0, 2.0)
    harness.run(until=5.0)
    harness.expect_history(("user", "on friday"), ("assistant", "Fine."))
    assert part.calls[0] == "on friday"
    assert errors_of(harness) == ["part"]
