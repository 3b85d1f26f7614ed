"""Claude, by Anthropic's Messages API, and servers that speak it.

    anthropic.LLM()                                              # ANTHROPIC_API_KEY
    anthropic.LLM(model="claude-sonnet-5-5", options=anthropic.LLMOptions(effort="low"))
    anthropic.LLM(model="…", base_url="http://127.0.0.1:4000", api_key=…)          # a gateway, or a server of your own

It needs no package beyond the core; `pip install 'vivavoce[anthropic]'` works all the same.
`vivavoce.plugins.anthropic.twin` is the server on loopback, played from a script, for tests without a key.

Decisions:

* Own wire, on `pipelines/net`: Anthropic's SDK takes 1.2 s and 79 MB to import, and brings a second HTTP stack. The SDK
  proves the twin instead.
* `ANTHROPIC_API_KEY` goes to Anthropic, or to `ANTHROPIC_BASE_URL`, and nowhere else: with a `base_url`, only a given
  key is sent. Keys, headers and the conversation never show in a repr, an error or a log.
* Prompt caching is on: each turn of a call sends the conversation again. `Usage.cached_tokens` shows the hits,
  `Usage.cache_write_tokens` what the cache took in.
* Thoughts go back with the calls that they led to until the user speaks next, in `ToolCall.extra`, to the same model
  only. If the history before them has changed since, the server drops them. They are never spoken.
* A refusal is an outcome: `Done("refusal")`. Words that came before it stand; calls do not.
* Tool calls are passed on after the end of the answer, so that no call comes from half an answer.
"""

from vivavoce.plugins.anthropic.llm import DEFAULT_MODEL, LLM
from vivavoce.plugins.anthropic.options import LLMOptions, Thinking

__all__ = ["DEFAULT_MODEL", "LLM", "LLMOptions", "Thinking"]
