"""Riemannian derivatives of tensor trains: time, memory, recovery: `python -m benchmarks.trains --help`."""
