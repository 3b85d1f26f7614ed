"""FallbackRealtime: the next model at the start and in mid-call, the order and time of retries, compatible models."""

from __future__ import annotations

import anyio
import pytest

from vivavoce.agents import Agent
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.testing import SessionHarness
from vivavoce.pipelines.core.errors import CapabilityError, ConfigurationError, ProviderConnectionError
from vivavoce.pipelines.realtime import RealtimePipeline
from vivavoce.pipelines.realtime_model.base import RealtimeCapabilities, RealtimeSetup
from vivavoce.pipelines.realtime_model.fallback import FallbackRealtime
from vivavoce.pipelines.testing import ScriptedRealtimeModel, ScriptedVAD, VirtualClock, run_virtual
from vivavoce.pipelines.testing.scripted_realtime import ScriptedRealtimeConnection

LOST = ProviderConnectionError("down", provider="scripted")


def test_a_conversation_goes_on_with_the_next_model_which_is_told_what_was_said() -> None:
    first = ScriptedRealtimeModel([0.3, "One."], hears=["hello"])
    second = ScriptedRealtimeModel([0.3, "Two."], hears=["again"])
    pipeline = RealtimePipeline(FallbackRealtime([first, second]), vad=ScriptedVAD())
    harness = SessionHarness(Agent("Help."), pipeline=pipeline)
    harness.caller.makes_noise(0.5, 1.0)
    harness.caller.makes_noise(4.0, 4.5)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(3.0)
        first.fail_open(LOST)
        first.fail(LOST)

    harness.run(scenario, until=7.0)
    harness.expect_history(("user", "hello"), ("assistant", "One."), ("user", "again"), ("assistant", "Two."))
    harness.expect_outcomes("completed", "completed")
    told = [message.content for message in second.connections[0].setup.history.messages()]
    assert told == ["hello", "One."]
    before, after = harness.session.turns
    assert before.fallbacks == ()
    assert [(one.component, one.successor) for one in after.fallbacks] == [("realtime_model", "scripted")]
    lost, passed_over = harness.recording.of(ErrorOccurred)
    assert {lost.successor, passed_over.successor} == {"", "scripted"}


def test_a_model_that_failed_is_passed_over_for_a_while_and_then_comes_first_again() -> None:
    first, second = ScriptedRealtimeModel(), ScriptedRealtimeModel()

    async def main() -> None:
        clock = VirtualClock()
        model = FallbackRealtime([first, second], retry_after=30.0, clock=clock)
        first.fail_open(LOST)
        for at, opened in ((0.0, (0, 1)), (29.0, (0, 2)), (30.0, (1, 2))):
            await anyio.sleep(at - clock.now())
            await (await model.open(RealtimeSetup())).aclose()
            assert (len(first.connections), len(second.connections)) == opened
        assert model.model == "scripted"
        first.fail_open(LOST)
        second.fail_open(LOST, LOST)
        with pytest.raises(ProviderConnectionError, match="down"):
            await model.open(RealtimeSetup())
        await (await model.open(RealtimeSetup())).aclose()  # all failed lately: they are tried all the same

    run_virtual(main())


def test_a_model_whose_code_raises_is_passed_over_too() -> None:
    class Wrong(ScriptedRealtimeModel):
        async def open(self, setup: RealtimeSetup) -> ScriptedRealtimeConnection:
            raise KeyError("secret")

    second = ScriptedRealtimeModel()

    async def main() -> None:
        await (await FallbackRealtime([Wrong(), second], clock=VirtualClock()).open(RealtimeSetup())).aclose()

    run_virtual(main())
    assert len(second.connections) == 1


def test_it_can_what_all_of_them_can() -> None:
    one = RealtimeCapabilities(generates_text=True, truncates=False, max_seconds=900.0)
    two = RealtimeCapabilities(supports_images=True, turn_detection=frozenset({"local"}))
    models = [ScriptedRealtimeModel(capabilities=can) for can in (one, two)]
    assert FallbackRealtime(models).capabilities == RealtimeCapabilities(
        truncates=False, max_seconds=900.0, turn_detection=frozenset({"local"})
    )


@pytest.mark.parametrize(
    "other",
    [
        RealtimeCapabilities(output_rate=16000),
        RealtimeCapabilities(starts_replies=False),
        RealtimeCapabilities(generates_audio=False, generates_text=True),
        RealtimeCapabilities(turn_detection=frozenset({"local"})),
    ],
)
def test_models_that_do_not_fit_together_are_refused(other: RealtimeCapabilities) -> None:
    first = ScriptedRealtimeModel(capabilities=RealtimeCapabilities(turn_detection=frozenset({"remote"})))
    with pytest.raises(CapabilityError):
        FallbackRealtime([first, ScriptedRealtimeModel(capabilities=other)])


def test_one_model_is_no_fallback() -> None:
    with pytest.raises(ConfigurationError, match="two members"):
        FallbackRealtime([ScriptedRealtimeModel()])
    with pytest.raises(ConfigurationError, match="retry_after"):
        FallbackRealtime([ScriptedRealtimeModel(), ScriptedRealtimeModel()], retry_after=-1.0)


def test_a_model_that_hangs_is_passed_over_within_the_time_that_a_session_has_to_connect() -> None:
    first, second = ScriptedRealtimeModel(open_delay=1000.0), ScriptedRealtimeModel([0.3, "Sure."], hears=["a"])
    pipeline = RealtimePipeline(FallbackRealtime([first, second]), vad=ScriptedVAD())
    harness = SessionHarness(Agent("Help."), model=second, pipeline=pipeline)
    harness.caller.makes_noise(10.5, 11.0)
    harness.run(until=16.0)
    harness.expect_outcomes("completed")


def test_a_model_without_a_list_is_refused() -> None:
    with pytest.raises(
        ConfigurationError, match=r"members of a fallback \(realtime_model\) as a list of RealtimeModel"
    ):
        FallbackRealtime(ScriptedRealtimeModel())  # type: ignore[arg-type]
