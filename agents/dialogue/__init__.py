"""Conversation graphs: a call follows states and transitions that are checked beforehand.

* `graph`: `StateGraph`, the description that sessions share, and its checks.
* `machine`: decides, pure: which transition an event takes, which body runs, when a timer is due.
* `messages`: `Node`, `Edge`, the order of messages between two agents, and conversations; no channel yet.

No session runs a graph yet.
"""
