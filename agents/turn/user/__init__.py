"""The turn of the user: its bursts, its words, its end and its commit."""
