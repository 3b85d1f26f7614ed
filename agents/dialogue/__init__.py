"""Conversation graphs: a call follows states and transitions that are checked beforehand.

* `graph`: `StateGraph`, the description that sessions share, and its checks.
* `machine`: decides, pure: which transition an event takes, which body runs, when a timer is due.
* `messages`: `Dialogue`, the order of messages between two agents, its conversations, and their exchange by a channel.

No session runs a graph yet.
"""
