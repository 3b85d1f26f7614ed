"""Laws of a whole session: they hold for all actions of caller and application, at any time, with every option.

A quick run draws some calls; `VIVAVOCE_LAWS=2000 pytest tests/scenarios/test_laws.py` draws that many.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import anyio
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kit.realtime import realtime_of
from vivavoce.agents import (
    Agent,
    ChatContext,
    ContextWindow,
    EndpointingOptions,
    Handoff,
    InterruptionOptions,
    MemoryOptions,
    PipelineChange,
    SessionOptions,
    SpeechHandle,
    WakeUp,
    function_tool,
)
from vivavoce.agents.events import (
    SpeechCreated,
    TurnCompleted,
    WakeUpFired,
)
from vivavoce.agents.memory import InProcessStore
from vivavoce.agents.testing import Caller, ScriptedLLM, ScriptedTTS, SessionHarness, VirtualClock
from vivavoce.agents.turn.trace.replay import read_trace, replay
from vivavoce.pipelines.llm.chat_context import AgentHandoff, FunctionCall, FunctionCallOutput
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.pipeline import Pipeline
from vivavoce.pipelines.stt.base import STTCapabilities
from vivavoce.pipelines.testing import HANG, ScriptedSTT, ScriptedVAD, StepItem
from vivavoce.pipelines.testing.scripted_turn_detector import ScriptedTurnDetector
from vivavoce.pipelines.vad.base import VADOptions

CALLS = int(os.environ.get("VIVAVOCE_LAWS", "60"))
pytestmark = pytest.mark.timeout(max(240, CALLS))  # a loaded machine; the signal in mid-step looks like a broken law

END = 16.0


class Desk(Agent):
    async def on_enter(self) -> None:
        self.session.on_wake_up = self.ask

    async def ask(self, level: int) -> None:
        await self.session.say(f"s{level}wake")

    @function_tool
    async def look_up(self, seconds: float) -> str:
        """Look something up."""
        await anyio.sleep(seconds)
        return "found"

    @function_tool
    async def transfer(self, seconds: float) -> Agent:
        """Hand over to an agent that greets."""
        await anyio.sleep(seconds)
        return Greeter("Help.")


class Greeter(Desk):
    async def on_enter(self) -> None:
        await self.session.say("e0 e1 e2")

    async def on_exit(self) -> None:
        _ = self.session.say("x0 x1")


@dataclass(frozen=True)
class Action:
    """An action at `at`, a multiple of 0.1; `length` is the duration of its sound or the number of its words."""

    kind: Literal[
        "says",
        "noise",
        "types",
        "say",
        "protected",
        "reply",
        "cuts_in",
        "interrupt",
        "force",
        "hands_off",
        "changes",
        "commits",
    ]
    at: float
    length: int
    delay: float
    guessed: Literal["no", "all", "a part"] = "no"
    """The part of the words in an interim, in the middle of them."""
    typed: tuple[float, ...] = ()
    """When something is typed after the words, in seconds from their end: perhaps before their final."""


actions = st.lists(
    st.builds(
        Action,
        kind=st.sampled_from(
            [
                "says",
                "says",
                "noise",
                "types",
                "say",
                "protected",
                "reply",
                "cuts_in",
                "interrupt",
                "force",
                "hands_off",
                "changes",
                "commits",
            ]
        ),
        at=st.integers(1, 80).map(lambda tenths: tenths / 10),
        length=st.integers(1, 12),
        delay=st.integers(1, 12).map(lambda tenths: tenths / 10),
        guessed=st.sampled_from(["no", "all", "a part"]),
        typed=st.sampled_from([(), (), (), (0.3,), (0.3, 0.4), (0.2, 0.5)]),
    ),
    min_size=1,
    max_size=8,
).map(lambda found: sorted(found, key=lambda action: action.at))


TOOLS = {0.3: "look_up", 2.0: "look_up", 0.1: "transfer", 1.0: "transfer"}
"""The called tool, by its duration in seconds."""


def answers(seed: list[tuple[float, int, float]]) -> list[list[StepItem]]:
    steps: list[list[StepItem]] = []
    for number, (delay, words, tool_seconds) in enumerate(seed):
        text = " ".join(f"a{number}x{word}" for word in range(words)) + "."
        steps.append([delay, text] if words else [delay])
        if tool_seconds:
            arguments = f'{{"seconds": {tool_seconds}}}'
            steps[-1].append(ToolCall(call_id=f"c{number}", name=TOOLS[tool_seconds], arguments=arguments))
    return steps


model_script = st.lists(
    st.tuples(st.sampled_from([0.0, 0.1, 0.5, 1.3]), st.integers(0, 12), st.sampled_from([0.0, 0.0, 0.0, *TOOLS])),
    min_size=30,
    max_size=30,
).map(answers)


windows = st.sampled_from([None, None, ContextWindow(max_items=1), ContextWindow(max_items=4, max_tokens=60)])
wake_ups = st.none() | st.builds(
    WakeUp, after=st.sampled_from([0.3, 1.0, 3.0]), repeat=st.integers(1, 3), backoff=st.sampled_from([1.0, 1.5])
)


turn_taking = st.builds(
    EndpointingOptions,
    mode=st.sampled_from(["fixed", "fixed", "dynamic", "manual"]),
    no_words=st.sampled_from([0.5, 3.0]),
    max_delay=st.sampled_from([1.2, 3.0]),
    max_turn_words=st.sampled_from([None, None, 2]),
    max_turn_duration=st.sampled_from([None, None, 1.0]),
)
interrupting = st.builds(
    InterruptionOptions,
    backchannels=st.just(frozenset({"mhm"})),
    enabled=st.sampled_from([True, True, True, False]),
    mode=st.sampled_from(["pause", "pause", "immediate"]),
    min_words=st.sampled_from([0, 0, 2]),
    max_pause=st.sampled_from([None, 0.7, 5.0]),
    echo_warm_up=st.sampled_from([0.0, 0.0, 3.0]),
)


@dataclass(frozen=True)
class Setting:
    """The arguments of the session."""

    ahead: Literal["nothing", "model", "voice"]
    """The part that is begun before a turn is over."""
    has_words: bool
    wake_up: WakeUp | None
    window: ContextWindow | None
    endpointing: EndpointingOptions = EndpointingOptions()
    interruption: InterruptionOptions = InterruptionOptions()
    hears_by: Literal["edges", "ends", "words"] = "edges"
    """Whether the VAD reports pauses of the voice, or ends of speech only, or there is none (in a cascade)."""
    min_silence: float = 0.2
    has_interims: bool = True
    verdict_after: float | None = None
    """Seconds for a turn detector's verdict; None without one."""
    judges: Literal["nothing", "turns", "and resumes"] = "nothing"
    """Whether the recogniser judges turns: an eager end at each interim, perhaps taken back, an end at each final."""


settings_of_a_call = st.builds(
    Setting,
    endpointing=turn_taking,
    interruption=interrupting,
    hears_by=st.sampled_from(["edges", "ends", "words"]),
    min_silence=st.sampled_from([0.2, 0.5]),
    has_interims=st.sampled_from([True, True, False]),
    verdict_after=st.sampled_from([None, None, 0.1, HANG]),
    judges=st.sampled_from(["nothing", "nothing", "turns", "and resumes"]),
    ahead=st.sampled_from(["nothing", "model", "voice"]),
    has_words=st.booleans(),
    wake_up=wake_ups,
    window=windows,
)


class Call:
    """One run of the actions, with its results."""

    def __init__(self, plan: list[Action], script: list[list[StepItem]], setting: Setting) -> None:
        self.words: list[str] = []
        self.handles: list[SpeechHandle] = []
        self.handoffs: list[Handoff] = []
        self.changes: list[PipelineChange] = []
        self.snapshots: list[dict[str, Any]] = []
        self.store = InProcessStore(clock=VirtualClock())
        traces = TemporaryDirectory()
        vad = ScriptedVAD(VADOptions(min_silence=setting.min_silence), reports_edges=setting.hears_by == "edges")
        is_cascade = SessionHarness.pipeline_of.__name__ == "cascade"
        self.harness = SessionHarness(
            Desk("Help."),
            ScriptedLLM(*script, default="More."),
            tts=ScriptedTTS(emits_words=setting.has_words),
            options=SessionOptions(
                trace_path=traces.name,
                away_after=2.0,
                context_window=setting.window,
                memory=MemoryOptions(store=self.store),
                preemptive_tts=setting.ahead == "voice",
                endpointing=setting.endpointing,
                interruption=setting.interruption,
            ),
            wake_up=setting.wake_up,
            stt=ScriptedSTT(
                capabilities=STTCapabilities(
                    emits_interims=setting.has_interims, emits_end_of_turn=setting.judges != "nothing"
                )
            ),
            vad=None if setting.hears_by == "words" and is_cascade else vad,
            turn_detector=None if setting.verdict_after is None else ScriptedTurnDetector(delay=setting.verdict_after),
        )
        self.ears: dict[Pipeline, ScriptedSTT] = {self.harness.pipeline: self.harness.stt}
        self.judges = setting.judges
        self.harness.caller = Caller(self._recognise)
        self.harness.preemptive = setting.ahead != "nothing"
        free_from, typed = 0.0, list[Action]()
        for action in plan:
            if action.kind not in ("says", "noise"):
                continue
            start = round(max(action.at, free_from), 1)  # one mouth
            end = round(start + action.length / 10, 1)
            free_from = end + 0.4
            if action.kind == "noise":
                self.harness.caller.makes_noise(start, end)
            else:
                words = self._new_words(action.length)
                guess = {"no": [], "all": [words], "a part": [words.split()[0]]}[action.guessed]
                guess = guess if setting.has_interims else []
                interims = [(start + action.length / 20, text) for text in guess]
                self.harness.caller.says(words, start, end, final_at=end + action.delay / 2, interims=interims)
                typed += [replace(action, kind="types", at=round(end + after, 1)) for after in action.typed]
        others = [action for action in plan if action.kind not in ("says", "noise")]
        self.plan = sorted(others + typed, key=lambda action: action.at)
        with traces:
            self.harness.run(self._act, until=END)
            (path,) = Path(traces.name).iterdir()
            with path.open(encoding="utf-8", newline="\n") as file:
                self.trace = read_trace(file)

    def _recognise(self, text: str, is_final: bool, item_id: str) -> None:
        stt = self.ears[self.harness.session.pipeline]  # the present recogniser
        (stt.final if is_final else stt.interim)(text)
        if self.judges != "nothing" and is_final:
            stt.end_of_turn()
        elif self.judges != "nothing":
            stt.eager_end_of_turn()
            if self.judges == "and resumes":
                stt.turn_resumed()

    def _new_pipeline(self, action: Action) -> Pipeline:
        """A cascade, or a realtime model with separate ears: all share the model's script and the voice."""
        make = realtime_of if action.length % 2 else SessionHarness.pipeline_of
        stt = ScriptedSTT()
        pipeline = make(self.harness.llm, stt, self.harness.tts)
        self.ears[pipeline] = stt
        return pipeline

    def _new_words(self, length: int) -> str:
        new = [f"u{len(self.words) + number}" for number in range(1 + length // 3)]
        self.words += new
        return " ".join(new)

    async def _act(self, harness: SessionHarness) -> None:
        session = harness.session
        for number, action in enumerate(self.plan):
            await harness.until(action.at)
            self.snapshots.append(session.snapshot())
            text = " ".join(f"s{number}x{word}" for word in range(action.length))
            match action.kind:
                case "types":
                    session.input.text(self._new_words(action.length))
                case "say":
                    self.handles.append(session.say(text))
                case "protected":
                    self.handles.append(session.say(text, interruptible=False))
                case "reply":
                    self.handles.append(session.reply(text))
                case "cuts_in":
                    self.handles.append(session.reply(text, when_busy="interrupt"))
                case "interrupt":
                    _ = session.interrupt()
                case "force":
                    _ = session.interrupt(force=True)
                case "changes":
                    self.changes.append(session.update_pipeline(self._new_pipeline(action), within=action.delay * 20))
                case "commits":
                    session.input.commit_turn()
                case "hands_off":
                    self.handoffs.append(session.update_agent(Greeter("Help.")))


@settings(
    max_examples=CALLS,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(plan=actions, script=model_script, setting=settings_of_a_call)
@example(  # typed during continuing speech, whose final comes more than a second after its commit
    plan=[
        Action("says", 0.1, 1, 0.1),
        Action("says", 0.1, 1, 0.1),
        Action("says", 4.4, 12, 0.1, typed=(0.3,)),
        Action("says", 4.4, 10, 1.2, guessed="all"),
        Action("protected", 5.4, 5, 0.1),
    ],
    script=[[0.0]] * 30,
    setting=Setting(ahead="nothing", has_words=False, wake_up=None, window=None),
)
@example(  # words are recognised before the VAD is sure of the speech
    plan=[Action("says", 7.5, 1, 0.1, guessed="all")],
    script=[[0.0]] * 30,
    setting=Setting(ahead="nothing", has_words=False, wake_up=None, window=None),
)
@example(  # the limit of words cuts a speech by an interim that has all of it; its final comes late
    plan=[
        Action("says", 0.1, 1, 0.1),
        Action("says", 0.1, 1, 0.1),
        Action("says", 4.4, 9, 1.2, guessed="all"),
    ],
    script=[[0.0]] * 30,
    setting=Setting(
        ahead="nothing",
        has_words=False,
        wake_up=None,
        window=None,
        endpointing=EndpointingOptions(max_turn_words=2),
    ),
)
@example(  # ended before its words came, which are recognised before the VAD is sure of the speech
    plan=[
        Action("says", 0.1, 1, 0.4, guessed="all"),
        Action("commits", 0.1, 1, 0.1),
    ],
    script=[[0.0]] * 30,
    setting=Setting(
        ahead="nothing",
        has_words=False,
        wake_up=None,
        window=None,
        endpointing=EndpointingOptions(mode="manual"),
    ),
)
@example(  # without a VAD, words that were typed on get their final behind the first interim of the next words
    plan=[
        Action("says", 0.1, 1, 1.0, guessed="all", typed=(0.3,)),
        Action("says", 0.1, 1, 0.1, guessed="all"),
    ],
    script=[[0.0]] * 30,
    setting=Setting(ahead="nothing", has_words=False, wake_up=None, window=None, hears_by="words"),
)
def test_whatever_happens_the_laws_of_a_session_hold(
    plan: list[Action], script: list[list[StepItem]], setting: Setting
) -> None:
    call = Call(plan, script, setting)
    harness = call.harness
    assert harness.close_report is not None
    assert harness.close_report.is_clean
    assert all(handle.is_done and handle.outcome is not None for handle in call.handles)
    assert {handoff.outcome for handoff in call.handoffs} <= {"completed", "cancelled"}
    assert {change.outcome for change in call.changes} <= {"completed", "failed", "cancelled"}
    assert all(change.is_done for change in call.changes)
    harness.check_laws()
    check_handoffs(harness)
    check_outcomes(harness)
    check_user_words(call)
    check_tools(harness)
    check_history(call)
    check_wake_ups(harness, setting.wake_up)
    check_trace(call)


def check_outcomes(harness: SessionHarness) -> None:
    """Nothing has an outcome that was not begun: no hook of this agent drops a turn."""
    created = harness.recording.of(SpeechCreated)
    begun = {event.turn_id if event.kind == "turn" else event.speech_id for event in created}
    assert {event.record.turn_id for event in harness.recording.of(TurnCompleted)} <= begun


def check_user_words(call: Call) -> None:
    """Every word of the user that a turn could still take is in exactly one message."""
    found = Counter(word for role, text in call.harness.messages if role == "user" for word in text.split())
    assert all(count == 1 for count in found.values()), found
    assert set(found) <= set(call.words)
    lost = [word for word in call.words if word not in found]
    assert lost == [], f"lost {lost}"


def check_handoffs(harness: SessionHarness) -> None:
    """The chain of agents in the history begins with the first one and ends with the agent that is there."""
    chain = [
        (item.old_agent, item.new_agent) for item in harness.session.history.items if isinstance(item, AgentHandoff)
    ]
    agents = ["Desk", *(new for _, new in chain)]
    assert chain == list(pairwise(agents))
    assert harness.session.agent.id == agents[-1]


def check_tools(harness: SessionHarness) -> None:
    """No call exists twice: this model gives each an id of its own."""
    for context in (harness.session.history.copy(), *(request.context for request in harness.llm.requests)):
        calls = [item.call_id for item in context if isinstance(item, FunctionCall)]
        assert len(set(calls)) == len(calls)


def check_history(call: Call) -> None:
    """The store holds the items of the history; a snapshot holds whole calls, and nothing newer than its counters."""
    history = call.harness.session.history
    assert asyncio.run(call.store.history(call.harness.session.id)) == history.copy()
    for snapshot in [*call.snapshots, call.harness.session.snapshot()]:
        context = ChatContext.from_json(json.loads(json.dumps(snapshot["history"])))
        calls = Counter(item.call_id for item in context if isinstance(item, FunctionCall))
        assert calls == Counter(item.call_id for item in context if isinstance(item, FunctionCallOutput))
        assert [item.sequence for item in context] == sorted({item.sequence for item in context})
        assert all(item.sequence <= snapshot["counters"]["items"] for item in context)
        turns = {f"turn_{number}" for number in range(1, snapshot["counters"]["turns"] + 1)}
        assert {message.turn_id for message in context.messages("user")} <= turns


def check_trace(call: Call) -> None:
    """A fresh machine with the same inputs has the same effects."""
    assert call.trace.end == "closed"
    assert replay(call.trace) is None


def check_wake_ups(harness: SessionHarness, wake_up: WakeUp | None) -> None:
    """Levels go to `repeat` at most."""
    for event in harness.recording.of(WakeUpFired):
        assert wake_up is not None
        assert event.level <= wake_up.repeat
