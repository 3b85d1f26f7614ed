"""The facts about OpenAI."""

from __future__ import annotations

from vivavoce.pipelines.about import KeyCheck, Part, Provider
from vivavoce.pipelines.net.client import Client
from vivavoce.pipelines.net.options import ConnectionOptions
from vivavoce.plugins.openai.client import KEY_VARIABLE, net_client
from vivavoce.plugins.openai.llm import LLM
from vivavoce.plugins.openai.realtime import RealtimeModel
from vivavoce.plugins.openai.stt import STT
from vivavoce.plugins.openai.tts import TTS
from vivavoce.plugins.openai.wire import PROVIDER


def _client(*, api_key: str | None = None, base_url: str | None = None) -> Client:
    return net_client("openai", api_key=api_key, base_url=base_url, options=ConnectionOptions())


PROVIDERS = (
    Provider(
        name=PROVIDER,
        title="OpenAI",
        docs="https://platform.openai.com/docs",
        parts=(
            Part(kind="stt", make=STT),
            Part(kind="llm", make=LLM, note="With `base_url`, of every server that has OpenAI's API."),
            Part(kind="tts", make=TTS, note="The option `instructions` says how it speaks."),
            Part(kind="realtime", make=RealtimeModel),
        ),
        keys=(KEY_VARIABLE,),
        get_key="https://platform.openai.com/api-keys",
        check=KeyCheck(
            client=_client, path="models", source="https://platform.openai.com/docs/api-reference/models/list"
        ),
    ),
)
