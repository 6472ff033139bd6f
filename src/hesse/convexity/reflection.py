"""When a product is a Gram matrix: reflections of its labels.

A product with row and column axes has the form `B'*D*B` when an exchange of labels takes the rows to the
columns and the product to itself, such that each factor is of one of three kinds:

- it is exchanged with its mirror image, and lies on one side (`B` and `B'`);
- all its labels stay in place, and it is not negative (`D`);
- it is a positive semidefinite matrix between a label and the mirror image of that label.

Then the product is positive semidefinite: for each value of the labels that stay in place it is a Gram
matrix in the inner product that the semidefinite factors (their Kronecker product) define. Kronecker
products, block diagonals, `diag(d)` and `x'*P*x >= 0` (no rows at all) are of this kind.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from hesse.convexity.terms import Axes, Factor, Term, is_symmetric
from hesse.ir import Axis, Node, Size, first_labels
from hesse.ops.ranges import Range, product

Sigma = dict[int, int]
MOST_TRIALS = 300
"""The search for a reflection gives up after this many steps; then nothing is claimed."""


class Outline(NamedTuple):
    """Which axes of a tensor are what: the first `lead` ones stay in place, then rows, then columns.

    `orders` are the ways in which columns may be paired with rows: `(0, 1)`, and also `(1, 0)` where the
    quadratic form is only taken of symmetric matrices.
    """

    lead: int
    rows: int
    orders: tuple[tuple[int, ...], ...]


class Knowledge(NamedTuple):
    """What the search asks about nodes."""

    range_of: Callable[[Node], Range]
    is_semidefinite: Callable[[Node], bool]


class Reflection(NamedTuple):
    """An exchange of labels that shows a term to be semidefinite, and the kinds of its factors.

    `sign` is -1 where the product of the factors that stay in place is negative.
    """

    sign: int
    sigma: Sigma
    pairs: tuple[tuple[Factor, Factor], ...]
    fixed: tuple[Factor, ...]
    bridges: tuple[Factor, ...]


def plain_outline(lead: int, rows: int) -> Outline:
    """Rows and columns paired in order."""
    return Outline(lead, rows, (tuple(range(rows)),))


def reflections(term: Term, outline: Outline, knowledge: Knowledge) -> Iterator[Reflection]:
    """The reflections that show the term, its scale taken as 1, to be semidefinite of a sign."""
    search = _Search(term, knowledge)
    lead, rows = term.output[: outline.lead], term.output[outline.lead : outline.lead + outline.rows]
    columns = term.output[outline.lead + outline.rows :]
    for order in outline.orders:
        start = search.unified(lead + rows, lead + tuple(columns[k] for k in order), {})
        if start is not None:
            yield from search.solutions(start, rows)


class _Search:
    def __init__(self, term: Term, knowledge: Knowledge) -> None:
        self.ranges: Sequence[Size] = term.ranges
        self.factors = term.factors
        self.knowledge = knowledge
        self.trials = 0

    def unified(self, first: Axes, second: Axes, sigma: Sigma) -> Sigma | None:
        """The exchange extended so that it takes the first axes to the second, if it can be."""
        sigma = dict(sigma)
        for one, two in zip(first, second, strict=True):
            if one.offset != two.offset or len(one.terms) != len(two.terms):
                return None
            for (label, stride), (other, other_stride) in zip(_by_stride(one), _by_stride(two), strict=True):
                if stride != other_stride or self.ranges[label] != self.ranges[other]:
                    return None
                if sigma.setdefault(label, other) != other or sigma.setdefault(other, label) != label:
                    return None
        return sigma

    def solutions(self, sigma: Sigma, rows: Axes) -> Iterator[Reflection]:
        yield from self._extended(sigma, list(self.factors), Reflection(0, {}, (), (), ()), rows)

    def _extended(
        self, sigma: Sigma, remaining: list[Factor], found: Reflection, rows: Axes
    ) -> Iterator[Reflection]:
        self.trials += 1
        if self.trials > MOST_TRIALS:
            return
        if not remaining:
            sign = self._sign(found.fixed)
            complete = found._replace(sign=sign, sigma=sigma)
            if sign and _has_two_sides(complete, rows):
                yield complete
            return
        # A factor with many labels whose images are known has few places to go.
        factor = max(
            remaining, key=lambda f: sum(label in sigma for label in f.labels()) / (1 + len(f.labels()))
        )
        rest = [other for other in remaining if other is not factor]
        for partner in rest:
            if partner.base is factor.base and partner.exponent == factor.exponent:
                for axes in _equal_readings(partner):
                    both = self.unified(factor.axes, axes, sigma)
                    if both is not None:
                        others = [other for other in rest if other is not partner]
                        pairs = (*found.pairs, (factor, partner))
                        yield from self._extended(both, others, found._replace(pairs=pairs), rows)
        bridged = self._bridged(factor, sigma)
        if bridged is not None:
            bridges = (*found.bridges, factor)
            yield from self._extended(bridged, rest, found._replace(bridges=bridges), rows)
        still = self.unified(factor.axes, factor.axes, sigma)
        if still is not None:
            fixed = (*found.fixed, factor)
            yield from self._extended(still, rest, found._replace(fixed=fixed), rows)

    def _bridged(self, factor: Factor, sigma: Sigma) -> Sigma | None:
        rank = len(factor.axes)
        if rank == 0 or rank % 2 or factor.exponent < 1 or not float(factor.exponent).is_integer():
            return None  # integer powers, entry by entry, of semidefinite matrices are semidefinite (Schur)
        both = self.unified(factor.axes[: rank // 2], factor.axes[rank // 2 :], sigma)
        if both is None or not self.knowledge.is_semidefinite(factor.base):
            return None
        return both

    def _sign(self, fixed: tuple[Factor, ...]) -> int:
        """1 or -1 if the product of the factors has no other sign, else 0."""
        found = product(self.knowledge.range_of(f.base).power(f.exponent) for f in fixed)
        return 1 if found.is_nonnegative else -1 if found.is_nonpositive else 0


def _by_stride(axis: Axis) -> list[tuple[int, int]]:
    return sorted(axis.terms, key=lambda term: term[1])


def _equal_readings(factor: Factor) -> list[Axes]:
    """The axes of a factor, and swapped where it is symmetric."""
    from_both = [factor.axes]
    if len(factor.axes) == 2 and is_symmetric(factor.base):
        from_both.append(factor.axes[::-1])
    return from_both


def _has_two_sides(found: Reflection, rows: Axes) -> bool:
    """Whether labels that move can be put on two sides, mirror images on different ones.

    The labels of a factor that is exchanged lie on one side, and so do those of the rows, and those of the
    rows of a semidefinite factor.
    """
    groups = [rows, *(f.axes for pair in found.pairs for f in pair)]
    groups += [f.axes[: len(f.axes) // 2] for f in found.bridges]
    moving = {label for label, image in found.sigma.items() if label != image}
    links: dict[int, list[tuple[int, bool]]] = {label: [(found.sigma[label], True)] for label in moving}
    for axes in groups:
        labels = [label for label in first_labels(axes) if label in moving]
        for one, two in itertools.pairwise(labels):
            links[one].append((two, False))
            links[two].append((one, False))
    side: dict[int, bool] = {}
    for start in moving:
        stack = [] if start in side else [start]
        side.setdefault(start, False)
        while stack:
            label = stack.pop()
            for other, opposite in links[label]:
                if other not in side:
                    side[other] = side[label] ^ opposite
                    stack.append(other)
                elif side[other] != side[label] ^ opposite:
                    return False
    return True
