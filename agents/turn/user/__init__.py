"""The user's side: bursts of speech, the open turn with its words, its end by a pause or a limit, late finals."""
