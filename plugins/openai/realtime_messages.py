"""Client events of the Realtime API, sans-I/O: the session object, items, requests of answers.

Source: https://platform.openai.com/docs/api-reference/realtime-client-events (GA).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from vivavoce.pipelines.llm.base import GenerateRequest
from vivavoce.pipelines.llm.chat_context import ChatContext, ChatItem, FunctionCall, FunctionCallOutput
from vivavoce.pipelines.llm.tools import Tool, ToolChoice
from vivavoce.pipelines.llm.transcript import Calls, Words, transcript
from vivavoce.pipelines.realtime_model.base import RealtimeSetup
from vivavoce.plugins.openai.realtime_options import PREFIX_PADDING, RealtimeOptions, ServerVAD
from vivavoce.plugins.openai.wire import data_url, drop_nones

Message: TypeAlias = dict[str, Any]

RATE = 24000
PCM = {"type": "audio/pcm", "rate": RATE}

AUDIO = "input_audio_buffer.append"
"""The type of the message that carries the caller's audio."""

SAY = "Say exactly the following, word for word, in the language it is written in, and nothing else:\n\n{}"


def session_update(model: str, setup: RealtimeSetup, options: RealtimeOptions) -> Message:
    """Return the first event of a connection."""
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
    """Return the settings of transcription; only the newer models accept several languages."""
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
    """Return the conversation so far as items: calls beside their outputs, with notes on cuts for the model."""
    items: list[Message] = []
    for part in transcript(GenerateRequest(context=history), is_strict=False).parts:
        if isinstance(part, Calls):
            items += [_call(call) for call, _ in part.pairs] + [_output(output) for _, output in part.pairs]
        else:
            items.append(_message(part))
    return items


def new_items(item: ChatItem) -> list[Message]:
    """Return the items for one appended item; none if it is empty."""
    if isinstance(item, FunctionCall):
        return [_call(item)]
    if isinstance(item, FunctionCallOutput):
        return [_output(item)]
    return history_items(ChatContext((item,)))


def create_item(item: Message, previous: str | None = None) -> Message:
    """Return the event that adds an item, at the end or after another."""
    return {"type": "conversation.item.create", "item": item, **drop_nones(previous_item_id=previous)}


def delete_item(item_id: str) -> Message:
    """Return the event that removes an item."""
    return {"type": "conversation.item.delete", "item_id": item_id}


def heard_item(text: str) -> Message:
    """Return the heard part of a text answer, with a note on the cut."""
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def ask(request: GenerateRequest, instructions: str, tools: Sequence[Tool[..., object]], ask_id: str) -> Message:
    """Return the event that requests an answer.

    Args:
        instructions, tools: The session's, which an answer uses unless its request has others.
        ask_id: Comes back in the answer's metadata.
    """
    response: dict[str, Any] = {"metadata": {"ask": ask_id}}
    wanted = request.instructions or instructions
    if request.extra_instructions.strip():  # instructions of the request replace the standing ones
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
    """Return a tool in the form of the session object."""
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
