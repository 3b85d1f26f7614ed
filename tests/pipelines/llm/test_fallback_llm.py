"""FallbackLLM: the next model by error and by latency, nothing twice after a word, health checks and recovery."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable

import anyio
import pytest

from vivavoce.pipelines.core.errors import CapabilityError, ConfigurationError, ProviderConnectionError, ProviderError
from vivavoce.pipelines.core.incidents import FellBack, on_fallback
from vivavoce.pipelines.core.tending import Tending
from vivavoce.pipelines.llm.base import LLM, Done, GenerateRequest, LLMCapabilities, LLMEvent, TextDelta, Usage
from vivavoce.pipelines.llm.chat_context import ChatContext, ChatMessage
from vivavoce.pipelines.llm.fallback import FallbackLLM, FallbackLLMOptions
from vivavoce.pipelines.testing import HANG, ScriptedLLM, VirtualClock, run_virtual

LOST = ProviderConnectionError("down", provider="first")
REFUSED = ProviderError("no such key", provider="first")


class First(ScriptedLLM):
    provider = "first"


class Second(ScriptedLLM):
    provider = "second"


def request() -> GenerateRequest:
    return GenerateRequest(context=ChatContext([ChatMessage(role="user", content="Hello")]))


async def answer(llm: LLM) -> str:
    events = [event async for event in llm.generate(request())]
    assert events[-1] == Done()
    return "".join(event.text for event in events if isinstance(event, TextDelta))


@pytest.mark.parametrize("error", [LOST, REFUSED], ids=["retryable", "not retryable"])
def test_a_model_that_raises_before_its_first_word_is_passed_over_and_the_fallback_is_reported(
    error: ProviderError,
) -> None:
    told: list[FellBack] = []

    async def main() -> None:
        on_fallback.set(told.append)
        llm = FallbackLLM([First([0.1, error]), Second("Sure.")])
        assert llm.model == "first"
        assert await answer(llm) == "Sure."
        assert llm.model == "second"

    run_virtual(main())
    assert told == [FellBack("llm", "first", "", error, successor="second")]


def test_the_usage_names_the_model_that_was_asked() -> None:
    async def main() -> None:
        llm = FallbackLLM([First([LOST]), Second(["Sure.", Usage(input_tokens=3)])])
        assert [member.provider for member in llm.members] == ["first", "second"]
        used = [event for event in [one async for one in llm.generate(request())] if isinstance(event, Usage)]
        assert [(one.input_tokens, one.made_by) for one in used] == [(3, "second")]

    run_virtual(main())


def test_a_model_without_a_word_in_time_is_passed_over_and_its_request_is_closed() -> None:
    first, second = First([HANG]), Second([0.2, "Sure."])

    async def main() -> None:
        clock = VirtualClock()
        assert await answer(FallbackLLM([first, second], FallbackLLMOptions(first_token=1.0))) == "Sure."
        assert clock.now() == pytest.approx(1.2)

    run_virtual(main())
    assert first.cancelled == [0]


class Blank(LLM):
    """Sends blank text, and then fails or sends nothing more."""

    provider = "blank"

    def __init__(self, *, hangs: bool) -> None:
        self.hangs = hangs

    @property
    def capabilities(self) -> LLMCapabilities:
        return LLMCapabilities(supports_tools=True)

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[LLMEvent, None]:
        yield TextDelta("")
        yield TextDelta(" \n")
        if self.hangs:
            await anyio.sleep_forever()
        raise LOST


@pytest.mark.parametrize("hangs", [False, True], ids=["raises", "hangs"])
def test_blank_text_is_no_word_so_that_the_next_model_is_still_asked(hangs: bool) -> None:
    async def main() -> None:
        models = [Blank(hangs=hangs), Second("Sure.")]
        assert await answer(FallbackLLM(models, FallbackLLMOptions(first_token=1.0))) == "Sure."

    run_virtual(main())


def test_the_last_model_may_take_its_time_and_counts_as_failed_if_it_is_given_up() -> None:
    slow = FallbackLLM([First([LOST]), Second([5.0, "Sure."])], FallbackLLMOptions(first_token=1.0))
    run_virtual(_expect(slow, "Sure."))

    async def main() -> None:
        first, second = First([LOST], "One."), Second([HANG], "Two.")
        llm = FallbackLLM([first, second], FallbackLLMOptions(first_token=1.0))
        with anyio.move_on_after(10.0):
            await answer(llm)
        assert await answer(llm) == "One."  # both have failed; its failure is the older one

    run_virtual(main())


def test_after_the_first_word_no_other_model_is_asked_and_the_next_request_goes_to_the_next_one() -> None:
    first, second = First(["One two", 0.1, LOST]), Second("Three.")

    async def main() -> None:
        llm = FallbackLLM([first, second])
        answer_events = llm.generate(request())
        assert await anext(answer_events) == TextDelta("One two")
        with pytest.raises(ProviderConnectionError, match="down"):
            await anext(answer_events)
        assert second.requests == []
        assert await answer(llm) == "Three."

    run_virtual(main())


def test_a_model_whose_code_raises_is_passed_over() -> None:
    class Wrong(First):
        def generate(self, request: GenerateRequest):  # type: ignore[no-untyped-def]
            raise KeyError("secret")

    run_virtual(_expect(FallbackLLM([Wrong(), Second("Sure.")]), "Sure."))


async def _expect(llm: LLM, text: str) -> None:
    assert await answer(llm) == text


def test_if_all_models_fail_the_error_is_retryable_when_one_of_them_was() -> None:
    async def main() -> None:
        for errors in ((LOST, REFUSED), (REFUSED, LOST)):
            llm = FallbackLLM([First([errors[0]]), Second([errors[1]])])
            with pytest.raises(ProviderError) as failure:
                await answer(llm)
            assert failure.value is LOST
        with pytest.raises(ProviderError) as failure:
            await answer(FallbackLLM([First([REFUSED]), Second([REFUSED])]))
        assert not failure.value.retryable

    run_virtual(main())


def test_a_model_that_failed_comes_last_and_is_first_again_after_a_while_without_any_check() -> None:
    first, second = First([LOST], default="One."), Second(default="Two.")

    async def main() -> None:
        clock = VirtualClock()
        llm = FallbackLLM([first, second], FallbackLLMOptions(retry_after=30.0), clock=clock)
        for at, said in ((0.0, "Two."), (29.0, "Two."), (30.0, "One.")):
            await anyio.sleep(at - clock.now())
            assert await answer(llm) == said

    run_virtual(main())


def test_if_all_have_failed_lately_they_are_tried_all_the_same() -> None:
    async def main() -> None:
        llm = FallbackLLM([First([LOST], "One."), Second([LOST])])
        with pytest.raises(ProviderConnectionError):
            await answer(llm)
        assert await answer(llm) == "One."

    run_virtual(main())


async def _with_tending(llm: FallbackLLM, act: Callable[[], object]) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(Tending((llm,)).run)
        await act()  # type: ignore[misc]
        group.cancel_scope.cancel()


def test_a_check_in_the_background_brings_the_first_choice_back() -> None:
    first = First([LOST], [LOST], "OK", default="One.")
    second = Second(default="Two.")

    async def main() -> None:
        clock = VirtualClock()
        llm = FallbackLLM([first, second], FallbackLLMOptions(check_every=5.0), clock=clock)

        async def act() -> None:
            for at, said in ((0.0, "Two."), (5.5, "Two."), (9.9, "Two."), (10.5, "One.")):
                await anyio.sleep(at - clock.now())
                assert await answer(llm) == said

        await _with_tending(llm, act)

    run_virtual(main())
    assert [sent.context.messages()[0].content for sent in first.requests[1:3]] == [
        "Answer with the word OK.",
        "Answer with the word OK.",
    ]


def test_a_check_that_hangs_ends_and_the_next_one_comes() -> None:
    first, second = First([LOST], [HANG], "OK", default="One."), Second(default="Two.")

    async def main() -> None:
        clock = VirtualClock()
        options = FallbackLLMOptions(check_every=6.0)
        llm = FallbackLLM([first, second], options, clock=clock)

        async def act() -> None:
            assert await answer(llm) == "Two."
            await anyio.sleep(19.0)
            assert await answer(llm) == "One."

        await _with_tending(llm, act)

    run_virtual(main())


def test_several_sessions_that_share_a_fallback_check_a_model_once_at_a_time() -> None:
    first, second = First([LOST], default=[1.0, LOST]), Second(default="Two.")

    async def main() -> None:
        llm = FallbackLLM([first, second], FallbackLLMOptions(check_every=10.0), clock=VirtualClock())

        async def act() -> None:
            await answer(llm)
            async with anyio.create_task_group() as group:
                for _ in range(4):
                    group.start_soon(Tending((llm,)).run)
                await anyio.sleep(45.0)
                group.cancel_scope.cancel()

        await _with_tending(llm, act)

    run_virtual(main())
    assert len(first.requests) == 1 + 4


def test_without_checks_nothing_is_asked_in_the_background() -> None:
    first = First([LOST])

    async def main() -> None:
        llm = FallbackLLM([first, Second(default="Two.")], FallbackLLMOptions(check_every=None))

        async def act() -> None:
            await answer(llm)
            await anyio.sleep(100.0)

        await _with_tending(llm, act)

    run_virtual(main())
    assert len(first.requests) == 1


def test_its_capabilities_are_those_that_all_have() -> None:
    sees = ScriptedLLM(capabilities=LLMCapabilities(supports_images=True))
    other = ScriptedLLM(capabilities=LLMCapabilities(supports_images=True))
    assert FallbackLLM([sees, other]).capabilities == LLMCapabilities(supports_images=True)
    assert FallbackLLM([sees, ScriptedLLM()]).capabilities == LLMCapabilities(supports_images=False)
    mute = LLMCapabilities(supports_tools=False)
    assert not FallbackLLM([ScriptedLLM(capabilities=mute) for _ in range(2)]).capabilities.supports_tools


def test_models_of_which_only_one_calls_tools_are_refused_by_name() -> None:
    second = Second(capabilities=LLMCapabilities(supports_tools=False))
    with pytest.raises(CapabilityError, match="second lacks the capability 'supports_tools': first calls tools"):
        FallbackLLM([First(), second])


def test_one_model_is_no_fallback_and_wrong_arguments_are_named() -> None:
    with pytest.raises(ConfigurationError, match="two members"):
        FallbackLLM([ScriptedLLM()])
    with pytest.raises(ConfigurationError, match=r"members of a fallback \(llm\) as a list of LLM"):
        FallbackLLM([ScriptedLLM(), ScriptedLLM])  # type: ignore[list-item]
    with pytest.raises(ConfigurationError, match="first_token"):
        FallbackLLMOptions(first_token=0)
    with pytest.raises(ConfigurationError, match="retry_after"):
        FallbackLLMOptions(retry_after=-1)
    with pytest.raises(ConfigurationError, match="options"):
        FallbackLLM([ScriptedLLM()] * 2, 3)  # type: ignore[arg-type]


def test_members_without_a_list_are_refused_with_the_list_that_is_needed() -> None:
    with pytest.raises(ConfigurationError, match=r"in one list, FallbackLLM\(\[a, b\]\), got .*ScriptedLLM"):
        FallbackLLM(ScriptedLLM(), ScriptedLLM())  # type: ignore[arg-type]


def test_a_member_that_failed_again_while_its_check_ran_stays_out() -> None:
    first, second = First([LOST], [0.5, "OK"], [LOST], default="One."), Second(default="Two.")

    async def main() -> None:
        llm = FallbackLLM([first, second], FallbackLLMOptions(check_every=5.0, retry_after=5.1), clock=VirtualClock())

        async def act() -> None:
            assert await answer(llm) == "Two."
            await anyio.sleep(5.2)  # its check takes until 5.5; by time it may be asked again
            assert await answer(llm) == "Two."
            await anyio.sleep(1.0)
            assert await answer(llm) == "Two."

        await _with_tending(llm, act)

    run_virtual(main())


def test_the_members_of_a_fallback_in_a_fallback_are_checked_too() -> None:
    first, second, third = First([LOST], default="One."), Second([LOST], default="Two."), ScriptedLLM(default="Three.")

    async def main() -> None:
        options = FallbackLLMOptions(check_every=5.0)
        llm = FallbackLLM([FallbackLLM([first, second], options), third], options)

        async def act() -> None:
            assert await answer(llm) == "Three."
            await anyio.sleep(11.0)
            assert await answer(llm) == "One."

        await _with_tending(llm, act)

    run_virtual(main())


class HangsAsItFails(First):
    """Its clean-up waits for a server that is gone."""

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[LLMEvent, None]:
        try:
            raise LOST
            yield Done()
        finally:
            await anyio.sleep_forever()


def test_a_model_that_hangs_in_its_clean_up_is_passed_over_within_its_limit() -> None:
    async def main() -> None:
        clock = VirtualClock()
        llm = FallbackLLM([HangsAsItFails(), Second("Sure.")], FallbackLLMOptions(first_token=1.0))
        assert await answer(llm) == "Sure."
        assert clock.now() == pytest.approx(1.0)

    run_virtual(main())
