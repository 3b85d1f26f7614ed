"""A session's trace: asked for by option or environment, one file a session, never in the call's way."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import anyio
import pytest

from vivavoce.agents import Agent, AgentSession, SessionOptions, function_tool
from vivavoce.agents.testing import ScriptedLLM, SessionHarness, run_virtual
from vivavoce.agents.traces import trace_writer
from vivavoce.agents.traces.trace_rules import rules_here
from vivavoce.agents.traces.trace_writer import TraceWriter
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.agents.turn import inputs as i
from vivavoce.agents.turn.options import TurnOptions
from vivavoce.agents.turn.trace.replay import Trace, read_trace, replay
from vivavoce.pipelines import CascadingPipeline
from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.core.errors import ProviderConnectionError
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.realtime import RealtimePipeline
from vivavoce.pipelines.testing import ScriptedRealtimeModel, ScriptedSTT, ScriptedTTS, ScriptedVAD, VirtualClock


def call(trace_path: str | Path | None) -> SessionHarness:
    """Return a call with one question and its answer."""
    harness = SessionHarness(
        Agent("Help."),
        ScriptedLLM([0.1, "For how many?"], default="Fine."),
        options=SessionOptions(trace_path=trace_path),
    )
    harness.caller.says("a table", 0.5, 1.5)
    harness.caller.types("half \ud800 of it", 4.0)
    return harness


def read(path: Path) -> Trace:
    with path.open(encoding="utf-8", errors="surrogatepass", newline="\n") as file:
        return read_trace(file)


def test_a_session_that_is_asked_to_writes_a_trace_that_replays(tmp_path: Path) -> None:
    harness = call(tmp_path / "traces").run(until=6.0)
    path = tmp_path / "traces" / f"{harness.session.id}.jsonl"
    trace = read(path)
    assert (trace.session_id, trace.end) == (harness.session.id, "closed")
    assert trace.rules == rules_here() != ""
    assert trace.graph == ()
    assert '"machine"' not in path.read_text(errors="replace")
    assert [trace.steps[number].event["is"] for number in (0, -1)] == ["SessionStarting", "SessionClosed"]
    (final,) = [step.event for step in trace.steps if step.event["is"] == "UserFinal"]
    assert (final["text"], final["item_id"], final["audio_seconds"]) == ("a table", "", 0.0)
    assert replay(trace) is None
    assert path.stat().st_mode & 0o777 == 0o600
    assert not any(thread.name.startswith("trace") for thread in threading.enumerate())


def test_the_trace_replays_the_loss_of_a_pipeline(tmp_path: Path) -> None:
    down = ProviderConnectionError("down", provider="scripted", retryable=False)
    model, stt = ScriptedRealtimeModel(), ScriptedSTT()
    cascade = CascadingPipeline(stt=stt, llm=ScriptedLLM("Five.", delay=0.1), tts=ScriptedTTS(), vad=ScriptedVAD())
    pipeline = RealtimePipeline(model, vad=ScriptedVAD(), fallback=cascade)
    options = SessionOptions(trace_path=tmp_path)
    harness = SessionHarness(Agent("Help."), stt=stt, pipeline=pipeline, options=options)
    harness.caller.says("what is two and three", 2.0, 3.0)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.0)
        model.fail_open(*[down] * 9)
        model.fail(down)

    harness.run(scenario, until=6.0)
    harness.expect_history(("user", "what is two and three"), ("assistant", "Five."))
    trace = read(tmp_path / f"{harness.session.id}.jsonl")
    kinds = [step.event["is"] for step in trace.steps]
    order = [kinds.index(kind) for kind in ("PipelineLost", "PipelineReady", "PipelineChangeDue", "UserFinal")]
    assert order == sorted(order)
    assert replay(trace) is None


def test_the_trace_replays_the_late_answer_to_a_tool(tmp_path: Path) -> None:
    class Clerk(Agent):
        @function_tool
        async def look_up(self) -> str:
            """Look it up."""
            await anyio.sleep(2.0)
            return "seven"

    call = ToolCall(call_id="c1", name="look_up", arguments="{}")
    model = ScriptedLLM([call], "Seven it is.", delay=0.1)
    harness = SessionHarness(Clerk("Help."), model, options=SessionOptions(trace_path=tmp_path))
    harness.caller.says("how many", 0.5, 1.0)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(2.0)
        await harness.session.interrupt()

    harness.run(scenario, until=8.0)
    assert harness.messages[-1] == ("assistant", "Seven it is.")
    trace = read(tmp_path / f"{harness.session.id}.jsonl")
    answers = [effect for step in trace.steps for effect in step.effects or [] if effect["is"] == "AnswerHistory"]
    assert answers == [{"is": "AnswerHistory", "speech_id": "late_answer_1", "turn_id": "turn_1"}]
    assert replay(trace) is None


def test_a_trace_changes_no_time(tmp_path: Path) -> None:
    plain, traced = call("").run(until=6.0), call(tmp_path).run(until=6.0)
    assert plain.states == traced.states
    assert plain.played == traced.played


def test_the_environment_asks_too_and_the_option_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIVAVOCE_TRACE", str(tmp_path / "env" / "call.jsonl"))
    asked = call(None).run(until=3.0).session.id
    call("").run(until=3.0)
    chosen = call(tmp_path / "own").run(until=3.0).session.id
    assert [path.name for path in (tmp_path / "env").iterdir()] == [f"call.{asked}.jsonl"]
    assert [path.name for path in (tmp_path / "own").iterdir()] == [f"{chosen}.jsonl"]


def test_nothing_is_written_and_no_thread_begun_where_nobody_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VIVAVOCE_TRACE", raising=False)
    monkeypatch.chdir(tmp_path)
    before = set(threading.enumerate())  # an earlier test's may end meanwhile, so that their number says nothing

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(2.0)
        begun = set(threading.enumerate()) - before
        others = ("loop guard", "preparing")  # the kit's own, and that of a start, which may still be ending
        assert [thread.name for thread in begun if not thread.name.startswith(others)] == []

    call(None).run(scenario)
    assert list(tmp_path.iterdir()) == []


def test_sessions_of_one_process_never_share_a_file_even_under_one_id(tmp_path: Path) -> None:
    async def one(number: int) -> None:
        clock = VirtualClock()
        session = AgentSession[None](
            Agent("Help."),
            CascadingPipeline(tts=ScriptedTTS()),
            options=SessionOptions(trace_path=tmp_path / "all.jsonl", clock=clock),
            id="twin" if number < 3 else f"own_{number}",
        )
        async with session:
            await session.start(LocalTransport(clock))
            await session.say(" ".join(["word"] * (number + 1)))

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for number in range(5):
                group.start_soon(one, number)

    run_virtual(main())
    names = ["all.own_3.jsonl", "all.own_4.jsonl", "all.twin-2.jsonl", "all.twin-3.jsonl", "all.twin.jsonl"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    traces = [read(tmp_path / name) for name in names]
    assert [trace.end for trace in traces] == ["closed"] * 5
    assert all(replay(trace) is None for trace in traces)
    assert len({trace.steps[-1].at for trace in traces}) == 5  # each said so many words


def test_a_start_that_fails_leaves_a_trace_that_ends(tmp_path: Path) -> None:
    class Silent(Agent):
        async def on_enter(self) -> None:
            raise RuntimeError("no")

    harness = SessionHarness(Silent("Help."), options=SessionOptions(trace_path=tmp_path))
    with pytest.raises(RuntimeError, match="no"):
        harness.run()
    (path,) = tmp_path.iterdir()
    trace = read(path)
    assert trace.end == "closed"
    assert trace.steps[-1].event["is"] == "SessionClosed"


def test_a_disk_that_refuses_is_logged_once_and_harms_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("in the way")
    with caplog.at_level(logging.INFO):
        harness = call(tmp_path / "file" / "traces").run(until=6.0)
    harness.expect_history(
        ("user", "a table"), ("assistant", "For how many?"), ("user", "half \ufffd of it"), ("assistant", "Fine.")
    )
    assert harness.close_report is not None
    assert harness.close_report.is_clean
    told = [record.getMessage() for record in caplog.records if "traced" in record.getMessage()]
    assert len(told) == 1
    assert "Not a directory; the call goes on" in told[0]


def test_a_disk_that_is_too_slow_ends_the_trace_and_not_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(trace_writer, "MAX_WAITING", 3)
    os_fifo = tmp_path / "slow.jsonl"
    released = threading.Event()

    class Stalling(TraceWriter):
        def _open(self):  # type: ignore[no-untyped-def]
            released.wait(60)
            return super()._open()

    async def main() -> None:
        writer = Stalling(os_fifo, "session_1", LoopClock())
        machine = writer.recorded_machine(TurnOptions())
        for now in range(5):
            machine.handle(i.Tick(), now=float(now))
        await writer.written(0.01)
        released.set()
        await writer.written(60.0)
        writer.close()

    anyio.run(main)
    trace = read(os_fifo)
    assert (len(trace.steps), trace.end) == (3, "the disk was too slow")
    assert replay(trace) is None
    assert [record.getMessage().split(";")[0] for record in caplog.records] == [
        "The trace of session session_1 ends: 3 steps wait for the disk",
        "The trace of session session_1 is still being written",
    ]
