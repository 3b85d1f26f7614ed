"""Listening: the caller's audio through denoiser, STT, turn detector and VAD, in either pipeline.

Each stage guards the boundary to its component: a failure of the component's code is reported as `PipelineFailed`, and
the stage opens another stream, or continues without the component.
"""
