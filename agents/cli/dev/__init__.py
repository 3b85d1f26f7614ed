"""The parts of `vivavoce dev`: an agent's code in a process of its own, replaced at every save while its calls
continue.

`run` is the command's own process: room, file watch, display. `agent_process` is its handle on one child; `reload`
moves the calls from one child to the next; `child` and `stage` are the child's side; `wire` has the messages of both.

Decisions:

* The new code is a fresh process, never a reloaded module: state that the old code left in memory cannot affect it.
* The new session opens everything and publishes its track while the old one still talks, and it hears nothing until
  the old one has let go: the caller waits for one message between processes, not for a model to load.
* The conversation moves while both sides are silent and no answer is due, so that no word is lost and no speech cut. A
  talk that does not end within `QUIET_LIMIT` is cut, and the history keeps its heard part.
* The old code continues until the new one has reported that it can take the conversation over: any error in a save is
  shown, and the caller never notices.
"""
