"""What `vivavoce dev` runs: an agent's code in a process of its own, replaced at every save while its calls go on.

`run` is the command's own process: room, watching, display. `agent_process` is its handle on one child; `reload` moves
the calls from one child to the next; `child` and `stage` are the child's side, `wire` what both say to each other.

Decisions:

* The new code is a fresh process, never a reloaded module: what the old code left in memory cannot be in its way.
* The new session opens everything and publishes its track while the old one still talks, and hears nothing until the
  old one has let go: the caller waits for one message between processes, not for a model to load.
* The conversation moves when nobody speaks and nothing is being answered, so that no word is lost and no speech cut; a
  talk that does not end within `QUIET_LIMIT` is cut and stands in the history as far as it was heard.
* The old code goes on until the new one has said that it can go on with the conversation: whatever is wrong with a save
  is shown, and the caller never notices.
"""
