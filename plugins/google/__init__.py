"""Gemini Live, speech to speech, through the official `google-genai` SDK.

    google.RealtimeModel()                                                          # GEMINI_API_KEY, or GOOGLE_API_KEY
    google.RealtimeModel(model="gemini-3.8-live", options=google.RealtimeOptions(voice="Puck"))

Install it with `pip install 'vivavoce[google]'`. Inside this package `google.genai` means the SDK.

Decisions:

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

from vivavoce.plugins.google.options import RealtimeOptions
from vivavoce.plugins.google.realtime import DEFAULT_MODEL, RealtimeModel

__all__ = ["DEFAULT_MODEL", "RealtimeModel", "RealtimeOptions"]
