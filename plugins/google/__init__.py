"""Gemini Live, speech to speech, through the official `google-genai` SDK.

    google.RealtimeModel()                                                          # GEMINI_API_KEY, or GOOGLE_API_KEY
    google.RealtimeModel(model="gemini-3.8-live", options=google.RealtimeOptions(voice="Puck"))

Install it with `pip install 'vivavoce[google]'`. Inside this package `google.genai` means the SDK.

Decisions:

* A lost or expiring connection is resumed by the server's own handle (`RealtimeSetup.resume`); where there is none,
  the history is told anew. The server's GoAway is reported as `RealtimeEnding`.
* The server answers by itself whenever it is told that speech is over, or the output of a tool. Where the pipeline
  decides about turns, the user's audio is therefore kept until an answer is asked for and sent in one piece, and
  outputs of tools likewise: nothing is said that nobody has asked for, and `clear()` means it. It costs the upload.
* The API cannot cut an answer to what was heard (`truncates` is False) nor change instructions (`updates` is False).
* An answer is cancelled by an empty client message, which the API's reference says interrupts the model.
"""

from vivavoce.plugins.google.options import RealtimeOptions
from vivavoce.plugins.google.realtime import DEFAULT_MODEL, RealtimeModel

__all__ = ["DEFAULT_MODEL", "RealtimeModel", "RealtimeOptions"]
