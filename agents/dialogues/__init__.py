"""Dialogues: two agents exchange messages in an order that is checked.

`Dialogue` is that order, `session_dialogues` the dialogues of a session at work, `local_channel` the way of their
messages inside a process.
"""
