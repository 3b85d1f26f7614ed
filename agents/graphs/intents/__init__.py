"""Who judges the intent of the caller's words: the port, and the classifiers of vivavoce."""
