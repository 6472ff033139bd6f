"""Derivatives of torch functions and modules: `python -m benchmarks.torch_functions`."""
