"""The live display of calls that several commands share: the view, and the events that feed it."""
