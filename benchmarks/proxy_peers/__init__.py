"""The processes that `benchmarks.proxy` starts: a fast upstream, those who ask, and what is put between them."""
