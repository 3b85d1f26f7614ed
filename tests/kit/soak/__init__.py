"""The soak: many sessions at a time on the real clock, whose callers, applications and providers act at random."""
