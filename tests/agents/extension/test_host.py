"""What a host does for its extension, and when: keys, additions, other extensions, calls before the room is joined."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import anyio
import pytest

from kit.memory import ScriptedStore
from vivavoce.agents import Agent, Extension, MemoryOptions, SessionOptions, function_tool
from vivavoce.agents.budget import BudgetOptions
from vivavoce.agents.events import ErrorOccurred, UserTranscript
from vivavoce.agents.extension import Additions, Attached, Host
from vivavoce.agents.extension.keys import BUILT_IN, RESERVED
from vivavoce.agents.session.life import close, start
from vivavoce.agents.session_watch import Conversation, watch_scope
from vivavoce.agents.states import CloseReason
from vivavoce.agents.testing import ScriptedLLM, SessionHarness
from vivavoce.pipelines.core.errors import ConfigurationError, SessionNotStartedError
from vivavoce.pipelines.io import Transport


@dataclass(frozen=True, eq=False)
class First(Extension):
    """Makes the part that is given."""

    key: ClassVar[str] = "first"
    make: Callable[[Host], Attached] = lambda host: Attached()
    calls: list[str] = field(default_factory=list)

    def attach(self, host: Host) -> Attached:
        return self.make(host)


class Second(First):
    key: ClassVar[str] = "second"


def harness_of(*extensions: Extension, agent: Agent | None = None, **options: Any) -> SessionHarness:
    return SessionHarness(
        agent or Agent("Help."),
        ScriptedLLM(default="Fine."),
        options=SessionOptions(extensions=extensions, **options),
    )


# --- keys


@pytest.mark.parametrize("key", sorted(RESERVED | BUILT_IN))
def test_an_extension_with_the_key_of_a_part_of_each_session_is_refused(key: str) -> None:
    mine = type("Mine", (First,), {"key": key})
    with pytest.raises(ConfigurationError, match=re.escape(f"Mine.key must be a name of its own, got {key!r}")):
        SessionOptions(extensions=(mine(),))


@pytest.mark.parametrize("key", ["", "  ", 3, None])
def test_a_key_that_is_no_text_is_refused(key: Any) -> None:
    mine = type("Mine", (First,), {"key": key})
    with pytest.raises(ConfigurationError, match=r"Mine.key must be a text, got .*; for example"):
        SessionOptions(extensions=(mine(),))


def test_an_extension_without_a_key_is_refused() -> None:
    class Keyless(Extension):
        def attach(self, host: Host) -> Attached:
            return Attached()

    with pytest.raises(ConfigurationError, match="Keyless.key must be a text, got None"):
        SessionOptions(extensions=(Keyless(),))


@pytest.mark.parametrize("module", [start, close])
def test_each_step_of_start_and_close_is_reserved(module: Any) -> None:
    tree = ast.parse(Path(module.__file__).read_text())
    steps: set[object] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Tuple) and node.elts and isinstance(node.elts[0], ast.Constant):
            steps.add(node.elts[0].value)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("watched", "self._watched", "self._result_of"):
            steps |= {one.value for one in node.args[:1] if isinstance(one, ast.Constant)}
    assert len(steps) > 3
    assert steps <= RESERVED


def test_each_source_of_errors_that_the_docs_name_is_reserved() -> None:
    named = re.findall(r'"(\w+)"', (ErrorOccurred.__doc__ or "").partition("source:")[2].partition("is_recovered")[0])
    assert {"llm", "memory"} < set(named) <= RESERVED | BUILT_IN


# --- other extensions


def test_an_extension_is_found_by_its_very_class_before_a_subclass() -> None:
    class Mine(First):
        key: ClassVar[str] = "mine"

    harness = harness_of(Mine(lambda host: Faced("mine")), First(lambda host: Faced("first"))).run(until=0.5)
    assert harness.session.extension(First) == "first"
    assert harness.session.extension(Mine) == "mine"
    harness = harness_of(Mine(lambda host: Faced("mine"))).run(until=0.5)
    assert harness.session.extension(First) == "mine"


class Faced(Attached):
    def __init__(self, face: str) -> None:
        self.face = face


# --- tools


class Giving(Attached):
    """Gives the agent tools when everything runs."""

    def __init__(self, host: Host, *answers: str) -> None:
        self._host = host
        self._answers = answers

    async def begin(self) -> None:
        self._host.add_to_agent(Additions(tools=tuple(map(tool, self._answers))))


def tool(answer: str) -> Any:
    @function_tool(name="look_up", description=answer)
    async def look_up() -> str:
        return answer

    return look_up


class Cook(Agent):
    @function_tool
    async def look_up(self) -> str:
        """The agent's own."""
        return "own"


def tools_of(harness: SessionHarness) -> list[str]:
    harness.caller.says("on friday", 1.0, 2.0)
    harness.run(until=5.0)
    (request,) = harness.llm.requests
    return [one.description for one in request.tools]


def test_of_two_extensions_tools_with_one_name_the_first_is_taken(caplog: pytest.LogCaptureFixture) -> None:
    class Late(Giving):
        async def begin(self) -> None:
            await anyio.sleep(0.1)
            await super().begin()

    one, two = First(lambda host: Late(host, "one")), Second(lambda host: Giving(host, "two"))
    assert tools_of(harness_of(one, two, agent=Cook("Help."))) == ["one"]
    assert "'first' and 'second' have a tool 'look_up'; the model gets that of 'first'" in caplog.text


def test_two_tools_of_one_extension_with_one_name_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"'first' need names of their own, got \['look_up'\] twice"):
        harness_of(First(lambda host: Giving(host, "one", "two"))).run(until=1.0)


# --- before the room is joined


class Early(Attached):
    """Calls its host in `open`."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.face = self
        self.said: list[str] = []

    async def open(self) -> None:
        self.host.changed()
        assert self.host.speeches() == []
        words = self.host.say("Early.")
        assert self.host.speeches() == [words]
        with pytest.raises(SessionNotStartedError, match="not in its room yet"):
            await self.host.heard([words])
        words.add_done_callback(lambda one: self.said.append(one.id))


def test_the_calls_of_a_host_work_before_the_room_is_joined_or_say_why_not() -> None:
    harness = harness_of(First(Early)).run(until=4.0)
    harness.expect_history(("assistant", "Early."))
    early = harness.session.extension(First)
    assert isinstance(early, Early)
    assert len(early.said) == 1


@pytest.mark.parametrize(
    "call",
    [
        lambda host: host.speeches(),
        lambda host: host.hang_up(CloseReason.USER_INITIATED),
        lambda host: host.say("Too early."),
    ],
)
def test_a_host_says_in_attach_that_the_session_is_not_there_yet(call: Callable[[Host], object]) -> None:
    def attach(host: Host) -> Attached:
        with pytest.raises(SessionNotStartedError):
            call(host)
        host.changed()
        return Attached()

    harness_of(First(attach)).run(until=0.5)


# --- its state in a store


class Counting(Attached):
    """Has a number, which changes outside of a turn."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.face = self
        self.number = 0

    def take(self) -> Callable[[], Any]:
        number = self.number
        return lambda: number

    async def count(self) -> float:
        """Add one, and return how long the store has taken."""
        self.number += 1
        self.host.changed()
        began = anyio.current_time()
        await self.host.kept(0.5)
        return anyio.current_time() - began


def counting(store: ScriptedStore | None) -> SessionHarness:
    return harness_of(First(Counting), memory=None if store is None else MemoryOptions(store=store))


def part_of(harness: SessionHarness) -> Counting:
    part = harness.session.extension(First)
    assert isinstance(part, Counting)
    return part


def test_a_change_is_kept_when_the_store_of_the_session_has_it() -> None:
    store = ScriptedStore()

    async def scenario(harness: SessionHarness) -> None:
        await anyio.sleep(1.0)
        part, store.lateness = part_of(harness), 0.2
        assert await part.count() == pytest.approx(0.2, abs=0.05)
        assert (await store.snapshot(harness.session.id))["extensions"]["first"] == 1
        store.lateness = 2.0
        part.number += 1
        part.host.changed()
        assert await part.count() == pytest.approx(0.5, abs=0.05)
        assert await part.count() == 0.0, "nothing waits for a store that is late"
        await anyio.sleep(30.0)
        assert (await store.snapshot(harness.session.id))["extensions"]["first"] == 4
        store.lateness = 0.1
        assert await part.count() == pytest.approx(0.1, abs=0.05)

    counting(store).expects_error("memory").run(scenario)


def test_without_a_store_nothing_is_waited_for() -> None:
    async def scenario(harness: SessionHarness) -> None:
        assert await part_of(harness).count() == 0.0

    counting(None).run(scenario)


# --- the order of the start


class Ordered(Attached):
    def __init__(self, calls: list[str]) -> None:
        self.calls = calls

    def check_taken(self, data: Any) -> None:
        self.calls.append("check")

    def restore(self, data: Any) -> None:
        self.calls.append("restore")

    async def open(self) -> None:
        await anyio.sleep(0.1)
        self.calls.append("open")

    def link(self, transport: Transport) -> None:
        self.calls.append("link")

    async def begin(self) -> None:
        self.calls.append("begin")

    def entered(self) -> None:
        self.calls.append("entered")

    def take(self) -> Callable[[], Any]:
        return lambda: 1


class Watch:
    """Has a conversation to be taken over."""

    publishes_turns = False
    has_conversation = True

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation

    def session_begins(self, session: Any) -> None:
        self.session = session

    async def take_over(self, check: Callable[[Conversation], object]) -> Conversation | None:
        await anyio.sleep(1.0)
        return self.conversation

    def keeper(self, room: str) -> None:
        return None


@pytest.mark.parametrize("takes_over", [False, True])
def test_the_start_has_one_order_also_where_another_session_s_conversation_is_taken_over(takes_over: bool) -> None:
    before = harness_of(First(lambda host: Ordered([]))).run(until=1.0)
    snapshot, calls = before.session.snapshot(), list[str]()
    harness = harness_of(First(lambda host: Ordered(calls)), agent=Agent("Help.", id=snapshot["agent"]))
    if takes_over:
        with watch_scope(Watch(snapshot)):
            harness.run(until=3.0)
    else:
        harness.resume_from = snapshot
        harness.run(until=3.0)
    assert calls == ["check", "restore", "open", "link", "begin", "entered"]


def test_built_in_extensions_may_be_given_among_the_others_but_not_twice() -> None:
    harness_of(BudgetOptions()).run(until=0.5)
    with pytest.raises(
        ConfigurationError, match=r"two with the key 'memory'; give it once, as SessionOptions\(memory=…\)$"
    ):
        harness_of(MemoryOptions()).run(until=0.5)


def test_an_extension_reads_the_events_of_its_session() -> None:
    heard: list[str] = []

    def listening(host: Host) -> Attached:
        host.context.log.emitter.on(UserTranscript, lambda event: heard.append(event.text))
        return Attached()

    harness = harness_of(First(listening))
    harness.caller.says("a table please", 0.5, 1.5)
    harness.run(until=3.0)
    assert heard == ["a table please"]


def test_speech_that_an_extension_asks_for_as_it_closes_is_spoken_though_the_agent_has_no_on_exit() -> None:
    class Farewell(Attached):
        close_after = "tools"

        def __init__(self, host: Host) -> None:
            self._host = host

        async def aclose(self) -> None:
            _speech = self._host.say("Good bye.")

    harness = harness_of(First(make=Farewell)).run(until=2.0)
    harness.expect_played((2.2, 0.4)).expect_history(("assistant", "Good bye."))


class Withholding(Attached):
    """Withholds speech from the start on; the face lets it begin again."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.face = self

    async def begin(self) -> None:
        self._host.withhold_speech(True)

    def let_speak(self) -> None:
        self._host.withhold_speech(False)


def test_speech_begins_when_no_extension_withholds_it_any_more() -> None:
    async def scenario(harness: SessionHarness) -> None:
        _ = harness.session.say("Good day, this is the clinic.")
        await harness.until(3.0)
        for kind in (First, Second):
            part = harness.session.extension(kind)
            assert isinstance(part, Withholding)
            await harness.until(harness.now + 1.0)
            part.let_speak()

    harness = harness_of(First(Withholding), Second(Withholding))
    harness.caller.says("hello", 0.5, 1.0)
    harness.run(scenario, until=9.0)
    [(opening_at, _), _] = harness.played
    assert opening_at >= 5.0
    harness.expect_history(("user", "hello"), ("assistant", "Good day, this is the clinic."), ("assistant", "Fine."))


def test_speech_is_no_longer_withheld_when_the_close_begins() -> None:
    class Polite(Agent):
        async def on_exit(self) -> None:
            await self.session.say("Good bye.")

    harness = harness_of(First(Withholding), agent=Polite("Help.")).run(until=2.0)
    harness.expect_history(("assistant", "Good bye."))
