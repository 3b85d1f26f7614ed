"""What everything else stands on: the error tree, the clock, ids. It imports nothing of vivavoce."""
