"""The caller's turns: the caller, speeches, the options of turn-taking, and the record of each turn."""
