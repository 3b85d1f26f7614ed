"""The history of a session in its memory: heard text and the steps of an agent's reasoning.

Decisions:

* The history has one writer, `vivavoce.agents.history`. A session with a store writes it there by StoreHistorySink, so
  that other processes read it too; the session's own process reads the history itself, which is never behind.
* Tool calls and results are items of the history. They are reasoning events as well, and are not kept twice: one that
  is removed from the history is gone there too.
"""
