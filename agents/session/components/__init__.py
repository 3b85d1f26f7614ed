"""The components in use in a session, and the change to others: `update_pipeline()`, `update_components()`, a fallback.

The turn machine decides which pipeline is opened, when it takes over, and whether another one follows a lost one
(`agents.turn.floor.pipeline_changes`). A change goes like this:

1. The new pipeline is opened beside the present one, which hears and speaks on. A realtime model gets the history.
2. At the moment that the turn machine chooses, the new pipeline takes over, in one step of the session's loop: no frame
   of the caller is lost in between. It gets the last half second of audio too, so that it hears the onset of speech
   that the old one has not noticed yet, and the items that the history got while it was opened.
3. The old one is closed in the background, within a limit. Until then it may still report the words of turns that it
   has heard.

The parts:

* `Successor` is one pipeline from beginning to end: wanted → opening → ready → serving → leaving → closed; it may fail
  or be dropped before `leaving`, and leaves then. Each step is one method, and no other step is taken.
* Its form says how it gets its components (`forms`). `OwnConnection`: by a connection of its own. `PartsOfPresent`: in
  the present connection, with the streams of all other components. Only the new component's stream is opened beside
  then, hears the last half second, and the old one's is closed; an old recogniser hears its utterance to the end first,
  and settles its words (`Ears.take`). The successor that takes over so gets the present one's connection, which closes
  the replaced components. `update_components()` asks for parts; where they cannot be had, as when a realtime model's
  session has to be set up in another way, or the present connection is lost, the successor gets its own connection.
* `PipelineSwitch` keeps the successors, and carries out the turn machine's effects. `PipelineRequests` checks what is
  asked for and makes the `PipelineChangeControl` that asks for a successor. `ComponentPlaces` knows which components
  serve in which agent's time. `KeptAudio` keeps the caller's audio for a connection that does not hear yet.
* Components of an agent that hear the caller are opened when its handoff is asked for (`open_early`), by a successor
  that gives them away when the handoff's change begins.

When no pipeline hears the caller any more, up to ten seconds of audio are kept for the next one. If a pipeline cannot
be opened, or no moment comes in time, the session goes on as before: the outcome is `failed`, and there is an `error`
event.
"""
