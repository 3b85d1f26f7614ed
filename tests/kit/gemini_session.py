"""A connection of google.RealtimeModel to the scripted server, and what it reports."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

from kit.limits import LIMIT
from kit.open_connection import Session, opened_by
from vivavoce.pipelines.llm.base import GenerateRequest
from vivavoce.pipelines.llm.chat_context import ChatContext
from vivavoce.pipelines.llm.tools import function_tool
from vivavoce.pipelines.realtime_model.base import (
    RealtimeSetup,
)
from vivavoce.plugins import google
from vivavoce.plugins.google.twin.live import LiveTwin


@function_tool
def weather(city: str) -> str:
    """Tell the weather."""
    return f"cold in {city}"


ASKING = GenerateRequest(context=ChatContext(), instructions="Be brief.", tools=(weather,))
CALL = {"id": "c1", "name": "weather", "args": {"city": "Oslo"}}


def model(server: LiveTwin, name: str = "m", **options: Any) -> google.RealtimeModel:
    chosen = google.RealtimeOptions(ssl_context=server.trust, connect_timeout=LIMIT, **options)
    return google.RealtimeModel(model=name, api_key="secret", base_url=server.url, options=chosen)


WAITS = "gemini-3.1-flash-live-preview"
"""A model that waits for the outputs of its calls."""
LOCAL = RealtimeSetup(instructions="Be brief.", tools=(weather,), turn_detection="local")
REMOTE = RealtimeSetup()


def session(server: LiveTwin, setup: RealtimeSetup = LOCAL, **options: Any) -> AbstractAsyncContextManager[Session]:
    return opened_by(model(server, **options), setup, ASKING)
