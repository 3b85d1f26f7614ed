"""The floor: who may speak, which speeches wait, and when the pipeline may change."""
