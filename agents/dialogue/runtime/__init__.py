"""A session's conversation graph at work.

* `runtime`: feeds the machine in one task of the session, and carries out its effects.
* `code`: runs bodies, conditions and classifiers of the application, through `agents/core/hooks`.
* `turns`: a turn of the caller that the graph judges, and the voice of a body.
* `additions`: the instructions and tools of a state, the intents that the answering model chooses included.
* `session_dialogue`: `session.dialogue`.

Decisions: a turn waits for its judgement at most `JUDGE_LIMIT`; then the model answers. A body speaks as the answer to
the turn that led to it, else by `say()`; the model does not answer a turn, or the result of a tool, that a body has
answered. While an `AgentTask` has the conversation, its words are not judged, and the state adds nothing.
"""
