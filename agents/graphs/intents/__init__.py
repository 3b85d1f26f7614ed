"""The port that judges the intent of the caller's words, and the classifiers of vivavoce."""
