"""A session's conversation graph at work.

* `attached`: the graph as an extension of the session: its checks and snapshots.
* `runtime`: feeds the machine in one task of the session, and carries out its effects.
* `session_events`: gives it the events of the session that the graph names.
* `code`: runs bodies, conditions and classifiers of the application, through `agents/core/hooks`.
* `turns`: a turn of the caller that the graph judges, and the voice of a body.
* `kept_machine`: the machine, and its state in snapshots.
* `fit`: whether an agent and its pipeline fit the graph.
* `additions`: the instructions and tools of a state, those of intents included.
* `session_graph`: `session.graph`.

How a turn goes: the reply passes `on_user_turn_completed` and awaits `on_turn` of the extensions
(`agents/speech/turn_extensions.py`) → `runtime` posts an event to its task, which feeds the machine and
carries out the effects → `code` asks conditions and classifiers, and runs the body, in tasks of
`agents/core/hooks`, whose ends are inputs again; the agent gets the instructions and tools of the state
(`Host.add_to_agent`) → the text of the body goes through a `TextParts` (`agents/extension/text_parts.py`) to
the reply, as that of a flow does; without a body the model answers. The result of a tool passes the graph before it is
settled (`on_tool_result`), so that the next step of the model has the new instructions. Snapshots keep the
state of the machine.

Decisions: a turn waits for its judgement at most `JUDGE_LIMIT`, without the time of bodies and of `on_enter`; then the
model answers. A turn whose answer is withdrawn, since the caller goes on speaking, is undone at that moment
(`undo`), before any answer to a question about it. A tool does not wait for the graph where the code that
runs waits for the tool's speech. It waits for changed private data to be judged, not for a body that they lead to. A
body speaks as the answer to the turn that led to it, else by `say()`; the model does not answer a turn, or the result
of a tool, that a body has answered. While an `AgentTask` has the conversation, its words are not judged, and the state
adds nothing.
"""
