"""How much one request, and all of them together, may take."""

from __future__ import annotations

from dataclasses import dataclass

LONGEST_FORMULA = 2_000
LONGEST_NAME = 40
LONGEST_TYPE = 80
MOST_NAMES = 40
"""Types and sizes in one request."""


@dataclass(frozen=True)
class Limits:
    """Limits of a server; the worker processes enforce time and memory, whatever they are computing."""

    seconds: float = 5.0
    workers: int = 2
    waiting: int = 32
    """Requests that wait for a worker; further ones are sent away."""
    body_bytes: int = 32_768
    body_seconds: float = 10.0
    answer_bytes: int = 4 * 2**20
    memory_bytes: int = 4 * 2**30
    """Address space of a worker."""
    requests_per_worker: int = 2_000
    """A worker is replaced after these, so that caches do not grow for ever."""
