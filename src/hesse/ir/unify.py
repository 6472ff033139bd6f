"""Solving equations between axes: how deltas, shifts, slices and reshapes disappear.

When an einsum is an operand of another, its output axes are equated with the axes that the outer one
reads. `Unifier` keeps a box of labels and a substitution; each equation either solves a label, trims
ranges, shows that the box is empty (an exact zero), or has a solution that is not a box, and then the
inner einsum must stay a node.
"""

from __future__ import annotations

from collections.abc import Iterator

from hesse.ir.axis import Axis, Size, combine, constant_axis, label_axis


class EmptyBox(Exception):
    """No point satisfies the equations: the term is exactly zero."""


class NotABox(Exception):
    """The solutions exist but are not a box of labels."""


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
        for part in self._digits(equation):
            self._solve(self.resolve(part))

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
        """Shrink the one label of `axis` until its values are ones that `label` may take."""
        ((other, stride),) = axis.terms
        first, end = self._concrete(label)
        low, high = first - axis.offset, end - 1 - axis.offset  # low <= stride * other <= high
        if stride < 0:
            low, high, stride = -high, -low, -stride
        old_first, old_end = self._concrete(other)
        new_first, new_end = max(old_first, -(-low // stride)), min(old_end, high // stride + 1)
        if new_first >= new_end:
            raise EmptyBox
        self.bounds[other] = (new_first, new_end)

    def _digits(self, equation: Axis) -> Iterator[Axis]:
        """Split `g*high + low == 0` into `high == 0` and `low == 0` where |low| < g (mixed radix)."""
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
        raise NotABox


def _unit_solutions(equation: Axis) -> Iterator[tuple[int, Axis]]:
    """Every `label == rest` that the equation gives for a label with coefficient 1 or -1."""
    for label, stride in equation.terms:
        if stride in (1, -1):
            others = tuple((other, -stride * factor) for other, factor in equation.terms if other != label)
            yield label, Axis(others, -stride * equation.offset)
