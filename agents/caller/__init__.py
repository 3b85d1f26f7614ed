"""The simulated caller of `vivavoce demo` and `vivavoce call`: its line, its voice, its process, its measurements."""
