"""The LLM port, the conversation it is given (`chat_context`), and what it may call (`tools`)."""
