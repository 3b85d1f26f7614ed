"""The facts about Google's Gemini."""

from __future__ import annotations

from vivavoce.pipelines.about import KeyCheck, Part, Provider
from vivavoce.pipelines.net.client import Client
from vivavoce.pipelines.net.keys import find_key
from vivavoce.plugins.google.realtime import KEY_VARIABLES, PROVIDER, RealtimeModel

BASE_URL = "https://generativelanguage.googleapis.com"


def _client(*, api_key: str | None = None, base_url: str | None = None) -> Client:
    return Client("google", base_url or BASE_URL, headers={"x-goog-api-key": find_key(api_key, KEY_VARIABLES)})


PROVIDERS = (
    Provider(
        name=PROVIDER,
        title="Google Gemini",
        docs="https://ai.google.dev/gemini-api/docs",
        parts=(
            Part(
                kind="realtime",
                make=RealtimeModel,
                note="Changed instructions or tools open a new connection. A cut answer stays whole at the server.",
            ),
        ),
        keys=KEY_VARIABLES,
        get_key="https://aistudio.google.com/apikey",
        check=KeyCheck(
            client=_client,
            path="v1beta/models",
            query={"pageSize": "1"},
            refused=(400, 401, 403),  # "API key not valid" is 400 INVALID_ARGUMENT
            source="https://ai.google.dev/api/models#method:-models.list, /gemini-api/docs/troubleshooting",
        ),
    ),
)
