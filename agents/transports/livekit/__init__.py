"""The session's side of a LiveKit room, on `livekit.rtc`: audio both ways, transcriptions, states, typed text."""

from vivavoce.agents.transports.livekit.sink import LiveKitSink
from vivavoce.agents.transports.livekit.transport import LiveKitTransport

__all__ = ["LiveKitSink", "LiveKitTransport"]
