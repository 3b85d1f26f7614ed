"""Sessions that talk with agents of other processes: connecting, messages, requests, texts, and the end of a side."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest
from pydantic import create_model

from kit.talking_peers import Answer, Note, Question, answering, errors_of, running, talker
from vivavoce.agents import (
    Agent,
    AgentSession,
    CompletedTurn,
    ContentGuard,
    GuardedText,
    GuardVerdict,
    StopResponse,
)
from vivavoce.agents.graphs import GraphOptions, StateGraph
from vivavoce.agents.peers import (
    AgentCard,
    AgentRegistry,
    Peer,
    PeerError,
    PeerRejected,
    PeerServer,
    PeerTimeout,
    PeerUnreachable,
)
from vivavoce.agents.testing import ScriptedLLM
from vivavoce.agents.transports import TextTransport
from vivavoce.pipelines import CascadingPipeline
from vivavoce.pipelines.core.errors import (
    ConfigurationError,
    ProviderError,
    SessionClosedError,
    SessionNotStartedError,
)
from vivavoce.pipelines.llm.chat_context import ChatMessage


async def test_a_request_returns_the_result_of_the_other_side_s_handler() -> None:
    async with PeerServer() as server, running(answering(talker("desk"))) as desk, running(talker()) as asker:
        server.add(desk)
        peer = await asker.peers.connect(server.url_of(desk))
        assert (peer.id, peer.url) == ("desk", f"{server.url}desk")
        assert await peer.request(Question(number=7), answer=Answer) == Answer(number=7)
        assert await peer.request(Question(number=8)) == {"number": 8}
        await peer.aclose()
        with pytest.raises(PeerUnreachable, match=r"was closed; connect\(\) makes another one"):
            await peer.send("hello")


async def test_both_sides_send_and_a_message_is_acknowledged_before_its_handler_has_ended() -> None:
    heard: list[str] = []
    may_end = anyio.Event()
    async with PeerServer() as server, running(talker("desk")) as desk, running(talker()) as asker:
        server.add(desk)

        @desk.peers.on_message(Note)
        async def note(peer: Peer, message: Note) -> None:
            await peer.send(f"{peer.id} said {message.words}")
            await may_end.wait()

        came = anyio.Event()

        @asker.peers.on_message(str)
        async def hear(peer: Peer, message: str) -> None:
            heard.append(message)
            came.set()

        await asker.peers.send(server.url_of(desk), Note(words="hi"))
        await came.wait()
        may_end.set()
    assert heard == ["asker said hi"]


async def test_a_model_that_the_peer_takes_later_is_known_then() -> None:
    async with PeerServer() as server, running(talker("desk")) as desk, running(talker()) as asker:
        server.add(desk)
        peer = await asker.peers.connect(server.url_of(desk))
        with pytest.raises(PeerRejected, match="the peer 'desk' takes nothing, got Question"):
            await peer.request(Question())
        answering(desk)
        while True:  # the other side is told soon
            try:
                assert await peer.request(Question(number=1), answer=Answer) == Answer(number=1)
                break
            except PeerRejected:
                await anyio.lowlevel.checkpoint()


async def test_wrong_calls_are_refused_before_anything_is_sent() -> None:
    asker = talker()
    with pytest.raises(SessionNotStartedError):
        await asker.peers.connect("ws://127.0.0.1:1/")
    async with PeerServer() as server, running(answering(talker("desk"))) as desk, running(asker):
        server.add(desk)
        for url in ("http://127.0.0.1/", "ws://", "desk", "ws://h:x/", ""):
            with pytest.raises(ConfigurationError, match="url must be that of a WebSocket"):
                await asker.peers.connect(url)
        with pytest.raises(ConfigurationError, match=r"id of an agent needs PeerOptions\(registry=AgentRegistry\(…"):
            await asker.peers.connect("desk")
        peer = await asker.peers.connect(server.url_of(desk))
        for message in (3, None, Question, {"number": 1}, b"x"):
            with pytest.raises(ConfigurationError, match="need a message as a text or an object of a pydantic model"):
                await peer.send(message)  # type: ignore[arg-type]
        with pytest.raises(PeerRejected, match="takes Question, got Note"):
            await peer.send(Note(words="x"))
        with pytest.raises(PeerRejected, match="takes Question, got texts"):
            await peer.send("x")
        with pytest.raises(ConfigurationError, match=r"may have 1,048,576 bytes as JSON, got 2,000,\d\d\d"):
            await peer.send(Question(words="x" * 2_000_000))
        with pytest.raises(ConfigurationError, match="answer must be the class of a pydantic model"):
            await peer.request(Question(), answer=int)  # type: ignore[type-var]
        with pytest.raises(ConfigurationError, match="timeout"):
            await peer.request(Question(), timeout=0)
        with pytest.raises(
            ConfigurationError, match="need the class of a pydantic model, or str for texts, got <class"
        ):
            desk.peers.on_message(int)  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match=r"must be async f\(peer, message\)"):
            desk.peers.on_message(Note)(lambda: None)  # type: ignore[type-var]
        assert await peer.request(Question(number=2)) == {"number": 2}
    with pytest.raises(SessionClosedError):
        await asker.peers.connect("ws://127.0.0.1:1/")


async def test_a_session_without_the_option_says_how_it_gets_peers() -> None:
    with pytest.raises(ConfigurationError, match=r"SessionOptions\(peers=PeerOptions\(\)\)"):
        AgentSession(Agent("x")).peers  # noqa: B018 - it raises
    with pytest.raises(ConfigurationError, match=r"SessionOptions\(peers=PeerOptions\(\)\)"):
        PeerServer().add(AgentSession(Agent("x")))


async def test_a_failing_handler_rejects_the_request_without_its_words_and_is_an_error_event() -> None:
    desk = talker("desk")
    errors = errors_of(desk)
    async with PeerServer() as server, desk, running(talker()) as asker:
        await desk.start()
        server.add(desk)

        @desk.peers.on_message(Question)
        async def fail(peer: Peer, question: Question) -> object:
            if question.number:
                return question.number  # no message
            raise RuntimeError("secret words")

        peer = await asker.peers.connect(server.url_of(desk))
        for number in (0, 1):
            with pytest.raises(PeerRejected, match="failed: its handler of Question failed") as caught:
                await peer.request(Question(number=number))
            assert "secret" not in str(caught.value)
    assert errors == [
        "peers: secret words",
        "peers: the handler of Question of a peer must return a message or None: "
        "need a message as a text or an object of a pydantic model, got a int",
    ]


async def test_a_request_that_times_out_cancels_the_handler_and_the_next_one_is_answered() -> None:
    cut = anyio.Event()
    async with PeerServer() as server, running(talker("desk")) as desk, running(talker()) as asker:
        server.add(desk)

        @desk.peers.on_message(Question)
        async def slow(peer: Peer, question: Question) -> Answer:
            if not question.number:
                try:
                    await anyio.sleep_forever()
                finally:
                    cut.set()
            return Answer(number=question.number)

        peer = await asker.peers.connect(server.url_of(desk))
        with pytest.raises(PeerTimeout, match=r"no answer of the peer 'ws://.*desk' within 0.05 s"):
            await peer.request(Question(), timeout=0.05)
        await cut.wait()
        assert await peer.request(Question(number=5)) == {"number": 5}


async def test_content_that_fits_no_schema_and_an_answer_of_another_model_are_rejected() -> None:
    async with PeerServer() as server, running(answering(talker("desk"))) as desk, running(talker()) as asker:
        server.add(desk)
        peer = await asker.peers.connect(server.url_of(desk))
        with pytest.raises(PeerRejected, match="the content does not fit the schema of Question"):
            await peer.request(create_model("Question", number=(str, "no number"))())
        with pytest.raises(PeerRejected, match="needed an answer of the model Note, got Answer"):
            await peer.request(Question(), answer=Note)


async def test_a_connection_that_ends_fails_the_open_call_once_and_the_next_call_connects_again() -> None:
    asked: list[int] = []
    failures: list[PeerError] = []
    began = anyio.Event()
    desk = talker("desk")

    @desk.peers.on_message(Question)
    async def answer(peer: Peer, question: Question) -> Answer:
        asked.append(question.number)
        if question.number == 1:
            began.set()
            await anyio.sleep_forever()
        return Answer(number=question.number)

    async with running(talker()) as asker, running(desk), anyio.create_task_group() as tasks:

        async def ask(peer: Peer) -> None:
            with pytest.raises(PeerUnreachable) as caught:
                await peer.request(Question(number=1), timeout=60)
            failures.append(caught.value)

        async with PeerServer() as server:
            server.add(desk)
            port = int(server.url.rstrip("/").rpartition(":")[2])
            peer = await asker.peers.connect(server.url_of(desk))
            tasks.start_soon(ask, peer)
            await began.wait()
        with pytest.raises(PeerUnreachable, match="no connection to ws://127.0.0.1"):
            await peer.request(Question(number=2))
        async with PeerServer(port=port) as server:
            with pytest.raises(PeerRejected, match="no such session runs here"):
                await peer.request(Question(number=3))
            server.add(desk)
            assert await peer.request(Question(number=4)) == {"number": 4}
    assert (asked, len(failures)) == ([1, 4], 1)


async def test_a_text_of_a_peer_is_an_event_of_the_graph() -> None:
    graph = StateGraph()
    begin, told = graph.new_state("begin", initial=True), graph.new_state("told")
    begin.when_event("peer_message").go_to(told)
    came = anyio.Event()

    @told.body
    async def body(session: AgentSession[None]) -> None:
        event = session.graph.event
        assert event is not None
        assert (event.data.text, event.data.peer.id) == ("the room is free", "asker")
        assert "free" not in repr(event)
        came.set()

    desk = talker("desk", graph=GraphOptions(graph))
    async with PeerServer() as server, running(desk), running(talker()) as asker:
        server.add(desk)
        await asker.peers.send(server.url_of(desk), "the room is free")
        await came.wait()


async def test_each_connection_gets_a_text_session_whose_agent_answers_requests_and_says_the_rest_as_texts() -> None:
    class Desk(Agent):
        async def on_enter(self) -> None:
            await self.session.say("Welcome.")

    sessions: list[AgentSession[None]] = []

    def make() -> AgentSession[None]:
        llm = ScriptedLLM("We open at nine.", "We close at six.")
        made = talker("desk", CascadingPipeline(llm=llm), agent=Desk("Be brief.", id="desk"), text_is_turn=True)
        sessions.append(made)
        return made

    heard: list[str] = []
    came = anyio.Event()
    async with PeerServer(make) as server, running(talker()) as asker:

        @asker.peers.on_message(str)
        async def hear(peer: Peer, text: str) -> None:
            heard.append(text)
            came.set()

        peer = await asker.peers.connect(server.url)
        other = await asker.peers.connect(server.url)
        assert await peer.request("when do you open?") == "We open at nine."
        assert await peer.request("and close?") == "We close at six."
        assert await other.request("when do you open?") == "We open at nine."
        await peer.aclose()
        assert len(sessions) == 2
        await sessions[0].wait_closed()
        assert sessions[1].agent_state.value != "closed"
        await came.wait()
    await sessions[1].wait_closed()
    assert set(heard) == {"Welcome."}
    assert [item.content for item in sessions[0].history.items if isinstance(item, ChatMessage)][1:3] == [
        "when do you open?",
        "We open at nine.",
    ]


@pytest.mark.parametrize("blank", ["", " \n"])
async def test_a_text_without_words_is_no_turn_and_is_refused_at_once(blank: str) -> None:
    desk = talker("desk", CascadingPipeline(llm=ScriptedLLM("At nine.")), text_is_turn=True)
    async with PeerServer() as server, running(talker()) as asker, desk:
        await desk.start(TextTransport())
        server.add(desk)
        peer = await asker.peers.connect(server.url_of(desk))
        for call in (peer.request, peer.send):
            with pytest.raises(PeerRejected, match="needs a text with words"):
                await call(blank)
        assert await peer.request("when do you open?") == "At nine."


async def test_a_request_whose_turn_fails_is_no_empty_answer() -> None:
    llm = ScriptedLLM([ProviderError("secret words", provider="model", retryable=False)], "At nine.")
    desk = talker("desk", CascadingPipeline(llm=llm), text_is_turn=True)
    async with PeerServer() as server, running(talker()) as asker, desk:
        await desk.start(TextTransport())
        server.add(desk)
        peer = await asker.peers.connect(server.url_of(desk))
        with pytest.raises(PeerRejected, match="the peer 'desk' failed: its answer failed") as caught:
            await peer.request("when do you open?")
        assert "secret" not in str(caught.value)
        assert await peer.request("when do you open?") == "At nine."


class Editing(Agent):
    """Edits the turn of a number, and gives none of "stop" an answer."""

    async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
        if "stop" in turn.text:
            raise StopResponse
        turn.text = turn.text.replace("4711", "****")


async def test_a_request_is_answered_whose_words_the_agent_edits_and_refused_at_once_without_an_answer() -> None:
    def judge(text: GuardedText) -> GuardVerdict:
        if "secret" in text.text:
            return GuardVerdict(action="replace", text="[withheld]")
        return GuardVerdict(action="hold" if "bomb" in text.text else "pass")

    llm = ScriptedLLM("Noted.", "And that.", "Still here.")
    guard = ContentGuard(judge=judge, agent=False)
    agent = Editing("x", id="desk")
    desk = talker("desk", CascadingPipeline(llm=llm), agent=agent, text_is_turn=True, guard=guard)
    async with PeerServer() as server, running(talker()) as asker, running(desk):
        server.add(desk)
        peer = await asker.peers.connect(server.url_of(desk))
        assert await peer.request("my pin is 4711") == "Noted."
        assert await peer.request("the secret") == "And that."
        for refused in ("stop", "a bomb"):
            with pytest.raises(PeerRejected, match="the peer 'desk' failed: it does not answer this"):
                await peer.request(refused)
        assert await peer.request("hello?") == "Still here."
    assert "is 4711" not in str(desk.history.items)


async def test_an_agent_is_found_by_its_id_in_the_registry() -> None:
    async with AgentRegistry() as registry, PeerServer() as server, running(answering(talker("desk"))) as desk:
        server.add(desk)
        await registry.register(AgentCard("desk", server.url_of(desk)))
        async with running(talker(registry=registry)) as asker:
            peer = await asker.peers.connect("desk")
            assert await peer.request(Question(number=3)) == {"number": 3}
            with pytest.raises(PeerUnreachable, match="the registry has no agent 'nobody'"):
                await asker.peers.connect("nobody")
