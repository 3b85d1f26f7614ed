"""Messages to Gemini Live, sans-I/O: the setup, contents of a history, audio, outputs of tools.

Source: https://ai.google.dev/api/live.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from google.genai import types

from vivavoce.pipelines.llm.base import Usage
from vivavoce.pipelines.llm.chat_context import ChatItem, ChatMessage, FunctionCall, FunctionCallOutput
from vivavoce.pipelines.llm.tools import Tool, ToolCall
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.realtime_model.base import RealtimeSetup
from vivavoce.plugins.google.calls import arguments_of, response_of
from vivavoce.plugins.google.options import RealtimeOptions

INPUT_RATE, OUTPUT_RATE = 16000, 24000

SYNCHRONOUS = ("gemini-2", "gemini-live-2", "gemini-3.1")
"""How the names of models begin that wait for the outputs of their calls, unless a function is declared otherwise."""

NOTE = "[note to you, not said by the user: {}]"
INTERRUPTED = "The user interrupted your last message where it ends; they heard no more of it."
CANCELLED = "Your call {} with {} was cancelled while it ran, and ended nevertheless. Its output: {}"
BACKCHANNEL = "[said while you were speaking: {}]"
SAY = "Say exactly the following, word for word, in the language it is written in, and nothing else:\n\n{}"


def config(setup: RealtimeSetup, options: RealtimeOptions) -> types.LiveConnectConfig:
    """Return the configuration of a connection."""
    is_local = setup.turn_detection == "local"
    fields: dict[str, Any] = {
        "response_modalities": [types.Modality.AUDIO if setup.answers == "audio" else types.Modality.TEXT],
        "session_resumption": types.SessionResumptionConfig(handle=setup.resume or None),
        "realtime_input_config": types.RealtimeInputConfig(
            automatic_activity_detection=types.AutomaticActivityDetection(
                disabled=True if is_local else None,
                silence_duration_ms=round(options.silence * 1000) if options.silence and not is_local else None,
            ),
        ),
        "temperature": options.temperature,
        "max_output_tokens": options.max_output_tokens,
    }
    if setup.instructions.strip():
        fields["system_instruction"] = types.Content(parts=[types.Part(text=setup.instructions)], role="user")
    if setup.tools:
        fields["tools"] = [types.Tool(function_declarations=[_declaration(tool) for tool in setup.tools])]
    if setup.transcribe:
        fields["input_audio_transcription"] = types.AudioTranscriptionConfig()
    if setup.answers == "audio":
        fields["output_audio_transcription"] = types.AudioTranscriptionConfig()
        fields["speech_config"] = _speech(options)
    if options.compresses_context:
        fields["context_window_compression"] = types.ContextWindowCompressionConfig(
            sliding_window=types.SlidingWindow()
        )
    if begins_with_history(setup):
        fields["history_config"] = types.HistoryConfig(initial_history_in_client_content=True)
    return types.LiveConnectConfig(**(fields | dict(options.extra_config)))


def waits_for_outputs(model: str, settings: types.LiveConnectConfig) -> bool:
    """Whether the model says nothing more, and does not end its turn, until it has the outputs of its calls.

    As its functions are declared, else as its documentation has it: the models before 3.8 call synchronously by
    default, from 3.8 on calls are NON_BLOCKING.
    Source: https://ai.google.dev/gemini-api/docs/live-api/tools, https://ai.google.dev/gemini-api/docs/models.
    """
    declared = {
        function.behavior
        for tool in settings.tools or ()
        if isinstance(tool, types.Tool)
        for function in tool.function_declarations or ()
    }
    if types.Behavior.BLOCKING in declared:
        return True
    return types.Behavior.NON_BLOCKING not in declared and model.startswith(SYNCHRONOUS)


def begins_with_history(setup: RealtimeSetup) -> bool:
    """Whether the history is to be sent, and not resumed."""
    return not setup.resume and bool(setup.history.items)


def contents(items: Iterable[ChatItem]) -> list[types.Content]:
    """Return items as contents, items of one role together."""
    made: list[types.Content] = []
    for item in items:
        for role, part in _parts(item):
            if made and made[-1].role == role and made[-1].parts is not None:
                made[-1].parts.append(part)
            else:
                made.append(types.Content(role=role, parts=[part]))
    return made


def response(output: FunctionCallOutput, *, is_silent: bool = False) -> types.FunctionResponse:
    """Return the output of a call.

    Args:
        is_silent: Whether the server is not to answer by it; one that waits for the output does so all the same.
    """
    made = types.FunctionResponse(id=output.call_id, name=output.name, response=response_of(output))
    if is_silent:
        made.scheduling = types.FunctionResponseScheduling.SILENT
    return made


def cancelled(call: ToolCall, output: FunctionCallOutput) -> str:
    """Return a note on a call that the server has cancelled and that has run."""
    return NOTE.format(CANCELLED.format(call.name, call.arguments, output.output))


def usage(reported: types.UsageMetadata) -> Usage:
    """Return the usage that the server has reported."""
    return Usage(
        input_tokens=(reported.prompt_token_count or 0) + (reported.tool_use_prompt_token_count or 0),
        output_tokens=(reported.response_token_count or 0) + (reported.thoughts_token_count or 0),
        cached_tokens=reported.cached_content_token_count or 0,
        input_audio_tokens=_audio_tokens(reported.prompt_tokens_details),
        output_audio_tokens=_audio_tokens(reported.response_tokens_details),
        cached_audio_tokens=_audio_tokens(reported.cache_tokens_details),
    )


def is_output(message: types.LiveServerMessage) -> bool:
    """Whether the model answers in that message."""
    content = message.server_content
    speaks = content is not None and (content.output_transcription is not None or content.model_turn is not None)
    return speaks or message.tool_call is not None


def seconds_of(duration: str | None) -> float:
    """Return a protobuf duration, such as `"9.5s"`, in seconds; 0 without one."""
    try:
        return float((duration or "0s").removesuffix("s"))
    except ValueError:
        return 0.0


def audio(frame: AudioFrame) -> types.Blob:
    """Return audio in the form of the API."""
    return types.Blob(data=frame.data, mime_type=f"audio/pcm;rate={frame.sample_rate}")


def user_text(text: str) -> types.Content:
    """Return words in the user's role."""
    return types.Content(role="user", parts=[types.Part(text=text)])


def _parts(item: ChatItem) -> list[tuple[str, types.Part]]:
    if isinstance(item, FunctionCall):
        call = types.FunctionCall(id=item.call_id, name=item.name, args=arguments_of(item.arguments))
        return [("model", types.Part(function_call=call))]
    if isinstance(item, FunctionCallOutput):
        return [("user", types.Part(function_response=response(item)))]
    if not isinstance(item, ChatMessage):
        return []
    text = f"{item.speaker}: {item.content}" if item.speaker else item.content
    text = BACKCHANNEL.format(text) if item.backchannel else text
    text = NOTE.format(text) if item.role == "system" else text
    role = "model" if item.role == "assistant" else "user"
    parts = [(role, types.Part(text=text))] if item.content.strip() else []
    for image in item.images:
        parts.append((role, types.Part(inline_data=types.Blob(data=image.data, mime_type=image.media_type))))
    if item.interrupted and role == "model":
        parts.append(("user", types.Part(text=NOTE.format(INTERRUPTED))))
    return parts


def _declaration(tool: Tool[..., object]) -> types.FunctionDeclaration:
    return types.FunctionDeclaration(
        name=tool.name, description=tool.description, parameters_json_schema=tool.parameters_schema()
    )


def _audio_tokens(details: list[types.ModalityTokenCount] | None) -> int:
    """Return the tokens of audio in a breakdown by kind; 0 without one."""
    return sum(one.token_count or 0 for one in details or () if one.modality is types.MediaModality.AUDIO)


def _speech(options: RealtimeOptions) -> types.SpeechConfig | None:
    if not (options.voice or options.language):
        return None
    voice = types.VoiceConfig(prebuilt_voice_config=types.PrebuiltVoiceConfig(voice_name=options.voice))
    return types.SpeechConfig(voice_config=voice if options.voice else None, language_code=options.language or None)
