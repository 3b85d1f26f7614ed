"""Laws of a conversation: rules that hold for every session, for any caller and any application.

Each law reads only recordings, and yields a line for each breach. `SessionHarness.check_laws()` checks all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from vivavoce.agents.agent import Agent
from vivavoce.agents.events import (
    AgentChanged,
    AgentStateChanged,
    Closed,
    HistoryItemAdded,
    HistoryItemRemoved,
    HistoryItemReplaced,
    SpeechCreated,
    TurnCompleted,
    UserStateChanged,
    UserTranscript,
    WakeUpFired,
)
from vivavoce.agents.states import AGENT_TRANSITIONS, USER_TRANSITIONS, AgentState, UserState
from vivavoce.agents.testing.recording import Played, Recording
from vivavoce.pipelines.core.words import words_of
from vivavoce.pipelines.llm.chat_context import (
    AgentHandoff,
    ChatItem,
    ChatMessage,
    FunctionCall,
    FunctionCallOutput,
)

SLACK = 1e-6
"""Seconds: times are sums of floats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The material of the laws, of a session that is over.

    Args:
        requests: The items of each request that the scripted model received.
        spoken: The texts that the scripted voice received.
        seconds_per_word: Its pace; None if it has no steady one.
        has_word_times: Whether it gives word times; without them a cut may err by a word.
        typed: The caller's typed texts.
        timers_left: How many timers wait in the loop after the close.
    """

    recording: Recording
    played: Sequence[Played]
    requests: Sequence[Sequence[ChatItem]] = ()
    spoken: Sequence[str] = ()
    seconds_per_word: float | None = None
    has_word_times: bool = False
    typed: Sequence[str] = ()
    timers_left: int = 0

    @property
    def messages(self) -> list[ChatMessage]:
        """The messages with words that this session added to the history."""
        added = {event.item.id for event in self.recording.of(HistoryItemAdded)}
        items = [item for item in self.recording.items() if item.id in added]
        return [item for item in items if isinstance(item, ChatMessage) and not item.no_transcript]


Law = Callable[[Observed], Iterator[str]]


def outcomes(seen: Observed) -> Iterator[str]:
    """Every speech ends once, and every turn has exactly one outcome.

    A turn that continues after its commit withdraws the answer begun, which then has no outcome of its own.
    """
    created = seen.recording.of(SpeechCreated)
    turns = {event.turn_id for event in created if event.kind == "turn"}
    others = {event.speech_id for event in created if event.kind != "turn"}
    records = [event.record for event in seen.recording.of(TurnCompleted)]
    ended = Counter(record.turn_id for record in records)
    for record in records:
        if record.kind != "turn" and record.turn_id not in others and record.outcome != "discarded":
            yield f"{record.turn_id} ({record.kind}) had an outcome, and was never begun"
    for name in sorted((turns | others) - set(ended)):
        yield f"{name} never had an outcome"
    for name, count in ended.items():
        if count > 1:
            yield f"{name} had {count} outcomes"


def speaking(seen: Observed) -> Iterator[str]:
    """The agent is speaking from a first frame on; it does not sound otherwise.

    The law does not limit a silence within or at the end of speaking: speech may be paused, and models may stall.
    """
    spans: list[list[float]] = []
    closing = float("inf")
    for event in seen.recording.of(AgentStateChanged):
        if spans and spans[-1][1] == float("inf"):
            spans[-1][1] = event.at
        if event.state is AgentState.SPEAKING:
            spans.append([event.at, float("inf")])
        elif event.state is AgentState.CLOSING:
            closing = event.at
    for begin, end in spans:  # a span without length was cut in the moment of its first frame
        if end - begin > SLACK and not any(
            s.start - SLACK <= begin <= s.start + s.seconds + SLACK for s in seen.played
        ):
            yield f"the agent was speaking from {begin:g} s, and no frame played"
    for stretch in seen.played:
        if stretch.start > closing - SLACK:  # a farewell, spoken while closing
            continue
        if not any(begin - SLACK <= stretch.start < end + SLACK for begin, end in spans):
            yield f"the agent sounded from {stretch.start:g} s and was not speaking"


def heard_text(seen: Observed) -> Iterator[str]:
    """All text of the agent in the history was played."""
    if seen.seconds_per_word is None:
        return
    texts = [message.content for message in seen.messages if message.role == "assistant"]
    words = (_counted(texts) & _counted(seen.spoken)).total()  # a text filter may change the spoken text
    needed = words * seen.seconds_per_word
    slack = 0.0 if seen.has_word_times else len(texts) * seen.seconds_per_word
    sounded = sum(stretch.seconds for stretch in seen.played)
    if needed > sounded + slack + SLACK:
        yield f"the agent's messages take {needed:g} s to say, and {sounded:g} s were played"


def user_words(seen: Observed) -> Iterator[str]:
    """Every recognised word is in a message of the user, unless a hook dropped its turn, and not too often.

    A word that was said several times must be there at least once: bursts may merge, and guesses may be amended.

    The law does not hold for an agent whose hook on user turns may change their words.
    """
    if any(type(agent).on_user_turn_completed is not Agent.on_user_turn_completed for agent in seen.recording.agents):
        return
    transcripts = seen.recording.of(UserTranscript)
    finals = _counted(event.text for event in transcripts if event.is_final)
    guessed = _counted(event.text for event in transcripts if not event.is_final)
    removed = [
        event.item.content for event in seen.recording.of(HistoryItemRemoved) if isinstance(event.item, ChatMessage)
    ]
    kept = _counted([*(message.content for message in seen.messages if message.role == "user"), *removed])
    for word in finals:
        if kept[word] < min(finals[word], 1):
            yield f"the user's word {word!r} is in no message"
        elif kept[word] > finals[word] + guessed[word] + _counted(seen.typed)[word]:
            yield f"the user's word {word!r} is in the messages {kept[word]} times, and was said {finals[word]} time(s)"


def tools(seen: Observed) -> Iterator[str]:
    """No call is in the history, or in a request, without its output, and none has two."""
    requests = ((f"request {number}", items) for number, items in enumerate(seen.requests, start=1))
    for name, items in [("the history", seen.recording.items()), *requests]:
        calls = Counter(item.call_id for item in items if isinstance(item, FunctionCall))
        answered = Counter(item.call_id for item in items if isinstance(item, FunctionCallOutput))
        for call_id in (calls | answered) - (calls & answered):
            yield f"{name} has {calls[call_id]} call(s) and {answered[call_id]} output(s) with the id {call_id!r}"


def handoffs(seen: Observed) -> Iterator[str]:
    """The history holds each change of the agent once, in one chain."""
    chain = [
        (item.old_agent, item.new_agent)
        for item in seen.recording.items()
        if isinstance(item, AgentHandoff) and item.old_agent
    ]
    told = [(event.old, event.agent) for event in seen.recording.of(AgentChanged)]
    if chain[-len(told) :] != told and told:
        yield f"the history has the handoffs {chain!r}, and these happened: {told!r}"
    for (_, left), (came, _) in pairwise(told):
        if left != came:
            yield f"{left!r} had the conversation, and {came!r} handed it on"


def wake_ups(seen: Observed) -> Iterator[str]:
    """Levels rise one by one within a silence; no wake-up comes while a side speaks."""
    level, agent, user = 0, AgentState.IDLE, UserState.IDLE
    for event in seen.recording.events:
        match event:
            case AgentStateChanged():
                agent = event.state
            case UserStateChanged():
                user = event.state
            case HistoryItemAdded() | HistoryItemReplaced() if getattr(event.item, "role", "") == "user":
                level = 0
            case UserTranscript():
                level = 0
            case WakeUpFired():
                if event.level not in (1, level + 1):
                    yield f"a wake-up at {event.at:g} s had level {event.level}, after {level}"
                if agent is not AgentState.IDLE or user not in (UserState.IDLE, UserState.AWAY):
                    yield f"a wake-up at {event.at:g} s found the agent {agent.value} and the user {user.value}"
                level = event.level


def states(seen: Observed) -> Iterator[str]:
    """Each change of state starts from the state before, and the table of states allows it."""
    agent: AgentState | None = None
    user: UserState | None = None
    for event in seen.recording.events:
        if isinstance(event, AgentStateChanged):
            if agent not in (None, event.old):
                yield f"at {event.at:g} s the agent left {event.old.value}, and was {agent}"
            if event.old is not AgentState.IDLE and event.state not in AGENT_TRANSITIONS[event.old]:
                yield f"at {event.at:g} s the agent went from {event.old.value} to {event.state.value}"
            agent = event.state
        elif isinstance(event, UserStateChanged):
            if user not in (None, event.old):
                yield f"at {event.at:g} s the user left {event.old.value}, and was {user}"
            if event.state not in USER_TRANSITIONS[event.old]:
                yield f"at {event.at:g} s the user went from {event.old.value} to {event.state.value}"
            user = event.state


def close(seen: Observed) -> Iterator[str]:
    """Nothing follows the close: no event, no sound and no timer."""
    events = seen.recording.events
    places = [place for place, event in enumerate(events) if isinstance(event, Closed)]
    if len(places) != 1:
        yield f"the session closed {len(places)} times"
        return
    for event in events[places[0] + 1 :]:
        yield f"{event.name} came after the close"
    for stretch in seen.played:
        if stretch.start > events[places[0]].at + SLACK:
            yield f"the agent sounded from {stretch.start:g} s, after the close"
    if seen.timers_left:
        yield f"{seen.timers_left} timer(s) wait after the close"


LAWS: Mapping[str, Law] = {
    law.__name__: law for law in (outcomes, speaking, heard_text, user_words, tools, handoffs, wake_ups, states, close)
}
"""The laws by name."""


def breaches(seen: Observed, *, without: Sequence[str] = ()) -> list[str]:
    """Return a line for each breach of a law.

    Args:
        without: Names of laws that are not checked.
    Raises:
        ValueError: There is no law of such a name.
    """
    if unknown := [name for name in without if name not in LAWS]:
        raise ValueError(f"needed names of laws, {', '.join(LAWS)}, got {unknown!r}")
    return [f"{name}: {line}" for name, law in LAWS.items() if name not in without for line in law(seen)]


def _counted(texts: Iterable[str]) -> Counter[str]:
    return Counter(word for text in texts for word in words_of(text))
