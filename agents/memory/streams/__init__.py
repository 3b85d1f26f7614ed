"""Streams of a session: ordered items that agents and other processes write, announce, read and follow.

Decisions:

* A stream is a log of the session's store: all processes see the same items in the same order. It keeps the newest
  10,000; the index of an item stays, so that a reader sees which ones it has missed.
* One entry of the store, the registry, has all streams with their tags, and all agents. It changes atomically, and is
  what counts; the announcements on `memory.stream` (`ADD_STREAM`, `ADD_AGENT`, `REMOVE_AGENT`, as in Blue) are news.
* The end of a stream (`EOS`) is its last record and closes the log: a later write is refused, in every process. The end
  of the session first closes `memory.stream`, after which no stream can be announced, and then all other streams. A
  session that continues the memory opens those again. A reader passes over an end behind which there are items.
* No reader has a task. One wait is one call to the store, shorter than the limit, for all logs that it follows. Without
  news it looks whether the session, and the stream, are still there: so it neither waits for ever nor ends silently.
* Several streams are replayed in the order of the writers' clocks; each for itself always in its own order.
* An agent gets its items in a task of the session, one after the other. After an outage of the store, and in a session
  that is resumed, it goes on with the next one (`Snapshot` has its places).
"""
