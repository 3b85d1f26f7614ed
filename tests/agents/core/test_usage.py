"""The usage of a session by model: counted as it comes, also without a budget."""

from __future__ import annotations

from vivavoce.agents.core.usage import UsageByModel
from vivavoce.agents.records import UsageRecord


def test_models_are_counted_apart_and_a_listener_sees_the_new_count() -> None:
    usage, seen = UsageByModel(), list[int]()
    usage.add("acme/mind", UsageRecord(llm_input_tokens=1))
    usage.listen(lambda: seen.append(usage.models["acme/mind"].llm_input_tokens))
    usage.add("acme/mind", UsageRecord(llm_input_tokens=2))
    usage.add("acme/voice", UsageRecord(tts_characters=5))
    assert usage.models == {
        "acme/mind": UsageRecord(llm_input_tokens=3),
        "acme/voice": UsageRecord(tts_characters=5),
    }
    assert seen == [3, 3]
