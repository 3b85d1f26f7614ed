"""The foundation of all other packages: the error tree, the clock, ids. It imports nothing else of vivavoce."""
