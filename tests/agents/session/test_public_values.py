"""Values that an application makes or starts refuse an argument of a wrong kind at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
import pytest

from kit.kinds import BAD, FLAGS, FUNCTIONS, TEXTS, raising, refuses
from vivavoce.agents import (
    Agent,
    AgentSession,
    BackgroundAudioConfig,
    InterruptionOptions,
    RecordingOptions,
    RoomOptions,
    SessionOptions,
    ToolChoice,
    WakeUp,
    Worker,
    WorkerOptions,
    function_tool,
)
from vivavoce.agents.job import JobContext, JobInfo
from vivavoce.agents.mcp_servers import MCPServerHTTP, MCPServerStdio
from vivavoce.agents.server_access import Credentials
from vivavoce.agents.telemetry.options import TelemetryOptions
from vivavoce.agents.testing import run_virtual
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.agents.worker.job import RoomJob
from vivavoce.pipelines import CascadingPipeline
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.llm.chat_context import ChatMessage
from vivavoce.pipelines.media.frame import AudioFrame, VideoFrame
from vivavoce.pipelines.pipeline import Pipeline
from vivavoce.pipelines.realtime import RealtimeOptions, RealtimePipeline
from vivavoce.pipelines.testing import ScriptedRealtimeModel, ScriptedTTS, VirtualClock


async def entrypoint(ctx: object) -> None:
    """Run one call."""


MADE: dict[str, tuple[Callable[[Any], Any], set[str]]] = {
    "AgentSession(agent)": (lambda v: AgentSession(v, pipeline()), set()),
    "AgentSession(pipeline)": (lambda v: AgentSession(Agent("x"), v), {"None"}),
    "AgentSession(conversation_flow)": (lambda v: AgentSession(Agent("x"), pipeline(), v), {"None"}),
    "AgentSession(wake_up)": (lambda v: AgentSession(Agent("x"), pipeline(), wake_up=v), {"None", "number"}),
    "AgentSession(background_audio)": (
        lambda v: AgentSession(Agent("x"), pipeline(), background_audio=v),
        {"None", "empty list", "list", *TEXTS},  # a file that is not there is refused by start()
    ),
    "AgentSession(options)": (lambda v: AgentSession(Agent("x"), pipeline(), options=v), {"None"}),
    "AgentSession(id)": (lambda v: AgentSession(Agent("x"), pipeline(), id=v), {"None", "text"}),
    "Agent(instructions)": (lambda v: Agent(v), TEXTS),
    "Agent(tools)": (lambda v: Agent("x", tools=v), {"empty list"}),
    "Agent(tools=[...])": (lambda v: Agent("x", tools=[v]), set()),
    "Agent(mcp_servers)": (lambda v: Agent("x", mcp_servers=v), {"empty list"}),
    "Agent(id)": (lambda v: Agent("x", id=v), {"None", "text"}),
    "function_tool(name)": (lambda v: function_tool(name=v)(raising), {"None", *TEXTS}),
    "function_tool(description)": (lambda v: function_tool(description=v)(raising), {"None", *TEXTS}),
    "function_tool(cancel_on_interrupt)": (lambda v: function_tool(cancel_on_interrupt=v)(raising), FLAGS),
    "function_tool(idempotent)": (lambda v: function_tool(idempotent=v)(raising), FLAGS),
    "function_tool(timeout)": (lambda v: function_tool(timeout=v)(raising), {"None", "number", "infinite"}),
    "ToolChoice(mode)": (lambda v: ToolChoice(mode=v), set()),
    "ToolChoice(name)": (lambda v: ToolChoice(mode="named", name=v), {"text"}),
    "WakeUp(after)": (lambda v: WakeUp(after=v), {"number"}),
    "WakeUp(repeat)": (lambda v: WakeUp(after=1.0, repeat=v), {"number", "huge"}),
    "BackgroundAudioConfig(file_path)": (lambda v: BackgroundAudioConfig(v), TEXTS),
    "RecordingOptions(path)": (lambda v: RecordingOptions(path=v), TEXTS),
    "RecordingOptions(autostart)": (lambda v: RecordingOptions(autostart=v), FLAGS),
    "RecordingOptions(sample_rate)": (lambda v: RecordingOptions(sample_rate=v), set()),
    "RecordingOptions(consent)": (lambda v: RecordingOptions(consent=v), {"None", "class"}),
    "RoomOptions(audio_input)": (lambda v: RoomOptions(audio_input=v), FLAGS),
    "RoomOptions(participant_grace)": (lambda v: RoomOptions(participant_grace=v), {"number", "infinite"}),
    "RoomOptions(participant_kinds)": (lambda v: RoomOptions(participant_kinds=v), set()),
    "RoomOptions(input_rate)": (lambda v: RoomOptions(input_rate=v), set()),
    "RoomOptions(output_rate)": (lambda v: RoomOptions(output_rate=v), set()),
    "RoomOptions(track_name)": (lambda v: RoomOptions(track_name=v), TEXTS),
    "Worker(entrypoint)": (lambda v: Worker(v), set()),
    "Worker(agent_name)": (lambda v: Worker(entrypoint, agent_name=v), TEXTS),
    "Worker(options)": (lambda v: Worker(entrypoint, options=v), set()),
    "WorkerOptions(url)": (lambda v: WorkerOptions(url=v), {"None", *TEXTS}),
    "WorkerOptions(max_jobs)": (lambda v: WorkerOptions(max_jobs=v), {"number", "huge"}),
    "WorkerOptions(permissions)": (lambda v: WorkerOptions(permissions=v), set()),
    "WorkerOptions(prewarm)": (lambda v: WorkerOptions(prewarm=v), {"None", "class"}),
    "WorkerOptions(drain_timeout)": (lambda v: WorkerOptions(drain_timeout=v), {"number", "infinite"}),
    "WorkerOptions(request_timeout)": (lambda v: WorkerOptions(request_timeout=v), set()),
    "WorkerOptions(health_port)": (lambda v: WorkerOptions(health_port=v), {"None", "number"}),
    "TelemetryOptions(endpoint)": (lambda v: TelemetryOptions(endpoint=v), {"None", *TEXTS}),
    "TelemetryOptions(sampling)": (lambda v: TelemetryOptions(sampling=v), {"None"}),
    "TelemetryOptions(flush_timeout)": (lambda v: TelemetryOptions(flush_timeout=v), {"number", "infinite"}),
    "CascadingPipeline(tts)": (lambda v: CascadingPipeline(tts=v), set()),
    "CascadingPipeline(options)": (lambda v: CascadingPipeline(tts=ScriptedTTS(), options=v), {"None"}),
    "RealtimePipeline(model)": (lambda v: RealtimePipeline(v), set()),
    "RealtimePipeline(options)": (lambda v: RealtimePipeline(ScriptedRealtimeModel(), options=v), {"None"}),
    "RealtimeOptions(answers)": (lambda v: RealtimeOptions(answers=v), {"None"}),
    "RealtimeOptions(text_filters)": (lambda v: RealtimeOptions(text_filters=v), {"empty list"}),
    "InterruptionOptions(mode)": (lambda v: InterruptionOptions(mode=v), set()),
    "SessionOptions(telemetry)": (lambda v: SessionOptions(telemetry=v), {"None"}),
    "SessionOptions(clock)": (lambda v: SessionOptions(clock=v), set()),
    "MCPServerStdio(command)": (lambda v: MCPServerStdio(v), {"text"}),
    "MCPServerStdio(start_timeout)": (lambda v: MCPServerStdio("x", start_timeout=v), {"number", "infinite"}),
    "MCPServerHTTP(url)": (lambda v: MCPServerHTTP(v), set()),
    "ChatMessage(role)": (lambda v: ChatMessage(role=v, content="x"), set()),
    "ChatMessage(content)": (lambda v: ChatMessage(role="user", content=v), TEXTS),
    "AudioFrame(data)": (lambda v: AudioFrame(v, 16000), {"bytes"}),
    "AudioFrame(sample_rate)": (lambda v: AudioFrame(b"", v), {"number", "huge"}),
    "AudioFrame(num_channels)": (lambda v: AudioFrame(b"", 16000, v), {"number", "huge"}),
    "VideoFrame(data)": (lambda v: VideoFrame(v, "image/jpeg"), {"bytes"}),
    "VideoFrame(media_type)": (lambda v: VideoFrame(b"", v), TEXTS),
}
"""A value made before any session runs, with one argument from the test, and the accepted kinds."""


def pipeline() -> Pipeline:
    return CascadingPipeline(tts=ScriptedTTS())


@pytest.mark.parametrize("name", MADE)
async def test_what_is_made_with_an_argument_of_another_kind_is_refused(name: str) -> None:
    make, taken = MADE[name]
    for bad in (bad for kind, bad in BAD.items() if kind not in taken):
        await refuses(partial(make, bad()))


STARTS: dict[str, tuple[Callable[[AgentSession[Any], VirtualClock, Any], Any], set[str]]] = {
    "room": (lambda s, c, v: s.start(v), {"None"}),
    "participant": (lambda s, c, v: s.start(LocalTransport(c), participant=v), {"None", "text"}),
    "room_options": (lambda s, c, v: s.start(LocalTransport(c), room_options=v), {"None"}),
    "resume_from": (lambda s, c, v: s.start(LocalTransport(c), resume_from=v), {"None"}),
}


@pytest.mark.parametrize("name", STARTS)
def test_a_start_with_an_argument_of_another_kind_is_refused_and_the_next_start_works(name: str) -> None:
    call, taken = STARTS[name]

    async def scenario() -> None:
        clock = VirtualClock()
        session = AgentSession[None](Agent("Help."), pipeline(), options=SessionOptions(clock=clock))
        for make in (make for kind, make in BAD.items() if kind not in taken):
            await refuses(partial(call, session, clock, make()))
        async with session:
            await session.start(LocalTransport(clock))
            await session.say("One.")
            assert len(session.history.messages()) == 1

    run_virtual(scenario())


def test_an_agent_whose_class_forgets_the_constructor_is_refused() -> None:
    class Forgetful(Agent):
        def __init__(self) -> None:
            self.name = "Bob"

    with pytest.raises(ConfigurationError, match=r"Forgetful.__init__ does not call super\(\).__init__"):
        AgentSession(Forgetful(), pipeline())


JOBS: dict[str, tuple[Callable[[JobContext, Any], Any], set[str]]] = {
    "connect(auto_subscribe)": (lambda job, v: job.connect(auto_subscribe=v), FLAGS),
    "wait_for_participant(identity)": (lambda job, v: job.wait_for_participant(v), {"None", *TEXTS}),
    "wait_for_participant(kind)": (lambda job, v: job.wait_for_participant(kind=v), {"None", "number", "huge"}),
    "wait_for_participant(limit)": (lambda job, v: job.wait_for_participant(limit=v), {"number", "infinite"}),
    "participant_token(identity)": (lambda job, v: job.participant_token(v), {"text"}),
    "participant_token(name)": (lambda job, v: job.participant_token("ann", name=v), TEXTS),
    "participant_token(metadata)": (lambda job, v: job.participant_token("ann", metadata=v), TEXTS),
    "participant_token(attributes)": (lambda job, v: job.participant_token("ann", attributes=v), {"None", "dict"}),
    "participant_token(grants)": (lambda job, v: job.participant_token("ann", grants=v), {"None"}),
    "participant_token(ttl)": (lambda job, v: job.participant_token("ann", ttl=v), {"number"}),
    "add_shutdown_callback": (lambda job, v: job.add_shutdown_callback(v), FUNCTIONS),
    "shutdown(reason)": (lambda job, v: job.shutdown(v), TEXTS),
}
"""A public call of a running job -> the call with one argument from the test, and the accepted kinds."""


@pytest.mark.parametrize("name", JOBS)
async def test_a_job_refuses_every_argument_of_another_kind_and_runs_on(name: str) -> None:
    call, taken = JOBS[name]
    async with anyio.create_task_group() as tasks:
        account = Credentials(url="ws://127.0.0.1:9", api_key="key", api_secret="secret" * 6)
        job = RoomJob(JobInfo(id="AJ_1", room="r"), url="", token="", shared={}, tasks=tasks, credentials=account)
        context = job.context
        for make in (make for kind, make in BAD.items() if kind not in taken):
            await refuses(partial(call, context, make()))
        assert context.reason == ""
        context.shutdown("done")
    assert context.reason == "done"
