"""The facts about Google's Gemini."""

from __future__ import annotations

from vivavoce.pipelines.about import KeyCheck, Part, Provider
from vivavoce.pipelines.net.client import Client
from vivavoce.plugins.google.access import GEMINI_VERSION, KEY_VARIABLES, find_access
from vivavoce.plugins.google.llm import DEFAULT_LLM_MODEL, LLM
from vivavoce.plugins.google.llm_wire import PROVIDER
from vivavoce.plugins.google.realtime import RealtimeModel


def _client(*, api_key: str | None = None, base_url: str | None = None) -> Client:
    access = find_access(DEFAULT_LLM_MODEL, api_key, base_url, False)
    return Client("google.LLM", access.base_url, headers=access.headers)


PROVIDERS = (
    Provider(
        name=PROVIDER,
        title="Google Gemini",
        docs="https://ai.google.dev/gemini-api/docs",
        parts=(
            Part(
                kind="llm",
                make=LLM,
                note="An answer that the server withholds is an outcome of its own. Google Cloud by `google.Vertex`.",
            ),
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
            path=f"{GEMINI_VERSION}/models",
            query={"pageSize": "1"},
            refused=(400, 401, 403),  # "API key not valid" is 400 INVALID_ARGUMENT
            source="https://ai.google.dev/api/models#method:-models.list, /gemini-api/docs/troubleshooting",
        ),
    ),
)
