"""How many processors there are for this process."""

from __future__ import annotations

import os


def processors() -> int:
    """The number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def blas_threads() -> int:
    """How many threads a product of NumPy may have, as the environment says."""
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        if (value := os.environ.get(name, "")).isdecimal():
            return max(1, int(value))
    return processors()
