"""The terms of a structured tensor, for people who want to work with them."""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hesse.ir import Axis, Size, first_labels, labels_of, number

LETTERS = "ijklmnopqrstuvwxyzabcdefgh" + string.ascii_uppercase


@dataclass(frozen=True)
class Term:
    """`scale * product of factors`, added into the tensor where `output` says.

    `axes[k]` and `output` are affine functions of integer labels, `ranges` the sizes of the labels. A
    single factor is the core of the term; several are kept because they are smaller than it.
    """

    factors: tuple[np.ndarray, ...]
    axes: tuple[tuple[Axis, ...], ...]
    output: tuple[Axis, ...]
    ranges: tuple[int, ...]
    scale: float

    @property
    def pattern(self) -> str:
        """Which axes of the tensor repeat, shift or broadcast: `ijik`, `[i+1,i]`."""
        return pattern_text(self.output)

    @property
    def core_shape(self) -> tuple[int, ...]:
        """Sizes of the labels that the factors and the output share."""
        return core_shape(self.axes, self.output, self.ranges)

    @property
    def entries(self) -> int:
        """Number of entries that the term touches."""
        return math.prod(self.ranges[label] for label in labels_of(self.output))


def core_shape(
    axes: Sequence[Sequence[Axis]], output: Sequence[Axis], ranges: Sequence[Size]
) -> tuple[int, ...]:
    """Sizes of the labels that the factors and the output of a term share."""
    inside = labels_of(axis for part in axes for axis in part)
    return tuple(number(ranges[label]) for label in first_labels(output) if label in inside)


def pattern_text(output: Sequence[Axis]) -> str:
    """The output of a term in letters.

    >>> from hesse.ir import label_axis
    >>> pattern_text([label_axis(0), label_axis(1), label_axis(0)])
    'iji'
    """
    names = {label: LETTERS[label % len(LETTERS)] for label in labels_of(output)}
    texts = [axis_text(axis, names) for axis in output]
    short = texts and all(len(text) == 1 for text in texts)
    return "".join(texts) if short else f"[{','.join(texts)}]"


def axis_text(axis: Axis, names: dict[int, str]) -> str:
    """An axis in letters: `i`, `i+1`, `3i+j`, `n-1-i` with numbers."""
    parts: list[str] = []
    for label, stride in sorted(axis.terms, key=lambda term: -abs(term[1])):
        size = "" if abs(stride) == 1 else str(abs(stride))
        parts.append(("-" if stride < 0 else "+" if parts else "") + size + names[label])
    if axis.offset or not parts:
        parts.append(f"{axis.offset:+d}" if parts else str(axis.offset))
    return "".join(parts)
