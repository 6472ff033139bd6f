"""Two versions of hesse side by side: `python -m benchmarks.compare OLD [NEW]`."""
