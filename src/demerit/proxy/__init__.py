"""The guarded endpoint: bytes of an OpenAI-compatible client in, the upstream's bytes out, and one `Record` a turn.

Everything here but `app` and `keeping` is pure: no clock, no socket, no event loop.
"""
