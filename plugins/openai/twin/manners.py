"""Manners: what a server with OpenAI's API refuses, and where its answers differ from OpenAI's.

Sources stand at each class; "types" are those of the vendor's SDK in the version that `servers` names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vivavoce.plugins.openai.twin.script import DONE, Answer, Step, chat_chunk, chat_delta, refusal

SPEECH = "/audio/speech"
ORDER = "invalid_request_message_order"


class Manners:
    """Those of OpenAI itself."""

    max_upload = 25_000_000

    def no_model(self, model: str) -> Answer:
        """Return the refusal of a model that does not exist."""
        text = f"The model `{model}` does not exist or you do not have access to it."
        return refusal(404, text, code="model_not_found")

    def check(
        self, path: str, headers: Mapping[str, str], query: Mapping[str, str], body: dict[str, Any], uploaded: int
    ) -> Answer | None:
        """Return the refusal of a request, if the server refuses it."""
        if uploaded > self.max_upload:
            return refusal(413, f"Maximum content size limit ({self.max_upload}) exceeded ({uploaded} bytes read)")
        if path.endswith("/chat/completions"):
            return self.check_chat(body)
        return self.check_speech(body) if path.endswith(SPEECH) else None

    def check_chat(self, body: dict[str, Any]) -> Answer | None:
        """Return the refusal of a chat."""

    def check_speech(self, body: dict[str, Any]) -> Answer | None:
        """Return the refusal of a text to speak."""

    def dress(self, steps: Sequence[Step], body: dict[str, Any]) -> Sequence[Step]:
        """Return the steps of an answer as the server words them."""
        return steps


class OnLastChunk(Manners):
    """Usage stands on the chunk with the reason of the end, and comes without being asked for.

    Source: https://docs.fireworks.ai/tools-sdks/openai-compatibility; mistralai client/models/completionchunk.py.
    """

    def dress(self, steps: Sequence[Step], body: dict[str, Any]) -> Sequence[Step]:
        usage = _usage(steps)
        return [
            {**step, "usage": self.usage(usage)} if isinstance(step, Mapping) and _finish(step) and usage else step
            for step in steps
            if not _is_usage(step)
        ]

    def usage(self, usage: dict[str, Any]) -> dict[str, Any]:
        """Return the usage in the server's fields."""
        return usage


class Groq(Manners):
    """Usage stands in `x_groq` of the last chunk (types/chat/chat_completion_chunk.py: XGroq); a chat has no names and
    no `logprobs` (https://console.groq.com/docs/openai); speech is WAV (github.com/roryeckel/wyoming_openai/issues/43)
    of at most 200 characters (https://console.groq.com/docs/text-to-speech/orpheus)."""

    def check_chat(self, body: dict[str, Any]) -> Answer | None:
        if any("name" in message for message in body["messages"]):
            return refusal(400, "property 'messages.0.name' is unsupported")
        wrong = next((name for name in ("logprobs", "logit_bias", "top_logprobs") if name in body), None)
        return refusal(400, f"property '{wrong}' is unsupported") if wrong else None

    def check_speech(self, body: dict[str, Any]) -> Answer | None:
        if body.get("response_format") != "wav":
            return refusal(400, "response_format must be one of [wav]")
        if len(body["input"]) > 200:
            return refusal(400, "input must be at most 200 characters")
        return None

    def dress(self, steps: Sequence[Step], body: dict[str, Any]) -> Sequence[Step]:
        own, dressed = {"id": "req_1", "usage": _usage(steps)}, list[Step]()
        for step in steps:
            if isinstance(step, Mapping) and _finish(step):
                step = {**step, "x_groq": {**own, **step.get("x_groq", {})}}
            if not _is_usage(step):
                dressed.append(step)
        return dressed


class Together(OnLastChunk):
    """The end may be called `eos` (types/chat/chat_completion_chunk.py)."""

    def dress(self, steps: Sequence[Step], body: dict[str, Any]) -> Sequence[Step]:
        dressed = super().dress(steps, body)
        return [
            {**step, "choices": [{**step["choices"][0], "finish_reason": "eos"}]}
            if isinstance(step, Mapping) and _finish(step) == "stop"
            else step
            for step in dressed
        ]


class Fireworks(OnLastChunk):
    """It does not know the newer fields (pipecat services/fireworks/llm.py:83)."""

    def check_chat(self, body: dict[str, Any]) -> Answer | None:
        return _unknown(body, ("stream_options", "max_completion_tokens", "seed"))


class Mistral(OnLastChunk):
    """Unknown fields are refused, ids of calls have nine letters or digits, roles have a strict order.

    Source: mistralai client/models/chatcompletionstreamrequest.py; error 3280 in
    github.com/nearai/ironclaw/issues/1241; error 3230 and the roles in pipecat adapters/services/mistral_adapter.py.
    """

    def check_chat(self, body: dict[str, Any]) -> Answer | None:
        if (unknown := _unknown(body, ("stream_options", "max_completion_tokens", "reasoning"))) is not None:
            return unknown
        messages = body["messages"]
        for message in messages:
            ids = [call["id"] for call in message.get("tool_calls") or ()]
            ids += [message["tool_call_id"]] if "tool_call_id" in message else []
            wrong = next((one for one in ids if len(one) != 9 or not (one.isascii() and one.isalnum())), None)
            if wrong is not None:
                text = f"Tool call id was {wrong} but must be a-z, A-Z, 0-9, with a length of 9."
                return _mistral(text, "invalid_function_call", "3280")
        roles = [message["role"] for message in messages]
        for before, role in zip(roles, roles[1:], strict=False):
            if (before == "tool" and role in ("user", "system")) or (role == "system" and before != "system"):
                return _mistral(
                    f"Unexpected role '{role}' after role '{before}'", "invalid_request_message_order", "3230"
                )
        if roles[-1] == "assistant":
            text = "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant"
            return _mistral(text, ORDER, "3230")
        return None


class DeepSeek(Manners):
    """It thinks unless told not to, in `reasoning_content`, which must come back with each message with calls; cached
    tokens are `prompt_cache_hit_tokens` (https://api-docs.deepseek.com: guides/thinking_mode, guides/kv_cache)."""

    def check_chat(self, body: dict[str, Any]) -> Answer | None:
        if not _thinks(body):
            return None
        for at, message in enumerate(body["messages"]):
            if message.get("tool_calls") and message.get("reasoning_content") is None:
                return refusal(
                    400, f"Missing `reasoning_content` field in the assistant message at message index {at}."
                )
        return None

    def dress(self, steps: Sequence[Step], body: dict[str, Any]) -> Sequence[Step]:
        thoughts = [chat_delta(reasoning_content="They greet me.", content=None)] if _thinks(body) else []
        return [*thoughts, *(_with_usage(step, _deepseek) if _is_usage(step) else step for step in steps)]


class XAI(Manners):
    """Tokens of reasoning are counted beside those of the answer (pipecat services/xai/llm.py:136); reasoning models
    refuse `stop` and penalties (https://docs.x.ai/docs/guides/reasoning)."""

    def check_chat(self, body: dict[str, Any]) -> Answer | None:
        wrong = next((name for name in ("stop", "presence_penalty", "frequency_penalty") if name in body), None)
        return refusal(400, f"Argument not supported on this model: {wrong}") if wrong else None

    def dress(self, steps: Sequence[Step], body: dict[str, Any]) -> Sequence[Step]:
        thoughts = [chat_delta(reasoning_content="Hm.", content="")]
        return [*thoughts, *(_with_usage(step, _xai) if _is_usage(step) else step for step in steps)]


class OpenRouter(Manners):
    """Comments come before and between the chunks (https://openrouter.ai/docs/api/reference/streaming)."""

    comment = b": OPENROUTER PROCESSING\n\n"

    def dress(self, steps: Sequence[Step], body: dict[str, Any]) -> Sequence[Step]:
        return [self.comment, *(part for step in steps for part in (step, self.comment))][:-1]


class Perplexity(Manners):
    """No tools (github.com/pipecat-ai/pipecat/pull/4862); user and assistant alternate, the user last
    (github.com/perplexityai/api-discussion/issues/265); each chunk has usage and the whole message so far
    (types/stream_chunk.py, types/shared/choice.py)."""

    def check_chat(self, body: dict[str, Any]) -> Answer | None:
        if body.get("tools"):
            return refusal(400, "Tool calling is not supported for this model")
        if (unknown := _unknown(body, ("stream_options", "max_completion_tokens"))) is not None:
            return unknown
        roles = [message["role"] for message in body["messages"] if message["role"] != "system"]
        text = "After the (optional) system message(s), user and assistant roles should be alternating."
        if any(one == other for one, other in zip(roles, roles[1:], strict=False)):
            return refusal(400, text, code="invalid_message")
        return refusal(400, "Last message must have role `user`.") if roles[-1] != "user" else None

    def dress(self, steps: Sequence[Step], body: dict[str, Any]) -> Sequence[Step]:
        usage, said, dressed = _usage(steps), "", list[Step]()
        for step in steps:
            if _is_usage(step) or step == DONE:
                continue
            if isinstance(step, Mapping) and step.get("choices"):
                choice = step["choices"][0]
                said += choice["delta"].get("content") or ""
                choice = {**choice, "message": {"role": "assistant", "content": said}}
                step = {**step, "choices": [choice], "usage": usage, "citations": ["https://example.org"]}
            dressed.append(step)
        return dressed


class Reasoning(Manners):
    """Thoughts are in `reasoning` (vLLM: https://docs.vllm.ai/en/v0.11.2/features/reasoning_outputs; Cerebras:
    types/chat/chat_completion.py)."""

    def dress(self, steps: Sequence[Step], body: dict[str, Any]) -> Sequence[Step]:
        return [chat_delta(reasoning="They greet me."), *steps]


class Ollama(Manners):
    """A model that is not there is to be pulled; a model's thoughts may stand in its text."""

    def no_model(self, model: str) -> Answer:
        return refusal(404, f'model "{model}" not found, try pulling it first', code="not_found")

    def dress(self, steps: Sequence[Step], body: dict[str, Any]) -> Sequence[Step]:
        return [chat_delta(content=text) for text in ("<thi", "nk>They greet", " me.</think>\n", "\n")] + list(steps)


class LlamaCpp(Manners):
    """A template of a model refuses roles that do not alternate (tools/server; 500, or 400 in newer ones)."""

    def check_chat(self, body: dict[str, Any]) -> Answer | None:
        roles = [message["role"] for message in body["messages"]]
        if "system" in roles[1:] or any(a == b == "user" for a, b in zip(roles, roles[1:], strict=False)):
            text = "Conversation roles must alternate user/assistant/user/assistant/..."
            return Answer(status=500, body={"error": {"code": 500, "message": text, "type": "server_error"}})
        return None


class Azure(Manners):
    """A deployment in place of the model, `api-key` or a token, `api-version` for the API before v1, and a filter whose
    results stand in the chunks (https://learn.microsoft.com/azure/foundry/openai: reference, content filtering)."""

    def no_model(self, model: str) -> Answer:
        text = (
            "The API deployment for this resource does not exist. If you created the deployment within the last 5 "
            "minutes, please wait a moment and try again."
        )
        return Answer(status=404, body={"error": {"code": "DeploymentNotFound", "message": text}})

    def check(
        self, path: str, headers: Mapping[str, str], query: Mapping[str, str], body: dict[str, Any], uploaded: int
    ) -> Answer | None:
        if not headers.get("api-key") and not headers.get("Authorization", "").startswith("Bearer ey"):
            text = "Access denied due to invalid subscription key or wrong API endpoint."
            return Answer(status=401, body={"error": {"code": "401", "message": text}})
        if not path.startswith("/openai/v1/") and not ("/deployments/" in path and query.get("api-version")):
            return Answer(status=404, body={"error": {"code": "404", "message": "Resource not found"}})
        return super().check(path, headers, query, body, uploaded)

    def dress(self, steps: Sequence[Step], body: dict[str, Any]) -> Sequence[Step]:
        results = {"hate": {"filtered": False, "severity": "safe"}}
        first = chat_chunk(choices=[], prompt_filter_results=[{"prompt_index": 0, "content_filter_results": results}])
        return [first, *steps]


MANNERS: Mapping[str, Manners] = {
    "azure": Azure(),
    "cerebras": Reasoning(),
    "deepseek": DeepSeek(),
    "fireworks": Fireworks(),
    "groq": Groq(),
    "llama.cpp": LlamaCpp(),
    "mistral": Mistral(),
    "ollama": Ollama(),
    "openrouter": OpenRouter(),
    "perplexity": Perplexity(),
    "together": Together(),
    "vllm": Reasoning(),
    "xai": XAI(),
}
"""By the names of `servers`; the others have those of OpenAI."""


def _is_usage(step: Step) -> bool:
    return isinstance(step, Mapping) and step.get("choices") == [] and bool(step.get("usage"))


def _usage(steps: Sequence[Step]) -> dict[str, Any]:
    return next((dict(step["usage"]) for step in steps if isinstance(step, Mapping) and _is_usage(step)), {})


def _finish(step: Mapping[str, Any]) -> str:
    choices = step.get("choices") or [{}]
    return choices[0].get("finish_reason") or ""


def _with_usage(step: Step, change: Any) -> Step:
    return {**step, "usage": change(dict(step["usage"]))} if isinstance(step, Mapping) else step


def _deepseek(usage: dict[str, Any]) -> dict[str, Any]:
    hit = usage.pop("prompt_tokens_details")["cached_tokens"]
    return {**usage, "prompt_cache_hit_tokens": hit, "prompt_cache_miss_tokens": usage["prompt_tokens"] - hit}


def _xai(usage: dict[str, Any]) -> dict[str, Any]:
    details = {"reasoning_tokens": 3}
    return {
        **usage,
        "completion_tokens": usage["completion_tokens"] - 3,
        "completion_tokens_details": details,
    }


def _thinks(body: dict[str, Any]) -> bool:
    return bool(body.get("thinking", {}).get("type") != "disabled")


def _unknown(body: dict[str, Any], names: Sequence[str]) -> Answer | None:
    wrong = next((name for name in names if name in body), None)
    if wrong is None:
        return None
    detail = [{"type": "extra_forbidden", "loc": ["body", wrong], "msg": "Extra inputs are not permitted"}]
    return Answer(status=422, body={"object": "error", "message": {"detail": detail}, "type": "invalid_request_error"})


def _mistral(text: str, kind: str, code: str) -> Answer:
    body = {"object": "error", "message": text, "type": kind, "param": None, "code": code, "raw_status_code": 400}
    return Answer(status=400, body=body)
