"""Derivatives of torch functions and modules: `python -m benchmarks.torch_functions`."""

import os

# one thread each, as PyTorch has: those of several libraries wait for each other on two cores
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
