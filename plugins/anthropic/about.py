"""The facts about Anthropic."""

from __future__ import annotations

from vivavoce.pipelines.about import KeyCheck, Part, Provider
from vivavoce.plugins.anthropic.llm import KEY_VARIABLES, LLM, client_of
from vivavoce.plugins.anthropic.wire import PROVIDER

PROVIDERS = (
    Provider(
        name=PROVIDER,
        title="Anthropic",
        docs="https://platform.claude.com/docs",
        parts=(Part(kind="llm", make=LLM, note="A refusal is an outcome of its own. Prompt caching is on."),),
        keys=KEY_VARIABLES,
        get_key="https://platform.claude.com/settings/keys",
        check=KeyCheck(
            client=client_of,
            path="v1/models",
            query={"limit": "1"},
            source="https://platform.claude.com/docs/en/api/models-list",
        ),
    ),
)
