"""What pairs of interleaved samples say about two versions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

import numpy as np

SLOWER = 1.05
"""New times the old time from which a row counts as slower."""
TOLERANCE = 1e-8
FOLD = 4093
"""Entries of a fingerprint: a prime, so that no regular array repeats with it."""


class Ratio(NamedTuple):
    """New time relative to the old one: the median of the pairs and where it may lie (95 %)."""

    middle: float
    least: float
    most: float

    @property
    def is_slower(self) -> bool:
        """Whether the median is beyond the bound."""
        return self.middle > SLOWER


UNKNOWN = Ratio(0.0, 0.0, 0.0)


def ratio(old: Sequence[float], new: Sequence[float]) -> Ratio:
    """The ratio of samples that were taken in pairs.

    A busy machine slows both samples of a pair, so their quotient is steadier than a quotient of medians.
    The interval is that of the sign test: it asks nothing of the distribution.
    """
    quotients = sorted(b / a for a, b in zip(old, new, strict=True))
    count = len(quotients)
    outside = max(0, math.floor(count / 2 - 0.98 * math.sqrt(count)))
    return Ratio(median(quotients), quotients[outside], quotients[count - 1 - outside])


def fingerprint(array: np.ndarray) -> list[float]:
    """The array folded to a few thousand numbers; an array of so few is kept as it is."""
    flat = np.ravel(array)
    rows = -(-flat.size // FOLD)
    whole = flat[: flat.size // FOLD * FOLD].reshape(-1, FOLD)
    weights = np.cos(0.7 * np.arange(rows))
    folded = np.zeros(min(flat.size, FOLD))
    folded += weights[: len(whole)] @ whole if len(whole) else 0.0
    rest = flat[len(whole) * FOLD :]
    folded[: rest.size] += weights[-1] * rest if rest.size else 0.0
    return [float(entry) for entry in folded / math.sqrt(max(rows, 1))]


def differs(left: Sequence[Sequence[float]], right: Sequence[Sequence[float]]) -> bool:
    """Whether fingerprints of results are further apart than rounding explains."""
    if list(map(len, left)) != list(map(len, right)):
        return True
    for a, b in zip(map(np.asarray, left), map(np.asarray, right), strict=True):
        scale = np.max(np.abs(b), initial=1e-300)
        if not np.max(np.abs(a - b), initial=0.0) <= TOLERANCE * scale:
            return True
    return False
