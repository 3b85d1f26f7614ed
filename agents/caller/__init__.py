"""The simulated caller of `vivavoce demo` and `vivavoce call`: its mind, line, voice, process and measurements.

The commands choose its components (voice, VAD, recogniser) and pass them to `call.hold_call`; this package imports no
plugin.
"""
