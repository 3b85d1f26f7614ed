"""A cascade sees the caller: pictures by rate and by change go into the user's turns, few of them, the oldest leave."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from vivavoce.agents import (
    Agent,
    AgentOverrides,
    AgentSession,
    ContextWindow,
    RoomOptions,
    SessionOptions,
    VideoInputOptions,
    function_tool,
)
from vivavoce.agents.events import TurnCompleted
from vivavoce.agents.testing import ScriptedLLM, SessionHarness, VirtualClock, run_virtual
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.pipelines import CascadingPipeline, RealtimePipeline
from vivavoce.pipelines.core.errors import CapabilityError, ConfigurationError, ProviderError
from vivavoce.pipelines.llm.base import GenerateRequest, LLMCapabilities
from vivavoce.pipelines.llm.chat_context import FunctionCallOutput
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.media.frame import VideoFrame
from vivavoce.pipelines.testing import ScriptedRealtimeModel, ScriptedSTT, ScriptedTTS

AHEAD = 3.3
"""Seconds until an answer to the words from 2.0 to 3.0 has been begun ahead, and the turn is not over."""
SEES = LLMCapabilities(supports_images=True, supports_tools=True)

Session = AgentSession[Any]
Scenario = Callable[[Session, LocalTransport], Awaitable[None]]


def seeing(*script: Any) -> ScriptedLLM:
    return ScriptedLLM(*script, capabilities=SEES)


def call(
    llm: ScriptedLLM,
    scenario: Scenario,
    *,
    agent: Agent | None = None,
    window: ContextWindow | None = None,
    tell: Callable[[Session], None] = lambda _: None,
    pipeline: CascadingPipeline | None = None,
    **video: Any,
) -> Session:
    """Run a session whose caller shows pictures and types."""
    sessions: list[Session] = []

    async def main() -> None:
        clock = VirtualClock()
        room = LocalTransport(clock)
        given = pipeline or CascadingPipeline(stt=ScriptedSTT(), llm=llm, tts=ScriptedTTS())
        options = SessionOptions(clock=clock, context_window=window)
        async with AgentSession[Any](agent or Agent("Look."), given, options=options) as session:
            sessions.append(session)
            await session.start(room, room_options=RoomOptions(video_input=VideoInputOptions(**video)))
            await scenario(session, room)

    run_virtual(main())
    return sessions[0]


def picture(name: str) -> VideoFrame:
    return VideoFrame(name.encode(), "image/jpeg", 64, 48)


def cells(grey: int, *, other: int = 0, changed: int = 0) -> bytes:
    """A thumbnail of one grey, with some cells of another."""
    return bytes([other] * changed + [grey] * (1024 - changed))


async def show(room: LocalTransport, *names: str) -> None:
    """Show pictures, one a second."""
    for name in names:
        room.push_video(picture(name))
        await anyio.sleep(1.05)


async def ask(session: Session, text: str) -> None:
    """Type, and hear the answer."""
    over = anyio.Event()
    session.once(TurnCompleted, lambda _: over.set())
    session.input.text(text)
    with anyio.fail_after(30):
        await over.wait()


def seen(request: GenerateRequest) -> list[list[str]]:
    """The pictures of each user's message in a request."""
    return [[image.data.decode() for image in message.images] for message in request.context.messages("user")]


def test_the_newest_pictures_go_with_the_turn_and_stay_with_it() -> None:
    llm = seeing("A cat.", "Still a cat.", "A dog.")

    async def scenario(session: Session, room: LocalTransport) -> None:
        await show(room, "1", "2", "3", "4")
        await ask(session, "What is it?")
        await ask(session, "And now?")
        await show(room, "5")
        await ask(session, "And now?")

    session = call(llm, scenario, max_turn_images=3, max_images=6)
    assert [seen(request) for request in llm.requests] == [
        [["2", "3", "4"]],
        [["2", "3", "4"], []],
        [["2", "3", "4"], [], ["5"]],
    ]
    assert all(not message.images for message in session.history.messages())  # the history stays small
    assert "images" not in str(session.snapshot())


def test_of_many_turns_the_oldest_pictures_leave_the_request_first() -> None:
    llm = seeing("One.", "Two.", "Three.")

    async def scenario(session: Session, room: LocalTransport) -> None:
        for turn in ("a", "b", "c"):
            await show(room, f"{turn}1", f"{turn}2")
            await ask(session, turn)

    call(llm, scenario, max_turn_images=2, max_images=3)
    assert seen(llm.requests[-1]) == [[], ["b2"], ["c1", "c2"]]


def test_pictures_that_have_hardly_changed_are_left_out() -> None:
    llm = seeing("Done.")

    async def scenario(session: Session, room: LocalTransport) -> None:
        looks = [
            ("first", cells(200)),
            ("noise", cells(203)),
            ("cursor", cells(200, other=0, changed=2)),
            ("line of text", cells(200, other=100, changed=20)),
            ("the same", cells(200, other=100, changed=20)),
            ("back", cells(200)),
        ]
        for name, thumbnail in looks:
            room.push_video(picture(name), thumbnail=thumbnail)
            await anyio.sleep(1.05)
        await ask(session, "What?")

    call(llm, scenario, max_turn_images=6)
    assert seen(llm.requests[0]) == [["first", "line of text", "back"]]


def test_with_a_change_of_zero_each_picture_is_kept() -> None:
    llm = seeing("Done.")

    async def scenario(session: Session, room: LocalTransport) -> None:
        for name in "12":
            room.push_video(picture(name), thumbnail=cells(9))
            await anyio.sleep(1.05)
        await ask(session, "What?")

    call(llm, scenario, min_change=0.0)
    assert seen(llm.requests[0]) == [["1", "2"]]


def test_words_get_the_tokens_of_the_window_before_older_pictures_and_the_newest_is_always_sent() -> None:
    llm = seeing("One.", "Two.", "Three.")

    async def scenario(session: Session, room: LocalTransport) -> None:
        for turn in ("a", "b"):
            await show(room, turn)
            await ask(session, turn)
        await ask(session, "c")

    call(llm, scenario, window=ContextWindow(max_tokens=900))
    assert seen(llm.requests[1]) == [[], ["b"]]  # a picture counts 800: one has room
    assert [message.content for message in llm.requests[1].context.messages("user")] == ["a", "b"]
    assert seen(llm.requests[2]) == [[], ["b"], []]


def test_what_is_on_the_screen_is_shown_though_the_window_has_cut_the_turn_that_it_came_with() -> None:
    llm = seeing("One.", "Two.", "Three.", "Four.")

    async def scenario(session: Session, room: LocalTransport) -> None:
        await show(room, "screen")
        await ask(session, "a")
        await ask(session, "b")
        await ask(session, "c")
        room.stop_video()
        await ask(session, "d")

    call(llm, scenario, window=ContextWindow(max_items=3))
    assert seen(llm.requests[2]) == [[], ["screen"]]
    assert [message.content for message in llm.requests[2].context.messages("user")] == ["b", "c"]
    assert seen(llm.requests[3]) == [[], []]  # the caller shows nothing any more


def test_each_step_of_an_answer_with_tools_sees_the_same() -> None:
    class Looker(Agent):
        @function_tool
        async def look_up(self) -> str:
            """Look something up."""
            return "found"

    llm = seeing([ToolCall(call_id="c", name="look_up", arguments="{}")], "Found it.")

    async def scenario(session: Session, room: LocalTransport) -> None:
        await show(room, "1")
        await ask(session, "What?")

    call(llm, scenario, agent=Looker("Look."))
    assert [seen(request) for request in llm.requests] == [[["1"]], [["1"]]]


def test_reply_is_given_the_newest_pictures_of_the_caller() -> None:
    llm = seeing("I see.", "I see.")

    async def scenario(session: Session, room: LocalTransport) -> None:
        assert session.input.frames() == ()
        await show(room, "1", "2", "3")
        assert session.input.frames() == (picture("3"),)
        await session.reply("Say what you see.", frames=session.input.frames(2))
        await session.reply("Go on.")
        with pytest.raises(ConfigurationError, match="count"):
            session.input.frames(0)

    call(llm, scenario)
    assert [seen(request) for request in llm.requests] == [[["2", "3"]], []]


def test_a_muted_caller_is_not_seen() -> None:
    llm = seeing("Hm.")

    async def scenario(session: Session, room: LocalTransport) -> None:
        session.input.mute()
        await show(room, "secret")
        session.input.mute(False)
        await ask(session, "What?")

    call(llm, scenario)
    assert seen(llm.requests[0]) == [[]]


def test_a_model_that_takes_no_images_is_refused_at_the_start_and_the_error_says_what_to_do() -> None:
    async def scenario(session: Session, room: LocalTransport) -> None:
        raise AssertionError("it started")

    with pytest.raises(CapabilityError, match="use an LLM that takes images"):
        call(ScriptedLLM("Hm."), scenario)


def test_after_a_fallback_to_a_pipeline_that_does_not_see_no_request_carries_pictures() -> None:
    llm, blind, stt = seeing("A cat."), ScriptedLLM("What cat?", "Hello."), ScriptedSTT()

    async def scenario(session: Session, room: LocalTransport) -> None:
        await show(room, "1")
        await ask(session, "What is it?")
        stt.fail(ProviderError("no", provider="scripted", retryable=False))
        await anyio.sleep(1.0)
        await show(room, "2")
        await ask(session, "And now?")
        await session.update_agent(Agent("Look again.", id="next"))  # nothing is lost by that any more
        await ask(session, "Hello?")
        assert session.agent.id == "next"

    class Backed(CascadingPipeline):
        fallback = CascadingPipeline(stt=ScriptedSTT(), llm=blind, tts=ScriptedTTS())

    call(llm, scenario, pipeline=Backed(stt=stt, llm=llm, tts=ScriptedTTS()))
    assert seen(llm.requests[0]) == [["1"]]
    assert [seen(request) for request in blind.requests] == [[[], []], [[], [], []]]


BLIND = ScriptedLLM("What cat?")
CHANGES: dict[str, Callable[[Session], object]] = {
    "update_components": lambda session: session.update_components(llm=BLIND),
    "update_pipeline": lambda session: session.update_pipeline(
        CascadingPipeline(stt=ScriptedSTT(), llm=BLIND, tts=ScriptedTTS())
    ),
    "update_pipeline to a realtime model": lambda session: session.update_pipeline(
        RealtimePipeline(ScriptedRealtimeModel())
    ),
    "update_agent": lambda session: session.update_agent(Agent("Hear.", overrides=AgentOverrides(llm=BLIND))),
}
"""Changes to a model that does not see."""


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_to_a_model_that_does_not_see_is_refused_while_the_caller_is_seen(name: str) -> None:
    llm = seeing("A cat.", "Still a cat.")

    async def scenario(session: Session, room: LocalTransport) -> None:
        agent, pipeline = session.agent, session.pipeline
        await show(room, "1")
        with pytest.raises(CapabilityError, match="seeing the caller's video.*use an LLM that takes images"):
            CHANGES[name](session)
        await ask(session, "What is it?")
        await anyio.sleep(5.0)
        await ask(session, "And now?")
        assert (session.agent, session.pipeline) == (agent, pipeline)

    call(llm, scenario)
    assert len(llm.requests) == 2
    assert BLIND.requests == []


def test_an_agent_of_a_tool_that_does_not_see_does_not_take_over_and_the_model_is_told() -> None:
    class Front(Agent):
        @function_tool
        async def transfer(self) -> Agent:
            """Hand over."""
            return Agent("Hear.", id="blind", overrides=AgentOverrides(llm=BLIND))

    llm = seeing([ToolCall(call_id="c", name="transfer", arguments="{}")], "Sorry.")
    agent = Front("Look.")

    async def scenario(session: Session, room: LocalTransport) -> None:
        await show(room, "1")
        await ask(session, "Somebody else, please.")
        assert session.agent is agent

    session = call(llm, scenario, agent=agent)
    (output,) = [item for item in session.history.items if isinstance(item, FunctionCallOutput)]
    assert output.output == "Not handed over to 'blind': it cannot take over."


def test_an_agent_that_sees_does_not_hand_over_to_a_pipeline_that_does_not() -> None:
    llm = seeing("A cat.")

    async def scenario(session: Session, room: LocalTransport) -> None:
        await show(room, "1")
        with pytest.raises(CapabilityError, match="seeing the caller's video"):
            _ = session.update_agent(Agent("Hear."))
        await session.update_agent(Agent("Look.", id="next", overrides=AgentOverrides(llm=llm)))
        await ask(session, "What is it?")

    blind = CascadingPipeline(stt=ScriptedSTT(), llm=BLIND, tts=ScriptedTTS())
    seer = Agent("Look.", overrides=AgentOverrides(llm=seeing("Hm.")))
    session = call(llm, scenario, agent=seer, pipeline=blind)
    assert session.agent.id == "next"
    assert seen(llm.requests[0]) == [["1"]]


def test_without_video_a_model_that_does_not_see_may_take_over() -> None:
    harness = SessionHarness(Agent("Help."), seeing("Hm."))

    async def scenario(harness: SessionHarness) -> None:
        await harness.session.update_components(llm=ScriptedLLM("Hello."))
        harness.session.input.text("Hello?")
        await harness.until(5.0)

    harness.run(scenario).expect_history(("user", "Hello?"), ("assistant", "Hello."))


@pytest.mark.parametrize("changes", [False, True])
def test_an_answer_begun_ahead_counts_only_if_the_screen_is_still_the_same(changes: bool) -> None:
    llm = seeing("A cat.", "A dog.")
    harness = SessionHarness(Agent("Look."), llm)
    harness.caller.says("what is it", 2.0, 3.0)

    async def main() -> None:
        clock = VirtualClock()
        room = LocalTransport(clock)
        harness.caller.begin(room, clock)
        async with AgentSession[Any](harness.agent, harness.pipeline, options=SessionOptions(clock=clock)) as session:
            await session.start(room, room_options=RoomOptions(video_input=True))
            room.push_video(picture("1"))
            await anyio.sleep(AHEAD)
            assert len(llm.requests) == 1
            assert not session.turns
            if changes:
                room.push_video(picture("2"))
            await anyio.sleep(8.0)
            assert session.turns[0].preemptive is not changes
        harness.caller.stop()

    run_virtual(main())
    wanted = ["1", "2"] if changes else ["1"]
    assert seen(llm.requests[-1]) == [wanted]
    assert len(llm.requests) == (2 if changes else 1)
