"""Benchmarks: what hesse costs to start, to call, and beside other ways to the same derivative."""
