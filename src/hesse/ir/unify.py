"""Solving equations between axes: how deltas, shifts, slices and reshapes disappear.

When an einsum is an operand of another, its output axes are equated with the axes that the outer one
reads. `Unifier` keeps a box of labels and a substitution; each equation either solves a label, trims
ranges, shows that the box is empty (an exact zero), or has a solution that is not a box. Then the inner
einsum must stay a node, unless cutting the range of a label leaves a box in each piece (`ir/split.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from hesse.ir.axis import Axis, Size, combine, constant_axis, label_axis

MOST_PIECES = 64
"""Beyond this many pieces the range of a label is not cut."""
Piece = tuple[int, int]
"""The first value of a label and the one after the last."""


class Cut(NamedTuple):
    """A label, and pieces of its range."""

    label: int
    pieces: list[Piece]


class EmptyBox(Exception):
    """No point satisfies the equations: the term is exactly zero."""


class NotABox(Exception):
    """The solutions exist but are not a box of labels; `equation` has them (None for symbolic sizes)."""

    def __init__(self, equation: Axis | None = None) -> None:
        super().__init__(equation)
        self.equation = equation


class Unifier:
    """A box of labels with a substitution.

    `bounds[label]` is `(first, end)`; a symbolic size stands as `(0, "n")` and can only be equated
    with a label of the same size.
    """

    def __init__(self) -> None:
        self.bounds: dict[int, tuple[int, Size]] = {}
        self.solved: dict[int, Axis] = {}

    def copy(self) -> Unifier:
        """An independent copy, for a trial that may fail."""
        other = Unifier()
        other.bounds, other.solved = dict(self.bounds), dict(self.solved)
        return other

    def fresh(self, sizes: tuple[Size, ...]) -> int:
        """Add labels of these sizes; returns the number of the first."""
        first = len(self.bounds)
        for k, size in enumerate(sizes):
            if size == 0:
                raise EmptyBox
            self.bounds[first + k] = (0, size)
        return first

    def resolve(self, axis: Axis) -> Axis:
        """The axis with every solved label replaced."""
        solved = self.solved
        while solved:
            terms, offset = axis
            if len(terms) == 1:  # by far the most frequent case
                ((label, stride),) = terms
                if label not in solved:
                    break
                axis = combine([(stride, solved[label])], offset)
            elif any([label in solved for label, _ in terms]):
                axis = combine([(s, solved.get(label) or label_axis(label)) for label, s in terms], offset)
            else:
                break
        return axis

    def equate(self, left: Axis, right: Axis) -> None:
        """Require `left == right`."""
        left, right = self.resolve(left), self.resolve(right)
        if left == right:
            return
        if left.is_label and right.is_label and self.bounds[left.label] == self.bounds[right.label]:
            self.solved[left.label] = right  # two labels of one range: nearly every equation
            return
        self._solve(combine([(1, left), (-1, right)]))

    def equate_all(self, equations: Iterable[tuple[Axis, Axis]]) -> list[Axis | None]:
        """Require all equations; returns what has no box of solutions, whatever the other equations say."""
        todo = list(equations)
        while True:
            stuck, reasons = [], []
            for equation in todo:
                try:
                    self.equate(*equation)
                except NotABox as found:
                    stuck.append(equation)
                    reasons.append(found.equation)
            if len(stuck) in (0, len(todo)):
                return reasons
            todo = stuck

    def _solve(self, equation: Axis) -> None:
        """Require `equation == 0` for an equation without solved labels."""
        terms, offset = equation
        if not terms:
            if offset:
                raise EmptyBox
            return
        if len(terms) == 1:
            self._fix(*terms[0], offset)
            return
        for label, rest in _unit_solutions(equation):
            if self._inside(rest, label):
                self.solved[label] = rest
                return
        for label, rest in _unit_solutions(equation):
            if len(rest.terms) == 1:
                self._trim(rest, label)
                self.solved[label] = rest
                return
        parts = list(self._digits(equation))
        for part in parts:
            self._solve(self.resolve(part))
        if not parts:
            self._solve_trimmed(equation)

    def _solve_trimmed(self, equation: Axis) -> None:
        """Solve for a label that has a value wherever the others have one of those that are possible."""
        for label, rest in _unit_solutions(equation):
            self._trim(rest, label)
            if self._inside(rest, label):
                self.solved[label] = rest
                return
        raise NotABox(equation)

    def _fix(self, label: int, stride: int, offset: int) -> None:
        position, remainder = divmod(-offset, stride)
        first, end = self._concrete(label)
        if remainder or not first <= position < end:
            raise EmptyBox
        self.solved[label] = constant_axis(position)

    def _concrete(self, label: int) -> tuple[int, int]:
        first, end = self.bounds[label]
        if isinstance(end, str):
            raise NotABox
        return first, end

    def interval(self, axis: Axis) -> tuple[int, int]:
        """Smallest and largest value of an axis over the box."""
        low = high = axis.offset
        for label, stride in axis.terms:
            first, end = self._concrete(label)
            ends = (stride * first, stride * (end - 1))
            low, high = low + min(ends), high + max(ends)
        return low, high

    def _inside(self, axis: Axis, label: int) -> bool:
        """Whether every value of `axis` is one that `label` may take."""
        first, end = self.bounds[label]
        if isinstance(end, str) or any(isinstance(self.bounds[other][1], str) for other in axis.labels()):
            return axis.is_label and self.bounds[axis.label] == (first, end)
        low, high = self.interval(axis)
        return first <= low and high < end

    def _trim(self, axis: Axis, label: int) -> None:
        """Shrink the labels of `axis` to those of their values with which `label` may have one at all."""
        first, end = self._concrete(label)
        low, high = self.interval(axis)
        trimmed = {}
        for other, stride in axis.terms:
            bounds = self._concrete(other)
            lowest, highest = sorted((stride * bounds[0], stride * (bounds[1] - 1)))
            possible = _values(bounds, stride, first - (high - highest), end - 1 - (low - lowest))
            if possible is None:
                raise EmptyBox
            trimmed[other] = possible
        self.bounds.update(trimmed)

    def cut(self, equation: Axis, labels: Sequence[int]) -> Cut | None:
        """One of the labels, and the fewest pieces of its range that have a box of solutions each.

        `i + 1 == y + k`, an entry of a padded image in a window, has one piece for all `y` with the whole
        window inside, and one for each way to hang over. As many pieces of the range of `i` would do; but the
        position of the window, `y`, is preferred, and then what comes first among the labels.
        """
        cuts = [
            (len(pieces), any(factor < 0 for _, factor in rest.terms), labels.index(other), pieces)
            for label, rest in _unit_solutions(self.resolve(equation))
            for other, stride in rest.terms
            if other in labels and (pieces := self._pieces(rest, label, other, stride))
        ]
        if not cuts:
            return None
        *_, place, found = min(cuts)
        return Cut(labels[place], found)

    def _pieces(self, axis: Axis, label: int, other: int, stride: int) -> list[Piece]:
        """The values of `other` with which `axis` is one of `label`, in pieces with boxes; [] for no way."""
        bounds, (first, end) = self._concrete(other), self._concrete(label)
        low, high = self.interval(Axis(tuple(term for term in axis.terms if term[0] != other), axis.offset))
        touching = _values(bounds, stride, first - high, end - 1 - low)
        if touching is None:
            return []
        inner = _values(bounds, stride, first - low, end - 1 - high) or (touching[1], touching[1])
        single = [*range(touching[0], inner[0]), *range(inner[1], touching[1])]
        if len(single) > MOST_PIECES:
            return []
        pieces = [inner] if inner[0] < inner[1] else []
        previous: object = None
        for value in single:
            trial = self.copy()
            trial.bounds[other] = value, value + 1
            try:
                trial._trim(axis, label)
            except EmptyBox:
                continue
            if not trial._inside(axis, label):
                return []
            left = [trial.bounds[each] for each in axis.labels() if each != other]
            if left == previous and pieces[-1][1] == value:
                pieces[-1] = pieces[-1][0], value + 1
            else:
                pieces.append((value, value + 1))
            previous = left
        return [] if pieces == [bounds] else pieces

    def _digits(self, equation: Axis) -> Iterator[Axis]:
        """Split `g*high + low == 0` into `high == 0` and `low == 0` where |low| < g (mixed radix), if any."""
        for radix in sorted({abs(stride) for _, stride in equation.terms if abs(stride) > 1}, reverse=True):
            high = tuple((label, stride // radix) for label, stride in equation.terms if stride % radix == 0)
            low = tuple(term for term in equation.terms if term[1] % radix)
            if not low:
                if equation.offset % radix:
                    raise EmptyBox
                yield Axis(high, equation.offset // radix)
                return
            smallest, largest = self.interval(Axis(low, 0))
            for rest in (equation.offset % radix, equation.offset % radix - radix):
                if -radix < smallest + rest and largest + rest < radix:
                    yield Axis(high, (equation.offset - rest) // radix)
                    yield Axis(low, rest)
                    return


def _unit_solutions(equation: Axis) -> Iterator[tuple[int, Axis]]:
    """Every `label == rest` that the equation gives for a label with coefficient 1 or -1."""
    for label, stride in equation.terms:
        if stride in (1, -1):
            others = tuple((other, -stride * factor) for other, factor in equation.terms if other != label)
            yield label, Axis(others, -stride * equation.offset)


def _values(bounds: Piece, stride: int, least: int, most: int) -> Piece | None:
    """The values within bounds with `least <= stride * value <= most`."""
    if stride < 0:
        least, most, stride = -most, -least, -stride
    first, end = max(bounds[0], -(-least // stride)), min(bounds[1], most // stride + 1)
    return (first, end) if first < end else None
