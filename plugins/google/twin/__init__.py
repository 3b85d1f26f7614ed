"""The twin of Google's server: `streamGenerateContent` on loopback, played from a script, for tests without a key.

    async with Twin() as twin:
        twin.add(Answer("Let me look.", Call("weather", {"city": "Oslo"})), Answer("It is cold."), Refuse(code=503))
        llm = google.LLM(model="gemini-3.8-flash", base_url=twin.url, api_key="any")
        …
        assert "functionResponse" in twin.bodies[1]["contents"][-1]["parts"][0]

It checks each request as the documentation says that the API does, and refuses with the API's own errors: from Gemini 3
on, calls that come back without their thought signatures too. It keeps an implicit cache, so that the usage shows hits.
Clients written elsewhere prove it: Google's SDK and livekit-agents' plugin (tests/plugins/google/test_provers.py).

`vivavoce.plugins.google.twin.live.LiveTwin` is the twin of Gemini Live.

Sources: `types.py`, `models.py` and `_api_client.py` of google-genai 3.6.1; https://ai.google.dev/api/generate-content,
…/gemini-api/docs/function-calling, …/thought-signatures, …/thinking, …/caching, …/troubleshooting. It was not compared
with the live server.
"""

from vivavoce.plugins.google.twin.script import CUT, HANG, Answer, Call, Fault, Raw, Refuse, Step, Thought
from vivavoce.plugins.google.twin.server import Received, Twin

__all__ = ["CUT", "HANG", "Answer", "Call", "Fault", "Raw", "Received", "Refuse", "Step", "Thought", "Twin"]
