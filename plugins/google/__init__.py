"""Google's models: Gemini behind a cascading pipeline, and Gemini Live, speech to speech.

    google.LLM()                                                                    # GOOGLE_API_KEY, or GEMINI_API_KEY
    google.LLM(model="gemini-3.1-flash-lite", options=google.LLMOptions(thinking="low"))
    google.LLM(vertex=google.Vertex(project="…", location="europe-west4"))          # Google Cloud: its own credentials
    google.RealtimeModel(model="gemini-3.8-live", options=google.RealtimeOptions(voice="Puck"))

Install it with `pip install 'vivavoce[google]'`. Inside this package `google.genai` means the SDK.
`vivavoce.plugins.google.twin` is the server on loopback, played from a script, for tests without a key.

Decisions of `google.LLM`:

* Own wire, on `pipelines/net`: the SDK takes 0.5 s and 66 MB to import, and 2.7 ms of a processor for a short answer
  where this takes 1.2, with a pool and exceptions of its own, which hold the request. It proves the twin instead.
  Gemini Live needs it, and Google Cloud needs google-auth, which comes with it.
* A model thinks as little as it can before it speaks, by default: its caller waits.
* Thought signatures go back with the calls that they came with, in `ToolCall.extra`, to the same model of the same
  server only. A call of another model gets the value that Google's documentation names for it, else the server
  refuses the conversation.
* An answer that the server withholds, or a prompt that it blocks, is an outcome: `Done("SAFETY")`, or another reason.
  Words that came before it stand; calls do not. A call that the model wrote wrong is an error that may be tried again.
* Caching is the server's own (implicit): requests keep their beginning the same. `Usage.cached_tokens` shows the hits;
  thoughts count as output.
* Tool calls are passed on after the end of the answer, so that no call comes from half an answer.

Decisions of `google.RealtimeModel`, which uses the official `google-genai` SDK:

* A lost or expiring connection is resumed by the server's own handle (`RealtimeSetup.resume`); without one, the
  history is sent again. The server's GoAway is reported as `RealtimeEnding`.
* The server answers on its own whenever it learns that speech is over, or receives the output of a tool. If the
  pipeline decides turns, the user's audio is therefore kept until an answer is requested and sent in one piece, and
  outputs of tools likewise: the model says nothing without a request, and `clear()` has its effect. It costs the
  upload.
* The API cannot cut an answer to its heard part (`truncates` is False) nor change instructions (`updates` is False).
* An answer ends at `turnComplete`, also behind a tool call: with functions that are NON_BLOCKING, the default from
  gemini-3.8-live on, the model may speak on. A model that calls synchronously, as those before it do, may end its turn
  only when it has the outputs: there an answer with calls ends 0.2 s after its last piece (2 s, where a model goes on,
  which may think before it speaks).
* An answer is cancelled by an empty client message, which by the API's reference interrupts the model.
"""

from vivavoce.plugins.google.llm import DEFAULT_LLM_MODEL, LLM
from vivavoce.plugins.google.options import LLMOptions, RealtimeOptions, Thinking, Vertex
from vivavoce.plugins.google.realtime import DEFAULT_MODEL, RealtimeModel

__all__ = [
    "DEFAULT_LLM_MODEL",
    "DEFAULT_MODEL",
    "LLM",
    "LLMOptions",
    "RealtimeModel",
    "RealtimeOptions",
    "Thinking",
    "Vertex",
]
