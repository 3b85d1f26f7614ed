"""`vivavoce serve` on loopback: Twilio's webhook and its sockets, with a real server and a scripted Twilio."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import numpy as np
import pytest
from aiohttp import web

from kit.call_server import PUBLIC, STREAM, TOKEN, free_port, served, until
from kit.cli import in_this_process
from vivavoce.agents import Agent, AgentSession, JobContext
from vivavoce.agents.caller.call import Components, Destination, hold_call, problem_of
from vivavoce.agents.caller.ears import open_ears
from vivavoce.agents.caller.line import Line
from vivavoce.agents.caller.measuring import first_sound
from vivavoce.agents.caller.script import CallScript
from vivavoce.agents.caller.script_mind import ScriptMind
from vivavoce.agents.caller.twilio_end import connected_to_webhook
from vivavoce.agents.cli.serve.server import checked_public_url
from vivavoce.agents.testing import ScriptedLLM, ScriptedSTT, ScriptedTTS, ScriptedVAD
from vivavoce.agents.transports.media_stream.twilio.webhook import signature
from vivavoce.pipelines.cascading import CascadingPipeline
from vivavoce.pipelines.core.errors import ConfigurationError, RoomError
from vivavoce.pipelines.media.wav import read_wav


class Host(Agent):
    def __init__(self) -> None:
        super().__init__("Help.")

    async def on_enter(self) -> None:
        await self.session.say("Hello.")


async def entrypoint(ctx: JobContext) -> None:
    participant = await ctx.wait_for_participant()
    if participant.identity == "+1666":
        raise RuntimeError("this call fails")
    stt, llm = ScriptedSTT(["a table please"]), ScriptedLLM("For how many?")
    pipeline = CascadingPipeline(vad=ScriptedVAD(), stt=stt, llm=llm, tts=ScriptedTTS())
    await AgentSession(Host(), pipeline).start()


async def test_a_call_is_answered_and_the_greeting_is_heard() -> None:
    async with served(entrypoint) as server:
        async with server.phone(await server.parameters()) as phone:
            await until(lambda: len(phone.played) >= 0.2 * 16000)
            (job,) = server.calls.state().status.active_jobs
            assert job.room == "CA1"
            phone.hang_up()
            await until(lambda: not server.calls.count)
        assert server.calls.state().status.counts.succeeded == 1


async def test_an_unsigned_request_gets_no_token_and_an_unsigned_socket_is_not_opened() -> None:
    async with served(entrypoint) as server:
        assert (await server.ask(token="forged")).status == 403
        assert (await server.client.post(f"{server.url}/twilio", data={"CallSid": "CA1"})).status == 403
        for headers in ({}, {"x-twilio-signature": "forged"}):
            with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
                await server.client.ws_connect(f"{server.url}/twilio/stream", headers=headers)
            assert caught.value.status == 403


async def test_a_token_that_is_used_twice_or_was_never_given_closes_the_stream() -> None:
    async with served(entrypoint) as server:
        parameters = await server.parameters()
        async with server.phone(parameters) as phone:
            await until(lambda: server.calls.count == 1)
            async with server.phone(parameters) as again:
                await until(lambda: again.is_over)
                assert again.close_code == 1008
            async with server.phone({"token": "0" * 32}) as foreign:
                await until(lambda: foreign.is_over)
                assert foreign.close_code == 1008
            assert server.calls.count == 1
            assert not phone.is_over


async def test_many_calls_are_held_at_once_and_one_that_fails_or_talks_nonsense_does_not_touch_them() -> None:
    async with served(entrypoint, limit=12) as server, anyio.create_task_group() as tasks:
        greeted = list[bool]()

        async def call() -> None:
            async with server.phone(await server.parameters()) as phone:
                await until(lambda: len(phone.played) >= 0.2 * 16000)
                greeted.append(True)
                await until(lambda: len(greeted) == 8)

        for _ in range(8):
            tasks.start_soon(call)
        async with server.phone(await server.parameters("+1666")) as phone:
            await until(lambda: phone.is_over)
        async with server.client.ws_connect(f"{server.url}/twilio/stream", headers=STREAM) as nonsense:
            await nonsense.send_str("{")
            assert (await nonsense.receive()).type is aiohttp.WSMsgType.CLOSE
        async with server.client.ws_connect(f"{server.url}/twilio/stream", headers=STREAM) as huge:
            with suppress(ConnectionError):  # the server does not read it to its end
                await huge.send_str("x" * 10_000_000)
            closed = (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.ERROR)
            assert (await huge.receive()).type in closed
        await until(lambda: len(greeted) == 8)
        assert server.calls.state().status.counts.failed == 1


async def test_a_server_that_is_full_or_drains_takes_no_call_and_keeps_those_that_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with served(entrypoint, limit=1) as server:
        parameters = await server.parameters()
        async with server.phone(parameters) as phone:
            await until(lambda: server.calls.count == 1)
            assert (await server.ask()).status == 503
            assert "a call was refused: of at most 1 calls, 1 are running and 0 are about to begin" in caplog.text
            server.calls.drain()
            await until(lambda: len(phone.played) >= 0.2 * 16000)
            phone.hang_up()
            with anyio.fail_after(5.0):
                await server.calls.wait_over()
        assert (await server.ask()).status == 503
        assert "a call was refused: the server is ending" in caplog.text
        assert server.calls.state().status.is_draining


async def test_a_call_that_was_answered_has_its_place_until_its_stream_comes(caplog: pytest.LogCaptureFixture) -> None:
    async with served(entrypoint, limit=2) as server:
        parameters = [await server.parameters(), await server.parameters()]
        assert (await server.ask()).status == 503  # both places are given away
        assert "of at most 2 calls, 0 are running and 2 are about to begin" in caplog.text
        server.calls.drain()
        async with server.phone(parameters[0]), server.phone(parameters[1]):
            await until(lambda: server.calls.count == 2)
            server.calls.stop("the test ends")
            await server.calls.wait_over()


async def test_no_stream_begins_behind_the_end_of_all_calls() -> None:
    async with served(entrypoint) as server:
        parameters = await server.parameters()
        server.calls.stop("the test ends")
        async with server.phone(parameters) as phone:
            await until(lambda: phone.is_over)
            assert phone.close_code == 1008


async def test_a_request_that_is_repeated_gets_no_second_token() -> None:
    async with served(entrypoint) as server:
        fields = {"CallSid": "CA1", "From": "+15550100", "To": "+15550199"}
        signed = {"X-Twilio-Signature": signature(TOKEN, f"{PUBLIC}/twilio", fields.items())}
        first, again = [await server.client.post(f"{server.url}/twilio", data=fields, headers=signed) for _ in "12"]
        assert (first.status, again.status) == (200, 403)
        assert "came before" in await again.text()


async def test_a_vendor_that_is_not_there_any_more_ends_the_call() -> None:
    async with served(entrypoint, heartbeat=0.2) as server:
        facts = {"streamSid": "MZ1", "callSid": "CA1", "mediaFormat": {"encoding": "audio/x-mulaw"}}
        start = {**facts, "customParameters": await server.parameters()}
        async with server.client.ws_connect(f"{server.url}/twilio/stream", headers=STREAM, autoping=False) as socket:
            await socket.send_json({"event": "start", "streamSid": "MZ1", "start": start})
            await until(lambda: server.calls.count == 1)
            await until(lambda: not server.calls.count)


async def test_a_request_that_is_no_socket_and_one_to_another_address_are_errors(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with served(entrypoint) as server:
        assert (await server.client.get(f"{server.url}/twilio/stream", headers=STREAM)).status == 426
        for path in ("/telnyx", "/", "/twilio/twilio", "/telnyx"):
            assert (await server.client.post(f"{server.url}{path}")).status == 404
        assert (await server.client.put(f"{server.url}/twilio")).status == 404
        refused = [record.getMessage() for record in caplog.records if "was refused" in record.getMessage()]
        webhook = "was refused: the webhook is https://phone.example.com/twilio, by POST"
        told = ("POST '/telnyx'", "POST '/'", "POST '/twilio/twilio'", "PUT '/twilio'")
        assert refused == [f"a request {each} {webhook}" for each in told]
        huge = await server.client.post(f"{server.url}/twilio", data=b"x" * 100_000)
        assert huge.status == 413


@pytest.mark.parametrize("path", ["/twilio", "/voice/twilio"])
async def test_a_proxy_may_take_the_path_of_the_public_address_away_or_leave_it(path: str) -> None:
    public = "https://phone.example.com/voice"
    fields = {"CallSid": "CA1", "From": "+15550100", "To": "+15550199"}
    signed = {"X-Twilio-Signature": signature(TOKEN, f"{public}/twilio", fields.items())}
    stream = {"X-Twilio-Signature": signature(TOKEN, "wss://phone.example.com/voice/twilio/stream", [])}
    async with served(entrypoint, public=public) as server:
        answer = await server.client.post(f"{server.url}{path}", data=fields, headers=signed)
        assert answer.status == 200
        assert "wss://phone.example.com/voice/twilio/stream" in await answer.text()
        async with server.client.ws_connect(f"{server.url}{path}/stream", headers=stream) as websocket:
            assert not websocket.closed


@pytest.mark.parametrize(("public", "is_warned"), [("http://phone.example.com", True), ("http://127.0.0.1:1", False)])
async def test_a_public_address_without_tls_is_a_warning_at_the_start(
    public: str, is_warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(entrypoint, public=public):
        assert ("twilio opens streams by wss alone" in caplog.text) is is_warned


async def test_a_stream_that_is_refused_is_closed_with_the_reason() -> None:
    async with served(entrypoint) as server:
        async with server.client.ws_connect(f"{server.url}/twilio/stream", headers=STREAM) as websocket:
            start = {"streamSid": "MZ1", "callSid": "CA1", "customParameters": {}}
            start["mediaFormat"] = {"encoding": "audio/x-mulaw", "sampleRate": 8000, "channels": 1}
            await websocket.send_json({"event": "start", "streamSid": "MZ1", "start": start})
            closed = await websocket.receive()
            assert closed.type is aiohttp.WSMsgType.CLOSE
            assert closed.data == 1008
            assert "no token that holds" in str(closed.extra)


@pytest.mark.test_all("seconds of real time; the two ends are in make test, each alone")
async def test_the_simulated_caller_holds_a_call_on_twilios_wire(tmp_path: Path) -> None:
    script = CallScript.model_validate({"steps": [{"say": "a table please", "pause": 0.4, "expect": {"within": 3.0}}]})
    mind, port = ScriptMind(script, has_ears=False), free_port()
    components = Components(vad=ScriptedVAD(), stt=None, voice={"a table please": b"\x00\x10" * 16000})
    public = f"http://127.0.0.1:{port}"
    async with served(entrypoint, public=public, port=port) as server:
        to = Destination(url=public, token=TOKEN, wire="twilio", limit=18.0)
        line = await hold_call(to, mind, components, tmp_path / "call.wav")
        await until(lambda: not server.calls.count)
        assert server.calls.state().status.counts.succeeded == 1
    assert (line.ended_by, problem_of(line, 18.0)) == ("caller", "")
    caller, agent = np.split(read_wav(tmp_path / "call.wav").to_numpy(), 2, axis=1)
    assert abs(np.count_nonzero(caller) / 16000 - 1.0) < 0.05
    assert abs(np.count_nonzero(np.abs(agent) > 500) / 16000 - 0.8) < 0.1  # "Hello." and "For how many?"


async def test_the_simulated_caller_presses_keys_on_twilios_wire() -> None:
    port, pressed = free_port(), list[str]()
    public = f"http://127.0.0.1:{port}"

    async def answers(ctx: JobContext) -> None:
        stt, llm = ScriptedSTT(), ScriptedLLM()
        session = AgentSession(Host(), CascadingPipeline(vad=ScriptedVAD(), stt=stt, llm=llm, tts=ScriptedTTS()))
        session.on("key_pressed", lambda event: pressed.append(event.key))
        await session.start()

    async with (
        served(answers, public=public, port=port) as server,
        open_ears(ScriptedVAD(), None) as ears,
        connected_to_webhook(public, TOKEN, ears, answer_limit=10.0) as call,
    ):
        await until(lambda: server.calls.count == 1)
        for key in "1#":
            await call.mouth.press(key)
        await until(lambda: pressed == ["1", "#"])


async def test_the_simulated_caller_says_why_no_call_could_be_placed(tmp_path: Path) -> None:
    script = CallScript.model_validate({"steps": [{"say": "hi"}]})
    components = Components(vad=ScriptedVAD(), stt=None, voice={"hi": bytes(640)})
    port = free_port()
    public = f"http://127.0.0.1:{port}"
    for token, words in (("12345", "no server answers the call"), ("forged", "refused the call: HTTP 403")):
        to = Destination(url=public, token=token, wire="twilio", limit=18.0)
        async with AsyncExitStack() as stack:
            if token == "forged":
                await stack.enter_async_context(served(entrypoint, public=public, port=port))
            with pytest.raises(RoomError, match=words):
                await hold_call(to, ScriptMind(script, has_ears=False), components, tmp_path / "call.wav")


async def holds(script: dict[str, Any], entrypoint: Callable[[JobContext], Awaitable[None]], tmp_path: Path) -> Line:
    """The simulated caller's call of an agent, by Twilio's wire."""
    lines = {step["say"]: b"\x00\x10" * 3200 for step in script["steps"]}
    mind, port = ScriptMind(CallScript.model_validate(script), has_ears=False), free_port()
    public = f"http://127.0.0.1:{port}"
    async with served(entrypoint, public=public, port=port):
        to = Destination(url=public, token=TOKEN, wire="twilio", limit=18.0)
        components = Components(vad=ScriptedVAD(), stt=None, voice=lines)
        return await hold_call(to, mind, components, tmp_path / "call.wav")


async def test_a_simulated_caller_whose_agent_waits_for_it_speaks_first(tmp_path: Path) -> None:
    async def waits(ctx: JobContext) -> None:
        stt, llm = ScriptedSTT(["hi"]), ScriptedLLM("Hello.")
        session = AgentSession(
            Agent("Help."), CascadingPipeline(vad=ScriptedVAD(), stt=stt, llm=llm, tts=ScriptedTTS())
        )
        await session.start()

    script = {"greeting": False, "steps": [{"say": "hi", "pause": 0.1, "expect": {"within": 3.0}}]}
    line = await holds(script, waits, tmp_path)
    assert (line.ended_by, problem_of(line, 18.0)) == ("caller", "")


async def test_a_greeting_is_as_late_as_the_caller_hears_it(tmp_path: Path) -> None:
    async def is_slow(ctx: JobContext) -> None:
        await anyio.sleep(0.3)
        await entrypoint(ctx)

    await holds({"steps": [{"say": "hi", "pause": 0.1, "expect": {"silent_for": 0.1}}]}, is_slow, tmp_path)
    greeted_after = first_sound(read_wav(tmp_path / "call.wav"))
    assert greeted_after is not None
    assert greeted_after >= 0.3


async def test_a_call_whose_agent_fails_before_it_speaks_says_where_the_reason_is(tmp_path: Path) -> None:
    async def fails(ctx: JobContext) -> None:
        raise RuntimeError("no key")

    line = await holds({"steps": [{"say": "hi"}]}, fails, tmp_path)
    problem = "the agent left before the script was over, before the first line; the agent's log may say why"
    assert (line.ended_by, problem_of(line, 18.0)) == ("agent", problem)


async def test_an_agent_may_hang_up_without_a_word(tmp_path: Path) -> None:
    async def hangs_up(ctx: JobContext) -> None:
        pipeline = CascadingPipeline(vad=ScriptedVAD(), stt=ScriptedSTT(), llm=ScriptedLLM(), tts=ScriptedTTS())
        session = AgentSession(Agent("Help."), pipeline)
        await session.start()
        await session.hangup()

    script = {"greeting": False, "steps": [{"say": "hi", "pause": 0.0, "expect": {"leaves_within": 3.0}}]}
    line = await holds(script, hangs_up, tmp_path)
    assert (line.ended_by, problem_of(line, 18.0)) == ("agent", "")


async def test_a_call_whose_connection_breaks_is_not_one_that_the_agent_ends(tmp_path: Path) -> None:
    async def answer(request: web.Request) -> web.Response:
        stream = f"ws://127.0.0.1:{port}/stream"
        return web.Response(text=f'<Response><Connect><Stream url="{stream}"/></Connect></Response>')

    async def breaks(request: web.Request) -> web.WebSocketResponse:
        websocket = web.WebSocketResponse()
        await websocket.prepare(request)
        media = {"payload": base64.b64encode(b"\xff" * 160).decode()}
        await websocket.send_json({"event": "media", "media": media})
        assert request.transport is not None
        request.transport.abort()
        return websocket

    port, app = free_port(), web.Application()
    app.router.add_post("/twilio", answer)
    app.router.add_get("/stream", breaks)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        script = CallScript.model_validate({"steps": [{"say": "hi"}]})
        components = Components(vad=ScriptedVAD(), stt=None, voice={"hi": bytes(640)})
        to = Destination(url=f"http://127.0.0.1:{port}", token=TOKEN, wire="twilio", limit=18.0)
        line = await hold_call(to, ScriptMind(script, has_ears=False), components, tmp_path / "call.wav")
    finally:
        await runner.cleanup()
    assert (line.ended_by, problem_of(line, 18.0)) == ("room", "the connection to the server was lost")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--wire", "telnyx", "--url", "http://127.0.0.1:1"), "--wire must be twilio, got 'telnyx'"),
        (("--wire", "twilio"), "--wire needs --url"),
        (("--wire", "twilio", "--url", "http://127.0.0.1:1"), "set TWILIO_AUTH_TOKEN"),
        (
            ("--wire", "twilio", "--url", "http://127.0.0.1:1", "--room", "a"),
            "--room and --agent-name are for a",
        ),
        (("--wire", "twilio", "--url", "http://127.0.0.1:1", "--agent-name", "a"), "leave them out with --wire"),
    ],
)
def test_a_call_by_wire_names_the_option_that_is_missing(
    arguments: tuple[str, ...], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "call.toml"
    script.write_text('[[steps]]\nsay = "hi"\n')
    status, printed = in_this_process(capsys)("call", str(script), *arguments, env={"TWILIO_AUTH_TOKEN": ""})
    assert status == 1
    assert words in " ".join(printed.split())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--wire", "acme", "--public-url", PUBLIC), "--wire must be one of twilio"),
        (("--wire", "twilio", "--public-url", PUBLIC), "set TWILIO_AUTH_TOKEN"),
    ],
)
def test_serve_names_the_option_that_is_missing(
    arguments: tuple[str, ...], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    app = tmp_path / "app.py"
    app.write_text("async def entrypoint(ctx):\n    pass\n")
    status, printed = in_this_process(capsys)("serve", str(app), *arguments, env={"TWILIO_AUTH_TOKEN": ""})
    assert status == 1
    assert words in " ".join(printed.split())


@pytest.mark.parametrize(
    "url", ["", "phone.example.com", "wss://phone.example.com", "https://", "https://a?b=c", "https://a:b@c"]
)
def test_a_public_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="--public-url must be the https address"):
        checked_public_url(url)


def test_a_public_url_may_have_a_path() -> None:
    assert checked_public_url("https://example.com/voice/") == "https://example.com/voice"
