"""The law of calls on realtime models: each call that a server keeps in its conversation gets exactly one output there.

It holds for servers that go on while a call is open, and for servers that wait for its output; for all actions of
caller and application, at any time; whoever ends the turns. `VIVAVOCE_LAWS=2000` draws that many sessions.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal

import anyio
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kit.realtime_ledger import LedgerModel
from vivavoce.agents import Agent, SessionOptions, SpeechLimits, ToolChoice, function_tool
from vivavoce.agents.agent import CompletedTurn, StopResponse
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.testing import SessionHarness
from vivavoce.pipelines.core.errors import ProviderError, ToolError
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.realtime import RealtimePipeline
from vivavoce.pipelines.realtime_model.base import RealtimeCapabilities
from vivavoce.pipelines.testing import ScriptedVAD, StepItem

CALLS = int(os.environ.get("VIVAVOCE_LAWS", "60"))
pytestmark = pytest.mark.timeout(max(240, CALLS))

END = 12.0
NONE = ToolChoice(mode="none")


class Desk(Agent):
    """Its tools end in each way in which a tool can end."""

    def __init__(self, drops: bool = False) -> None:
        super().__init__("Help.")
        self.drops = drops

    @function_tool
    async def look_up(self, seconds: float) -> str:
        """Look something up."""
        await anyio.sleep(seconds)
        return "found"

    @function_tool(cancel_on_interrupt=True)
    async def search(self, seconds: float) -> str:
        """Search."""
        await anyio.sleep(seconds)
        return "found"

    @function_tool(timeout=0.5)
    async def hang(self, seconds: float) -> str:
        """Take too long, or fail."""
        await anyio.sleep(seconds)
        raise ToolError("broken")

    @function_tool
    async def speak(self, seconds: float) -> str:
        """Speak."""
        await self.session.say("one two")
        return "said"

    @function_tool
    async def transfer(self, seconds: float) -> Agent:
        """Hand over."""
        await anyio.sleep(seconds)
        return Desk(self.drops)

    async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
        if self.drops:
            await anyio.sleep(0.1)
            raise StopResponse


@dataclass(frozen=True)
class Action:
    """Something that happens at `at`."""

    kind: Literal[
        "noise",
        "types",
        "reply",
        "none",
        "protected",
        "cuts_in",
        "interrupt",
        "instructions",
        "agent",
        "remote",
        "lost",
    ]
    at: float
    length: float


actions = (
    st.lists(
        st.builds(
            Action,
            kind=st.sampled_from(
                [
                    "noise",
                    "noise",
                    "types",
                    "reply",
                    "none",
                    "protected",
                    "cuts_in",
                    "interrupt",
                    "instructions",
                    "agent",
                    "remote",
                    "remote",
                    "lost",  # once: a session closes whose model is lost again and again
                ]
            ),
            at=st.integers(1, 70).map(lambda tenths: tenths / 10),
            length=st.integers(1, 15).map(lambda tenths: tenths / 10),
        ),
        min_size=1,
        max_size=6,
    )
    .map(lambda found: sorted(found, key=lambda action: action.at))
    .filter(lambda found: sum(action.kind == "lost" for action in found) <= 1)
)

TOOLS = ["look_up", "search", "hang", "speak", "transfer", "unknown"]
Answer = list[tuple[str, float] | str | float]

answers = st.lists(
    st.one_of(
        st.sampled_from(["one two three. ", "one two three four five six seven. "]),
        st.sampled_from([0.1, 0.5, 1.5]),
        st.tuples(st.sampled_from(TOOLS), st.sampled_from([0.0, 0.3, 2.0])),
        st.tuples(st.sampled_from(TOOLS), st.sampled_from([0.0, 0.3, 2.0])),
        st.sampled_from(["error"]),
    ),
    min_size=1,
    max_size=4,
)


class Numbered:
    """Makes the steps of a script, whose calls have numbers."""

    def __init__(self) -> None:
        self._count = 0

    def step(self, answer: Answer) -> list[StepItem]:
        """Return a step; it ends with an error."""
        made: list[StepItem] = []
        for piece in answer:
            if piece == "error":
                return [*made, ProviderError("broken", provider="scripted")]
            if isinstance(piece, tuple):
                name, seconds = piece
                self._count += 1
                arguments = f'{{"seconds": {seconds}}}' if seconds else "{"
                made.append(ToolCall(call_id=f"c{self._count}", name=name, arguments=arguments))
            else:
                made.append(piece)
        return made


@dataclass(frozen=True)
class Setting:
    """The server, and the session."""

    is_local: bool
    waits: bool
    updates: bool
    answers_results: bool
    drops: bool
    max_tool_steps: int
    open_delay: float


settings_of_a_call = st.builds(
    Setting,
    is_local=st.booleans(),
    waits=st.booleans(),
    updates=st.sampled_from([True, True, False]),
    answers_results=st.booleans(),
    drops=st.sampled_from([False, False, False, True]),
    max_tool_steps=st.sampled_from([0, 1, 5]),
    open_delay=st.sampled_from([0.0, 0.2]),
)


@settings(
    max_examples=CALLS,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(plan=actions, script=st.lists(answers, min_size=8, max_size=8), setting=settings_of_a_call)
def test_each_call_that_a_server_keeps_gets_exactly_one_output(
    plan: list[Action], script: list[Answer], setting: Setting
) -> None:
    numbered = Numbered()
    can = RealtimeCapabilities(updates=setting.updates, answers_results=setting.answers_results)
    model = LedgerModel(
        *[numbered.step(answer) for answer in script],
        waits=setting.waits,
        default="Fine.",
        capabilities=can,
        open_delay=setting.open_delay,
    )
    pipeline = RealtimePipeline(model, vad=ScriptedVAD() if setting.is_local else None)
    options = SessionOptions(
        max_errors=1000, speech=SpeechLimits(max_tool_steps=setting.max_tool_steps, llm_first_token=3.0)
    )
    harness = SessionHarness(Desk(setting.drops), model=model, pipeline=pipeline, options=options)
    free_from = 0.0
    for action in plan:
        if action.kind == "noise":
            start = max(action.at, free_from)
            free_from = start + action.length + 0.4
            harness.caller.makes_noise(start, start + action.length)

    async def act(harness: SessionHarness) -> None:
        session = harness.session
        for action in plan:
            await harness.until(action.at)
            match action.kind:
                case "types":
                    session.input.text("hello there")
                case "reply":
                    _ = session.reply("Go on.", when_busy="queue")
                case "none":
                    _ = session.reply("Go on.", when_busy="queue", tool_choice=NONE)
                case "protected":
                    _ = session.reply("Go on.", interruptible=False)
                case "cuts_in":
                    _ = session.reply("Go on.", when_busy="interrupt")
                case "interrupt":
                    _ = session.interrupt()
                case "instructions":
                    session.agent.update_instructions(f"Help at {action.at}.")
                case "agent":
                    _ = session.update_agent(Desk(setting.drops))
                case "remote" if not setting.is_local and model.is_connected and model.steps:
                    model.start_reply(model.steps.pop(0))
                case "lost" if model.is_connected:
                    model.fail()

    harness.run(act, until=END)
    assert harness.close_report is not None
    assert harness.close_report.is_clean
    assert not [fault for fault in harness.recording.of(ErrorOccurred) if "AssertionError" in str(fault.error)]
    model.check()
