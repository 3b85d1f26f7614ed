"""examples/custom_plugin.py: its providers keep the promises of their ports, and an agent speaks with them."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from vivavoce.agents import Agent
from vivavoce.agents.testing import ScriptedSTT, ScriptedVAD, SessionHarness, run_virtual
from vivavoce.pipelines import CascadingPipeline
from vivavoce.pipelines.llm.base import GenerateRequest
from vivavoce.pipelines.llm.chat_context import ChatContext, ChatMessage
from vivavoce.pipelines.testing import check_llm, check_tts

EXAMPLE: dict[str, Any] = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "custom_plugin.py"))


def test_the_voice_keeps_the_promises_of_a_tts() -> None:
    run_virtual(check_tts(EXAMPLE["MorseTTS"]))


def test_the_model_keeps_the_promises_of_an_llm() -> None:
    request = GenerateRequest(context=ChatContext([ChatMessage(role="user", content="sos please")]))
    run_virtual(check_llm(EXAMPLE["EchoLLM"], request))


def test_the_agent_answers_in_morse_and_is_cut_to_the_word() -> None:
    stt = ScriptedSTT()
    pipeline = CascadingPipeline(stt=stt, llm=EXAMPLE["EchoLLM"](), tts=EXAMPLE["MorseTTS"](), vad=ScriptedVAD())
    harness = SessionHarness(Agent("You repeat."), pipeline=pipeline, stt=stt)
    harness.caller.says("one two three", 0.5, 1.5)
    harness.caller.says("one", 4.5, 5.5)
    expect = harness.run(until=9.0).expect
    expect.next_message("one two three", role="user").next_message("one two", role="assistant").interrupted()
    expect.next_message("one", role="user").next_message("one", role="assistant").interrupted(False).no_more()
    assert harness.played[-1].seconds == 1.3  # --- -. . is 0.6 + 0.3 + 0.1, and 0.1 after each letter
