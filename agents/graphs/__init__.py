"""Conversation graphs: a call follows states and transitions that are checked beforehand.

* `graph`: `StateGraph`, the description that sessions share, and its checks.
* `machine`: decides, pure: which transition an event takes, which body runs, when a timer is due.
* `trace`: the steps of `machine` in the session's trace, and their replay.
* `intents`: who judges the intent of the caller's words.
* `runtime`: the graph of a session at work, and `session.graph`.
"""
