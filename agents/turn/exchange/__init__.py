"""The exchange of turns: the caller's inputs, and the end of the caller's turn, where both sides and the floor meet."""
