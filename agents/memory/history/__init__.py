"""The history of a session in its memory: heard text and the steps of an agent's reasoning.

Decisions:

* The history has one writer, `vivavoce.agents.history`. A session with a store writes it there (`history_writer`), so
  that other processes read it too; the session's own process reads the history itself, which is never behind, and from
  the store only the items of earlier calls.
* The calls under one id are one history in the order of time. Sequence numbers begin anew with each call; the ids of
  turns are different in each (`HistoryControl.run`), since steps of reasoning are linked to answers by them.
* Tool calls and results are items of the history. They are reasoning events as well, and are not kept twice: one that
  is removed from the history is gone there too.
"""
