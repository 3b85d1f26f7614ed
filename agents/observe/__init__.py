"""What happened in a call: assembling turn records. The record classes are in `vivavoce.agents.records`."""
