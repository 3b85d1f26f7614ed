"""Client events of the Realtime API, sans-I/O: the session object, items, what an answer is asked with.

Source: https://platform.openai.com/docs/api-reference/realtime-client-events (GA).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from vivavoce.pipelines.llm.base import GenerateRequest
from vivavoce.pipelines.llm.chat_context import ChatContext, ChatItem, FunctionCall, FunctionCallOutput
from vivavoce.pipelines.llm.tools import Tool, ToolChoice
from vivavoce.pipelines.realtime_model.base import RealtimeSetup
from vivavoce.plugins.openai.realtime_options import PREFIX_PADDING, RealtimeOptions, ServerVAD
from vivavoce.plugins.openai.transcript import Calls, Words, transcript
from vivavoce.plugins.openai.wire import data_url, drop_nones

Message: TypeAlias = dict[str, Any]

RATE = 24000
PCM = {"type": "audio/pcm", "rate": RATE}

SAY = "Say exactly the following, word for word, in the language it is written in, and nothing else:\n\n{}"


def session_update(model: str, setup: RealtimeSetup, options: RealtimeOptions) -> Message:
    """Return the event that a connection begins with."""
    transcription = transcription_settings(options.transcription_model, options.language)
    session: dict[str, Any] = {
        "type": "realtime",
        "model": model,
        "instructions": setup.instructions,
        "output_modalities": [setup.answers],
        "tools": [tool_schema(tool) for tool in setup.tools],
        "audio": {
            "input": {
                "format": PCM,
                "transcription": transcription if setup.transcribe else None,
                "noise_reduction": {"type": options.noise_reduction} if options.noise_reduction else None,
                "turn_detection": _turn_detection(options) if setup.turn_detection == "remote" else None,
            },
            "output": drop_nones(format=PCM, voice=options.voice, speed=options.speed),
        },
        **drop_nones(max_output_tokens=options.max_output_tokens),
    }
    if options.reasoning_effort is not None:
        session["reasoning"] = {"effort": options.reasoning_effort}
    return {"type": "session.update", "session": session | dict(options.extra_session)}


def transcription_settings(
    model: str, language: str, *, prompt: str = "", keywords: Sequence[str] = ()
) -> dict[str, Any]:
    """Return how the user is transcribed; the newer models take several languages, and only so."""
    takes_several = model.startswith(("gpt-transcribe", "gpt-live-transcribe"))
    return drop_nones(
        model=model,
        language=language if language and not takes_several else None,
        languages=[language] if language and takes_several else None,
        prompt=prompt or None,
        keywords=list(keywords) or None,
    )


def instructions_update(instructions: str, tools: Sequence[Tool[..., object]]) -> Message:
    """Return the event that changes standing instructions and tools."""
    schemas = [tool_schema(tool) for tool in tools]
    return {"type": "session.update", "session": {"type": "realtime", "instructions": instructions, "tools": schemas}}


def history_items(history: ChatContext) -> list[Message]:
    """Return the conversation so far as items: calls beside their outputs, with what the model is told of cuts."""
    items: list[Message] = []
    for part in transcript(GenerateRequest(context=history), is_strict=False).parts:
        if isinstance(part, Calls):
            items += [_call(call) for call, _ in part.pairs] + [_output(output) for _, output in part.pairs]
        else:
            items.append(_message(part))
    return items


def new_items(item: ChatItem) -> list[Message]:
    """Return what one appended item becomes; nothing where it is empty."""
    if isinstance(item, FunctionCall):
        return [_call(item)]
    if isinstance(item, FunctionCallOutput):
        return [_output(item)]
    return history_items(ChatContext((item,)))


def create_item(item: Message, previous: str | None = None) -> Message:
    """Return the event that adds an item, at the end or after another."""
    return {"type": "conversation.item.create", "item": item, **drop_nones(previous_item_id=previous)}


def delete_item(item_id: str) -> Message:
    """Return the event that takes an item out."""
    return {"type": "conversation.item.delete", "item_id": item_id}


def heard_item(text: str) -> Message:
    """Return what a text answer is cut to."""
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def ask(request: GenerateRequest, instructions: str, tools: Sequence[Tool[..., object]], ask_id: str) -> Message:
    """Return the event that asks for an answer.

    Args:
        instructions, tools: The session's, which an answer takes where it is not told others.
        ask_id: Comes back in the answer's metadata.
    """
    response: dict[str, Any] = {"metadata": {"ask": ask_id}}
    wanted = request.instructions or instructions
    if request.extra_instructions.strip():  # an answer's own instructions replace the standing ones
        wanted = "\n\n".join(text for text in (wanted, request.extra_instructions) if text.strip())
    if wanted != instructions:
        response["instructions"] = wanted
    if list(request.tools) != list(tools):
        response["tools"] = [tool_schema(tool) for tool in request.tools]
    if (choice := _choice(request.tool_choice)) is not None and request.tools:
        response["tool_choice"] = choice
    return {"type": "response.create", "event_id": ask_id, "response": response}


def ask_to_say(text: str, ask_id: str) -> Message:
    """Return the event that has the model speak a text, beside the conversation."""
    response = {
        "conversation": "none",
        "input": [],
        "tools": [],
        "tool_choice": "none",
        "instructions": SAY.format(text),
        "metadata": {"ask": ask_id},
    }
    return {"type": "response.create", "event_id": ask_id, "response": response}


def tool_schema(tool: Tool[..., object]) -> Message:
    """Return a tool as the session lists it."""
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters_schema(),
    }


def _turn_detection(options: RealtimeOptions) -> Message:
    detection = options.turn_detection
    if isinstance(detection, ServerVAD):
        return {
            "type": "server_vad",
            "threshold": detection.threshold,
            "silence_duration_ms": round(detection.silence * 1000),
            "prefix_padding_ms": round(PREFIX_PADDING * 1000),
            "create_response": True,
            "interrupt_response": True,
        }
    kind = {"type": "semantic_vad", "eagerness": detection.eagerness}
    return {**kind, "create_response": True, "interrupt_response": True}


def _message(words: Words) -> Message:
    kind = "output_text" if words.role == "assistant" else "input_text"
    content: list[Message] = [{"type": kind, "text": words.text}] if words.text.strip() else []
    if words.role == "user":
        content += [{"type": "input_image", "image_url": data_url(image)} for image in words.images]
    return {"type": "message", "role": words.role, "content": content}


def _call(call: FunctionCall) -> Message:
    return {"type": "function_call", "call_id": call.call_id, "name": call.name, "arguments": call.arguments}


def _output(output: FunctionCallOutput) -> Message:
    return {"type": "function_call_output", "call_id": output.call_id, "output": output.output}


def _choice(choice: ToolChoice) -> str | Message | None:
    if choice.mode == "auto":
        return None
    return {"type": "function", "name": choice.name} if choice.mode == "named" else choice.mode
