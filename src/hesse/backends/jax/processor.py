"""Whether JAX computes on one processor."""

from __future__ import annotations

import jax


def is_processor() -> bool:
    """Whether programs run on one processor: loops over slices of arrays would be run by each of several."""
    return bool(jax.default_backend() == "cpu" and jax.device_count() == 1)
