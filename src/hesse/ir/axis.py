"""Axes of an einsum: affine functions of integer labels.

An axis is `offset + sum(stride * label)`. A plain label is `Axis(((3, 1),), 0)`, the position 5 is
`Axis((), 5)`, `x[2i+1]` reads through `Axis(((i, 2),), 1)` and the merged axis of a reshape is
`Axis(((i, n), (j, 1)), 0)`.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hesse.errors import ShapeError

Size = int | str
"""A concrete size, the name of one (`"n"`) or a product (`"2*m*n"`), bound to an int before planning."""

PATTERNS = 4096
"""For so many patterns of axes what follows from them alone is kept: products are many, patterns are few."""


def number(size: Size) -> int:
    """A size that must be a number here: only plain labels range over symbolic sizes."""
    if isinstance(size, str):
        raise ShapeError(f"the size {size} has no value; bind it to a number first")
    return size


def size_product(sizes: Iterable[Size]) -> Size:
    """The product of sizes; names in alphabetical order, so that equal products are equal."""
    factors = [factor for size in sizes for factor in _factors(size)]
    count = math.prod(factor for factor in factors if isinstance(factor, int))
    names = sorted(factor for factor in factors if isinstance(factor, str))
    if not names or count == 0:
        return count
    return "*".join([*([str(count)] if count != 1 else []), *names])


def _factors(size: Size) -> list[Size]:
    if isinstance(size, int):
        return [size]
    return [int(part) if part.isdigit() else part for part in size.split("*")]


def size_names(size: Size) -> list[str]:
    """The names in a size."""
    return [factor for factor in _factors(size) if isinstance(factor, str)]


def bound_size(size: Size, sizes: Mapping[str, int]) -> Size:
    """A size with the names that have values replaced by them."""
    if isinstance(size, int):
        return size
    if "*" not in size:
        return sizes.get(size, size)
    known = size_product(sizes.get(name, name) if isinstance(name, str) else name for name in _factors(size))
    if isinstance(known, str):
        return sizes.get(size, known)
    if sizes.get(size, known) != known:
        raise ShapeError(f"an axis has {sizes[size]} entries where the product {size} is {known}")
    return known


class Axis(NamedTuple):
    """`offset + sum(stride * label)`; terms are sorted by label and have no zero stride."""

    terms: tuple[tuple[int, int], ...]
    offset: int

    @property
    def is_label(self) -> bool:
        """Whether the axis is one label and nothing else."""
        return self.offset == 0 and len(self.terms) == 1 and self.terms[0][1] == 1

    @property
    def label(self) -> int:
        """The label of an axis that has exactly one."""
        ((label, _),) = self.terms
        return label

    def labels(self) -> list[int]:
        """The labels the axis depends on."""
        return [label for label, _ in self.terms]

    def rename(self, names: Callable[[int], int]) -> Axis:
        """The same axis with every label renamed (the names must stay distinct)."""
        if len(self.terms) == 1:
            ((label, stride),) = self.terms
            if stride == 1 and self.offset == 0:
                return label_axis(names(label))
            return Axis(((names(label), stride),), self.offset)
        return Axis(tuple(sorted((names(label), stride) for label, stride in self.terms)), self.offset)

    def at(self, values: Mapping[int, Axis]) -> Axis:
        """The axis with its labels replaced by affine expressions."""
        terms, offset = self
        if len(terms) == 1:
            ((label, stride),) = terms
            if stride == 1 and offset == 0:
                return values[label]
        return combine([(stride, values[label]) for label, stride in terms], offset) if terms else self


_PLAIN = tuple(Axis(((label, 1),), 0) for label in range(64))


def label_axis(label: int) -> Axis:
    """The axis that is just `label`."""
    return _PLAIN[label] if label < len(_PLAIN) else Axis(((label, 1),), 0)


def constant_axis(position: int) -> Axis:
    """The axis that stays at `position`."""
    return Axis((), position)


def plain_axes(rank: int, start: int = 0) -> tuple[Axis, ...]:
    """`rank` distinct labels `start, start+1, …`, one for each axis."""
    if start + rank <= len(_PLAIN):
        return _PLAIN[start : start + rank]
    return tuple(label_axis(start + k) for k in range(rank))


def combine(parts: Iterable[tuple[int, Axis]], offset: int = 0) -> Axis:
    """The affine combination `offset + sum(factor * axis)`."""
    parts = list(parts)
    if len(parts) == 1:  # by far the most frequent case
        ((factor, axis),) = parts
        if factor == 1 and offset == 0:
            return axis
        terms = axis.terms if factor == 1 else tuple((label, factor * stride) for label, stride in axis.terms)
        return Axis(terms if factor else (), offset + factor * axis.offset)
    strides: dict[int, int] = {}
    for factor, axis in parts:
        offset += factor * axis.offset
        for label, stride in axis.terms:
            strides[label] = strides.get(label, 0) + factor * stride
    return Axis(tuple(sorted((label, stride) for label, stride in strides.items() if stride)), offset)


def affine_axis(entry: np.ndarray) -> Axis | None:
    """An array of integers as an affine function of its own axes, which are labels 0, 1, …; else None.

    >>> affine_axis(np.array([[1, 3], [2, 4]]))
    Axis(terms=((0, 1), (1, 2)), offset=1)
    """
    first = int(entry.flat[0])
    steps = [
        int(np.take(entry, 1, axis=k).flat[0]) - first if size > 1 else 0
        for k, size in enumerate(entry.shape)
    ]
    grids = np.ogrid[tuple(slice(size) for size in entry.shape)]
    fitted = first + sum(step * grid for step, grid in zip(steps, grids, strict=True))
    if not np.array_equal(np.broadcast_to(fitted, entry.shape), entry):
        return None
    return combine([(step, label_axis(k)) for k, step in enumerate(steps) if step], first)


def labels_of(axes: Iterable[Axis]) -> set[int]:
    """The labels that some axes depend on."""
    return {label for terms, _ in axes for label, _ in terms}


def first_labels(axes: Iterable[Axis]) -> tuple[int, ...]:
    """The distinct labels of some axes, in order of appearance.

    >>> first_labels([label_axis(2), label_axis(0), label_axis(2)])
    (2, 0)
    """
    return tuple(dict.fromkeys([label for terms, _ in axes for label, _ in terms]))


def renamed(axes: Iterable[Axis], names: Callable[[int], int]) -> tuple[Axis, ...]:
    """The axes with every label renamed."""
    return tuple([axis.rename(names) for axis in axes])


@functools.lru_cache(PATTERNS)
def shifted(axes: tuple[Axis, ...], by: int) -> tuple[Axis, ...]:
    """The axes with every label moved up by a number.

    >>> shifted((label_axis(2), constant_axis(5)), 3) == (label_axis(5), constant_axis(5))
    True
    """
    return renamed(axes, functools.partial(operator.add, by))


def connected(tensors: Iterable[Collection[int]]) -> list[tuple[list[int], set[int]]]:
    """The positions of tensors, given by their labels, in groups that share no label; with it its labels.

    Each tensor without labels is a group of its own.

    >>> connected([{0, 1}, {5}, {2}, {1, 2}])
    [([0, 2, 3], {0, 1, 2}), ([1], {5})]
    """
    groups: list[tuple[list[int], set[int]]] = []
    for position, labels in enumerate(tensors):
        joined = [group for group in groups if not group[1].isdisjoint(labels)]
        groups = [group for group in groups if group[1].isdisjoint(labels)]
        members = sorted([position, *(k for group in joined for k in group[0])])
        groups.append((members, set(labels).union(*(group[1] for group in joined))))
    return sorted(groups, key=lambda group: group[0])


def common_shape(name: str, shapes: Sequence[Sequence[Size]]) -> tuple[Size, ...]:
    """The shape that all shapes broadcast to."""
    rank = max(map(len, shapes), default=0)
    result: list[Size] = []
    for sizes in zip(*[(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes], strict=True):
        distinct = dict.fromkeys(size for size in sizes if size != 1)
        if len(distinct) > 1:
            raise ShapeError(f"{name}: the shapes {' and '.join(map(str, shapes))} do not broadcast together")
        result.append(next(iter(distinct), 1))
    return tuple(result)


def overlapping_labels(output: Sequence[Axis], ranges: Sequence[Size]) -> list[int]:
    """Labels to loop over so that the rest of the output axes hits every entry at most once."""
    known = {axis.label for axis in output if len(axis.terms) == 1}
    loop: list[int] = []
    for axis in output:
        rest = sorted(
            (abs(stride), -number(ranges[label]), label) for label, stride in axis.terms if label not in known
        )
        reach = 0
        for stride, _, label in rest:
            if stride > reach:
                reach += stride * (number(ranges[label]) - 1)
            else:
                loop.append(label)
            known.add(label)
    return loop
