"""openai.RealtimeModel against the scripted server: the port's promises, its messages, and failures."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Annotated

import anyio
import pytest

from kit.limits import LIMIT
from kit.open_connection import Session, opened_by, words
from vivavoce.pipelines.core.errors import (
    ConfigurationError,
    ProviderConnectionError,
    ProviderError,
    ProviderStatusError,
)
from vivavoce.pipelines.llm.base import Done, GenerateRequest, LLMEvent, TextDelta, Usage
from vivavoce.pipelines.llm.chat_context import ChatContext, ChatMessage, FunctionCall, FunctionCallOutput
from vivavoce.pipelines.llm.tools import ToolCall, ToolChoice, function_tool
from vivavoce.pipelines.media.frame import AudioFrame, VideoFrame
from vivavoce.pipelines.realtime_model.base import (
    RealtimeInputCommitted,
    RealtimeProblem,
    RealtimeReplyCancelled,
    RealtimeReplyStarted,
    RealtimeSetup,
    RealtimeSpeechEnded,
    RealtimeSpeechStarted,
    RealtimeTranscript,
)
from vivavoce.pipelines.testing import check_failure, check_realtime_model
from vivavoce.pipelines.testing.realtime_server import (
    AnswerFault,
    AskedFor,
    ScriptedAnswer,
    ScriptedCall,
    ScriptedRealtimeServer,
    ScriptedWords,
)
from vivavoce.pipelines.testing.realtime_server.script import tone
from vivavoce.pipelines.tts.base import AudioChunk
from vivavoce.plugins import openai

SPEECH = AudioFrame(tone(0.6), 24000)


@function_tool
def weather(city: Annotated[str, "Where"]) -> str:
    """Tell the weather."""
    return f"cold in {city}"


ASKING = GenerateRequest(context=ChatContext(), instructions="Be brief.", tools=(weather,))


def session(
    server: ScriptedRealtimeServer, setup: RealtimeSetup | None = None, options: openai.RealtimeOptions | None = None
) -> AbstractAsyncContextManager[Session]:
    setup = setup or RealtimeSetup(instructions="Be brief.", tools=(weather,), turn_detection="local")
    model = openai.RealtimeModel(model="m", base_url=server.url, api_key="secret", options=options)
    return opened_by(model, setup, ASKING)


def seconds(answer: list[LLMEvent | AudioChunk]) -> float:
    return sum(item.frame.duration for item in answer if isinstance(item, AudioChunk))


def mind(asked: AskedFor) -> ScriptedAnswer | str:
    """Call the tool once, then talk at length."""
    if any(item["type"] == "function_call_output" for item in asked.items):
        return "It is cold in Oslo, and it will stay so for the days to come."
    return ScriptedAnswer(text="One moment.", calls=(ScriptedCall(name="weather", arguments='{"city": "Oslo"}'),))


async def test_it_keeps_the_promises_of_a_realtime_model() -> None:
    async with ScriptedRealtimeServer(mind=mind) as server:
        server.hears("Hello there", "Hello there")
        await check_realtime_model(
            lambda: openai.RealtimeModel(model="m", base_url=server.url), ASKING, SPEECH, hears="hello", limit=LIMIT
        )


async def test_a_connection_begins_with_the_past_the_instructions_the_tools_and_the_settings() -> None:
    past = ChatContext(
        (
            ChatMessage(role="user", content="Is it cold?"),
            FunctionCall(call_id="c1", name="weather", arguments='{"city": "Oslo"}'),
            FunctionCallOutput(call_id="c1", name="weather", output="cold"),
            ChatMessage(role="assistant", content="Yes, it", interrupted=True),
        )
    )
    options = openai.RealtimeOptions(voice="cedar", language="en", turn_detection=openai.SemanticVAD(eagerness="low"))
    setup = RealtimeSetup(instructions="Be brief.", tools=(weather,), history=past)
    async with ScriptedRealtimeServer() as server, session(server, setup, options) as opened:
        served = server.connection
        assert not opened.of(RealtimeProblem)

    kinds = [(item["type"], item.get("role")) for item in served.conversation]
    assert kinds == [
        ("message", "user"),
        ("function_call", None),
        ("function_call_output", None),
        ("message", "assistant"),
        ("message", "system"),
    ]
    assert served.settings.session["instructions"] == "Be brief."
    assert [tool["name"] for tool in served.settings.session["tools"]] == ["weather"]
    audio = served.settings.session["audio"]
    assert audio["output"]["voice"] == "cedar"
    assert audio["input"]["transcription"] == {"model": "gpt-transcribe", "languages": ["en"]}
    assert audio["input"]["turn_detection"]["eagerness"] == "low"


async def test_the_server_ends_the_turn_and_its_answer_is_accepted() -> None:
    async with ScriptedRealtimeServer() as server, session(server, RealtimeSetup()) as opened:
        server.hears("What is the weather?")
        server.answers("It is sunny.")
        opened.speak(0.4, is_silent=True)
        opened.speak(1.0)
        opened.speak(0.8, is_silent=True)
        await opened.until(lambda: opened.of(RealtimeReplyStarted) and opened.of(RealtimeTranscript))
        reply = opened.of(RealtimeReplyStarted)[0]
        with anyio.fail_after(LIMIT):
            answer = [item async for item in opened.connection.accept(reply.reply_id)]
        await opened.until(lambda: any(one.is_final for one in opened.of(RealtimeTranscript)))

        committed = opened.of(RealtimeInputCommitted)[0]
        assert reply.item_id == committed.item_id
        assert [(one.text, one.item_id) for one in opened.of(RealtimeTranscript) if one.is_final] == [
            ("What is the weather?", committed.item_id)
        ]
        assert opened.of(RealtimeTranscript)[1].text == "What is"
        assert opened.of(RealtimeSpeechStarted)[0].ago == pytest.approx(1.8, abs=0.05)  # of 2.2 pushed, from 0.4 on
        assert opened.of(RealtimeSpeechEnded)[0].ago == pytest.approx(0.8, abs=0.05)
        assert words(answer) == "It is sunny."
        assert seconds(answer) == pytest.approx(0.6)
        assert isinstance(answer[-1], Done)


async def test_an_answer_that_the_server_cuts_because_the_user_speaks_is_reported() -> None:
    async with ScriptedRealtimeServer() as server, session(server, RealtimeSetup()) as opened:
        server.answers(ScriptedAnswer(text="one two three four five six " * 10, speed=2))
        opened.speak(0.5)
        opened.speak(0.6, is_silent=True)
        await opened.until(lambda: opened.of(RealtimeReplyStarted))
        reply = opened.of(RealtimeReplyStarted)[0]
        items: list[LLMEvent | AudioChunk] = []
        async with aclosing(opened.connection.accept(reply.reply_id)) as answer:
            async for item in answer:
                if not items:
                    opened.speak(0.3)
                items.append(item)
        await opened.until(lambda: opened.of(RealtimeReplyCancelled))

    assert items[-1] == Done("cancelled")
    assert opened.of(RealtimeReplyCancelled) == [RealtimeReplyCancelled(reply.reply_id)]


async def test_a_refused_answer_leaves_the_conversation() -> None:
    async with ScriptedRealtimeServer() as server, session(server, RealtimeSetup()) as opened:
        server.answers(ScriptedAnswer(text="one two three four five six " * 10, speed=2), "Fine.")
        opened.speak(0.5)
        opened.speak(0.6, is_silent=True)
        await opened.until(lambda: opened.of(RealtimeReplyStarted))
        opened.connection.refuse(opened.of(RealtimeReplyStarted)[0].reply_id)
        assert words(await opened.answer()) == "Fine."
        with pytest.raises(KeyError):
            opened.connection.accept(opened.of(RealtimeReplyStarted)[0].reply_id)

        assert not opened.of(RealtimeReplyCancelled)
        assert [role for role, _ in server.connection.conversation.texts].count("assistant") == 1


async def test_what_was_heard_of_a_cut_answer_is_told_after_the_cancellation() -> None:
    async with ScriptedRealtimeServer() as server, session(server) as opened:
        server.answers(ScriptedAnswer(text="one two three four five six seven " * 9, speed=2), "Fine.")
        async with aclosing(opened.connection.generate(ASKING)) as answer:
            async for item in answer:
                if isinstance(item, AudioChunk):
                    opened.connection.truncate(item.item_id, 0.05, "one")
                    break
        assert words(await opened.answer()) == "Fine."

        sent = [event["type"] for event in server.connection.received]
        assert sent.index("response.cancel") < sent.index("conversation.item.truncate") < len(sent) - 1
        assert server.events("conversation.item.truncate")[0]["audio_end_ms"] == 50
        assert sent.count("response.cancel") == 1
        assert not opened.of(RealtimeProblem)


async def test_a_written_answer_is_cut_by_its_words() -> None:
    setup = RealtimeSetup(answers="text", turn_detection="local")
    async with ScriptedRealtimeServer() as server, session(server, setup) as opened:
        server.answers("one two three", "Fine.")
        answer = await opened.answer()
        assert (words(answer), seconds(answer)) == ("one two three", 0.0)
        opened.connection.truncate(next(one.item_id for one in answer if isinstance(one, TextDelta)), 0.0, "one")
        await opened.answer()

    assert server.connection.conversation.texts == [("assistant", "one"), ("assistant", "Fine.")]


async def test_an_answer_may_have_instructions_tools_and_a_choice_of_its_own() -> None:
    async with ScriptedRealtimeServer(mind=lambda _: "Yes.") as server, session(server) as opened:
        await opened.answer()
        own = GenerateRequest(
            context=ChatContext(),
            instructions="Be brief.",
            extra_instructions="Greet them.",
            tools=(weather,),
            tool_choice=ToolChoice(mode="named", name="weather"),
        )
        await opened.answer(own)
        await opened.answer(GenerateRequest(context=ChatContext(), instructions="Be brief."))
        opened.connection.update("Be long.", ())
        await opened.answer(GenerateRequest(context=ChatContext(), instructions="Be long."))

    asked = server.asked
    assert [one.instructions for one in asked] == ["Be brief.", "Be brief.\n\nGreet them.", "Be brief.", "Be long."]
    assert [len(one.tools) for one in asked] == [1, 1, 0, 0]
    assert asked[1].tool_choice == {"type": "function", "name": "weather"}


async def test_words_pictures_and_outputs_are_appended_in_order() -> None:
    async with ScriptedRealtimeServer(mind=mind) as server, session(server) as opened:
        answer = await opened.answer()
        call = next(item for item in answer if isinstance(item, ToolCall))
        opened.connection.append(FunctionCallOutput(call_id=call.call_id, name="weather", output="cold"))
        picture = VideoFrame(b"\x89PNG", "image/png")
        opened.connection.append(ChatMessage(role="user", content="And this?", images=(picture,)))
        answer = await opened.answer()

    assert (call.name, call.arguments) == ("weather", '{"city": "Oslo"}')
    assert words(answer).startswith("It is cold")
    kinds = [item["type"] for item in server.asked[1].items]
    assert kinds == ["message", "function_call", "function_call_output", "message"]
    assert [part["type"] for part in server.asked[1].items[3]["content"]] == ["input_text", "input_image"]
    usage = next(item for item in answer if isinstance(item, Usage))
    assert usage.output_tokens > usage.cached_tokens > 0
    assert usage.output_tokens > usage.output_audio_tokens > 0
    assert (usage.input_audio_tokens, usage.cached_audio_tokens) == (0, 0)


async def test_what_was_heard_or_appended_is_taken_out_by_its_name_and_nothing_else_is_asked_for() -> None:
    async with ScriptedRealtimeServer(mind=lambda _: "Sure.") as server, session(server) as opened:
        server.hears("a secret")
        opened.speak(0.5)
        opened.connection.commit()
        await opened.until(lambda: opened.of(RealtimeInputCommitted))
        [heard] = opened.of(RealtimeInputCommitted)
        typed = ChatMessage(role="user", content="another one")
        opened.connection.append(typed)
        opened.connection.append(ChatMessage(role="user", content="this stays"))
        for item_id in (heard.item_id, typed.id, typed.id, "item_of_another_connection"):
            opened.connection.delete(item_id)
        await opened.answer()
        assert opened.of(RealtimeProblem) == []

    assert [event["item_id"] for event in server.events("conversation.item.delete")] == [heard.item_id, typed.id]
    assert server.connection.conversation.texts == [("user", "this stays"), ("assistant", "Sure.")]
    assert [item["role"] for item in server.asked[0].items] == ["user"]


async def test_a_given_text_is_asked_for_beside_the_conversation() -> None:
    async with ScriptedRealtimeServer(mind=lambda _: "Hello there.") as server, session(server) as opened:
        with anyio.fail_after(LIMIT):
            chunks = [chunk async for chunk in opened.connection.say("Hello there.")]

    assert all(chunk.item_id == "" for chunk in chunks)
    assert "Hello there." in server.asked[0].instructions
    assert server.connection.conversation.texts == []


async def test_less_audio_than_the_server_takes_is_committed_with_silence() -> None:
    async with ScriptedRealtimeServer() as server, session(server) as opened:
        opened.connection.commit()
        opened.speak(0.04)
        opened.connection.commit()
        await opened.until(lambda: len(opened.of(RealtimeInputCommitted)) == 2)

    assert not opened.of(RealtimeProblem)


async def test_an_utterance_that_cannot_be_transcribed_is_settled_as_nothing() -> None:
    async with ScriptedRealtimeServer() as server, session(server) as opened:
        server.hears(ScriptedWords(text="", failure="audio_unintelligible"))
        opened.speak(0.5)
        opened.connection.commit()
        await opened.until(lambda: opened.of(RealtimeProblem))

    assert [(one.text, one.is_final) for one in opened.of(RealtimeTranscript)] == [("", True)]


async def test_a_server_that_is_not_told_to_transcribe_does_not() -> None:
    setup = RealtimeSetup(turn_detection="local", transcribe=False)
    async with ScriptedRealtimeServer() as server, session(server, setup):
        assert not server.connection.settings.transcribes


@pytest.mark.parametrize(
    ("fault", "retryable", "kind"),
    [
        (AnswerFault.RATE_LIMIT, True, ProviderStatusError),
        (AnswerFault.FAIL, True, ProviderStatusError),
    ],
)
async def test_a_failed_answer_raises_and_the_next_one_works(
    fault: AnswerFault, retryable: bool, kind: type[ProviderError]
) -> None:
    async with ScriptedRealtimeServer() as server, session(server) as opened:
        server.answers(ScriptedAnswer(text="one two three", fault=fault), "Fine.")
        with pytest.raises(kind) as caught:
            await opened.answer()
        assert caught.value.retryable is retryable
        assert words(await opened.answer()) == "Fine."


@pytest.mark.parametrize("fault", [AnswerFault.CLOSE, AnswerFault.EXPIRE])
async def test_a_lost_connection_fails_the_answer_and_the_events_and_is_worth_another_try(fault: AnswerFault) -> None:
    async with ScriptedRealtimeServer() as server, session(server) as opened:
        server.answers(ScriptedAnswer(text="one two three", fault=fault))
        with pytest.raises(ProviderConnectionError):
            await opened.answer()
        await opened.until(lambda: opened.error is not None)
        assert opened.error is not None
        assert opened.error.retryable
        with pytest.raises(ProviderConnectionError):
            await opened.answer()


async def test_a_broken_frame_is_a_problem_and_the_conversation_goes_on() -> None:
    async with ScriptedRealtimeServer() as server, session(server) as opened:
        server.answers(ScriptedAnswer(text="one two three", fault=AnswerFault.MALFORMED))
        assert words(await opened.answer()) == "one two three"

    assert len(opened.of(RealtimeProblem)) == 1


async def test_an_answer_whose_events_come_out_of_order_is_whole() -> None:
    async with ScriptedRealtimeServer() as server, session(server) as opened:
        server.answers(ScriptedAnswer(text="one two three", fault=AnswerFault.OUT_OF_ORDER))
        assert words(await opened.answer()) == "one two three"


async def test_words_behind_a_call_belong_to_its_answer() -> None:
    call = ScriptedCall(name="weather", arguments='{"city": "Oslo"}')
    async with ScriptedRealtimeServer() as server, session(server) as opened:
        server.answers(ScriptedAnswer(text="I am looking.", calls=(call,), calls_first=True), "Cold.")
        answer = await opened.answer()
        assert words(await opened.answer()) == "Cold."

    assert words(answer) == "I am looking."
    assert [item.name for item in answer if isinstance(item, ToolCall)] == ["weather"]
    assert not opened.of(RealtimeReplyStarted)


async def test_a_stalled_answer_can_be_given_up() -> None:
    async with ScriptedRealtimeServer() as server, session(server) as opened:
        server.answers(ScriptedAnswer(text="one two three", fault=AnswerFault.STALL))
        answer = opened.connection.generate(ASKING)
        with anyio.fail_after(LIMIT):
            await anext(answer)
        with anyio.move_on_after(0.2) as scope:
            while True:
                await anext(answer)
        assert scope.cancelled_caught
        await server.received("response.cancel")


async def test_an_answer_closed_before_the_server_began_it_is_cancelled_once_it_does() -> None:
    async with ScriptedRealtimeServer() as server, session(server) as opened:
        server.answers(ScriptedAnswer(text="one", delay=30), "Fine.")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(opened.answer)
            await server.received("response.create")
            tasks.cancel_scope.cancel()
        await server.received("response.cancel")


@pytest.mark.parametrize(("status", "retryable"), [(401, False), (429, True), (503, True)])
async def test_a_refused_handshake_tells_whether_to_try_again(status: int, retryable: bool) -> None:
    async with ScriptedRealtimeServer() as server, openai.RealtimeModel(model="m", base_url=server.url) as model:
        server.refuse(status, status)
        with pytest.raises(ProviderStatusError) as caught:
            await model.open(RealtimeSetup())
        assert (caught.value.status, caught.value.retryable) == (status, retryable)
        await check_failure(lambda: model.open(RealtimeSetup()))


async def test_settings_that_the_server_refuses_fail_the_opening() -> None:
    options = openai.RealtimeOptions(extra_session={"modalities": ["text"]})
    async with ScriptedRealtimeServer() as server:
        with pytest.raises(ProviderStatusError) as caught:
            async with session(server, options=options):
                pass
    assert not caught.value.retryable


async def test_nobody_listening_is_a_connection_error() -> None:
    async with openai.RealtimeModel(model="m", base_url="http://127.0.0.1:1/v1") as model:
        with pytest.raises(ProviderConnectionError):
            await model.open(RealtimeSetup())


async def test_keys_go_where_they_belong_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "of-openai")
    async with ScriptedRealtimeServer() as server:
        async with session(server):
            pass
        async with openai.RealtimeModel(model="m", base_url=server.websocket_url) as model:
            await (await model.open(RealtimeSetup())).aclose()
    assert [one.get("authorization") for one in server.handshakes] == ["Bearer secret", None]
    assert [one["model"] for one in server.handshakes] == ["m", "m"]
    assert "secret" not in repr(openai.RealtimeModel(model="m", base_url=server.url, api_key="secret"))
    with pytest.raises(ConfigurationError, match="model"):
        openai.RealtimeModel(base_url=server.url)


@pytest.mark.parametrize(
    "make",
    [
        lambda: openai.RealtimeOptions(speed=2),
        lambda: openai.RealtimeOptions(max_output_tokens=0),
        lambda: openai.RealtimeOptions(max_output_tokens=5000),
        lambda: openai.RealtimeOptions(max_seconds=0),
        lambda: openai.RealtimeOptions(noise_reduction="loud"),  # type: ignore[arg-type]
        lambda: openai.ServerVAD(threshold=2),
        lambda: openai.ServerVAD(silence=0),
        lambda: openai.SemanticVAD(eagerness="very"),  # type: ignore[arg-type]
        lambda: openai.ConnectionOptions(connect_timeout=0),
        lambda: openai.ConnectionOptions(keepalive=-1),
        lambda: openai.ConnectionOptions(extra_headers={"a": "ä"}),
    ],
)
def test_wrong_options_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises(ConfigurationError):
        make()
