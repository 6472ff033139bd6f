"""Riemannian derivatives of tensor trains: time, memory and recovery (`python -m benchmarks.trains --help`)."""
