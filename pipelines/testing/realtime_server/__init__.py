"""A server that speaks OpenAI's Realtime protocol (GA) on loopback from a script: for apps and plugins that talk to it.

    async with ScriptedRealtimeServer() as server:
        server.hears("What is the weather?")              # the transcript of the user's next words
        server.answers("It is sunny.")                    # and the model's answer
        model = openai.RealtimeModel(model="scripted", base_url=server.url)

Clients are real ones (the official `openai` SDK, livekit-plugins-openai) over a real websocket: audio in is judged by
an energy gate, audio out has the length of speech, items, usage, rate limits and errors have the protocol's shapes, and
invalid events are refused. Only the model and the transcriber are scripted. Faults come on demand: refused handshakes,
lost connections, silence, broken frames, events out of order, rate limits, expired sessions.

Not supported: WebRTC and SIP, G.711 audio, prompts by id, MCP tools, tracing, logprobs, idle timeouts. Semantic turn
detection is the energy gate too.

Source: https://platform.openai.com/docs/api-reference/realtime-client-events and /realtime-server-events.
"""

from vivavoce.pipelines.testing.realtime_server.script import (
    AnswerFault,
    AskedFor,
    ScriptedAnswer,
    ScriptedCall,
    ScriptedWords,
)
from vivavoce.pipelines.testing.realtime_server.server import ScriptedRealtimeServer

__all__ = [
    "AnswerFault",
    "AskedFor",
    "ScriptedAnswer",
    "ScriptedCall",
    "ScriptedRealtimeServer",
    "ScriptedWords",
]
