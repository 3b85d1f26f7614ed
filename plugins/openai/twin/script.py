"""The script of the twin: answers with their chunks, transcripts, speech, refusals and faults."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias


class Fault(Enum):
    """An event in place of the next one."""

    HANG = "says nothing more and keeps the connection"
    BREAK = "cuts the connection in the middle of the body"


HANG, BREAK = Fault.HANG, Fault.BREAK

Step: TypeAlias = Mapping[str, Any] | bytes | Fault
"""An event, raw bytes of the body, or a fault."""

DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to one request. `steps` are streamed; `body` is sent at once."""

    status: int = 200
    steps: Sequence[Step] = ()
    body: object = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """The transcript of one upload; its words are spread evenly over the audio.

    Args:
        no_speech_prob, avg_logprob, compression_ratio: The recogniser's doubts, as Whisper reports them.
        spaces: The words' texts begin with a space and have their punctuation, as those of faster-whisper do.
        hangs: It does not come.
    """

    text: str = ""
    language: str = "english"
    no_speech_prob: float = 0.01
    avg_logprob: float = -0.2
    compression_ratio: float = 1.2
    spaces: bool = False
    hangs: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """The speech of one request: PCM at `rate`, or a WAV file with it, as the request asks."""

    pcm: bytes = field(repr=False)
    rate: int = 24000
    then: Sequence[Fault] = ()


def refusal(status: int, message: str = "", *, code: str | None = None, **headers: str) -> Answer:
    """Return an error as OpenAI words it; header names with `_` for `-`."""
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
    return Answer(
        status=status, body={"error": error}, headers={name.replace("_", "-"): text for name, text in headers.items()}
    )


def vectors_body(words: Sequence[str], request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer to a request for embeddings: each vector counts the words in a text, in any case.

    Source: platform.openai.com/docs/api-reference/embeddings; of `base64_int8`: perplexity, `servers`.
    """
    texts = request["input"] if isinstance(request["input"], list) else [request["input"]]
    data = []
    for at, text in enumerate(texts):
        counts = [min(str(text).lower().count(word.lower()), 127) for word in words]
        as_bytes = request.get("encoding_format") == "base64_int8"
        embedding = base64.b64encode(bytes(counts)).decode() if as_bytes else [float(count) for count in counts]
        data.append({"object": "embedding", "index": at, "embedding": embedding})
    tokens = sum(len(str(text).split()) for text in texts)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": request.get("model"), "usage": usage}


def chat_answer(*texts: str, finish: str = "stop") -> Answer:
    """Return a whole answer of chat completions: text, finish reason, usage, end."""
    return Answer(steps=[*(chat_delta(content=text) for text in texts), *chat_end(finish)])


def chat_delta(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    """Return one chunk."""
    return chat_chunk(choices=[{"index": 0, "delta": delta, "finish_reason": finish}], usage=None)


def chat_call(index: int | None, call_id: str | None, name: str | None, arguments: str | None) -> dict[str, Any]:
    """Return a chunk with one fragment of a tool call; None leaves a field out."""
    function = {key: text for key, text in (("name", name), ("arguments", arguments)) if text is not None}
    call = {"index": index, "id": call_id, "function": function, "type": "function"}
    return chat_delta(tool_calls=[{key: value for key, value in call.items() if value is not None}])


def chat_end(finish: str = "stop") -> list[Step]:
    """Return the chunks after the last piece: the finish reason, usage (12 in, 5 of them cached, 7 out), the end."""
    usage = {
        "prompt_tokens": 12,
        "completion_tokens": 7,
        "total_tokens": 19,
        "prompt_tokens_details": {"cached_tokens": 5},
    }
    return [chat_delta(finish=finish), chat_chunk(choices=[], usage=usage), DONE]


def chat_chunk(**fields: Any) -> dict[str, Any]:
    """Return a chunk with these fields beside those that each has."""
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": "m", **fields}


def responses_answer(*texts: str, refusal_text: str = "") -> Answer:
    """Return a whole answer of the responses API."""
    deltas = [responses_event("response.output_text.delta", output_index=0, delta=text) for text in texts]
    if refusal_text:
        deltas.append(responses_event("response.refusal.delta", output_index=0, delta=refusal_text))
    return Answer(steps=[responses_event("response.created", response={}), *deltas, responses_end()])


def responses_call(index: int, call_id: str, name: str, *fragments: str, is_done: bool = True) -> list[Step]:
    """Return the events of one tool call."""
    call = {"type": "function_call", "id": f"fc_{index}", "call_id": call_id, "name": name}
    steps: list[Step] = [
        responses_event("response.output_item.added", output_index=index, item={**call, "arguments": ""}),
        *(
            responses_event("response.function_call_arguments.delta", output_index=index, delta=fragment)
            for fragment in fragments
        ),
    ]
    if is_done:
        item = {**call, "arguments": "".join(fragments), "status": "completed"}
        steps.append(responses_event("response.output_item.done", output_index=index, item=item))
    return steps


def responses_end(reason: str = "") -> dict[str, Any]:
    """Return the last event: completed, or incomplete for `reason`; usage as in `chat_end`."""
    kind = "incomplete" if reason else "completed"
    usage = {
        "input_tokens": 12,
        "input_tokens_details": {"cached_tokens": 5},
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 19,
    }
    details = {"reason": reason} if reason else None
    return responses_event(
        f"response.{kind}", response={"status": kind, "usage": usage, "incomplete_details": details, "output": []}
    )


def responses_event(kind: str, **fields: Any) -> dict[str, Any]:
    """Return one event of the responses API."""
    return {"type": kind, "sequence_number": 0, **fields}


def as_event(event: Mapping[str, Any]) -> bytes:
    """Return an event as it stands in the stream."""
    name = f"event: {event['type']}\n" if isinstance(event.get("type"), str) else ""
    return f"{name}data: {json.dumps(event)}\n\n".encode()
