"""The simulated caller that `vivavoce demo` and `vivavoce call` share: its line, its voice, its process, measuring."""
