"""Running tools: arguments checked, sync ones in threads, every call settled exactly once."""
