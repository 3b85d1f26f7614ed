"""The floor: the speech that has it, the speeches that wait, and the pipeline that serves them."""
