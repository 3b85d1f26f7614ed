"""The twin of OpenAI's HTTP API on loopback, played from a script, for tests without a key; and of its look-alikes.

    async with OpenAITwin("mistral") as twin:
        twin.add(chat_answer("Hello ", "there."))
        llm = openai.LLM(server="mistral", model="m", base_url=twin.url, api_key=twin.key)

* `chat/completions` and `responses`: the chunks of an answer, tool calls, usage, refusals, broken streams.
* `audio/transcriptions`: `Heard`, as `json` or `verbose_json`. `audio/speech`: `Spoken`, as PCM or WAV.
* `embeddings`: `embeds("nine", "sunday")` counts these words in each text, beside the script.
* With the name of a server it has the manners of that server: it refuses a request that the server refuses, with its
  words, and puts usage, thoughts and comments where the server has them (`manners`, with the sources). For Azure, `url`
  is the endpoint of a resource with v1 of the API, and the API before it; the realtime API is
  `pipelines.testing.ScriptedRealtimeServer`.
* Faults on demand: `HANG`, `BREAK`, and any bytes as a step.

Clients written elsewhere prove it: the SDKs of OpenAI (also for Azure), Groq, Mistral and others
(tests/plugins/openai/test_provers.py). It was not compared with a live server.

Source: the types of openai 3.57 (`openai.types`), https://platform.openai.com/docs/api-reference.
"""

from vivavoce.plugins.openai.twin.script import (
    BREAK,
    DONE,
    HANG,
    Answer,
    Fault,
    Heard,
    Spoken,
    Step,
    chat_answer,
    chat_call,
    chat_chunk,
    chat_delta,
    chat_end,
    refusal,
    responses_answer,
    responses_call,
    responses_end,
    responses_event,
)
from vivavoce.plugins.openai.twin.server import OpenAITwin, Received

__all__ = [
    "BREAK",
    "DONE",
    "HANG",
    "Answer",
    "Fault",
    "Heard",
    "OpenAITwin",
    "Received",
    "Spoken",
    "Step",
    "chat_answer",
    "chat_call",
    "chat_chunk",
    "chat_delta",
    "chat_end",
    "refusal",
    "responses_answer",
    "responses_call",
    "responses_end",
    "responses_event",
]
