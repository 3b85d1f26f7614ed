"""The LLM port, its conversation (`chat_context`) and its `tools`."""
