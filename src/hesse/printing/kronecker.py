"""Derivatives of order 3 and 4 as matrices: vec(dF) = M*vec(dX), vec stacking the columns of a matrix.

An axis of a matrix is a *digit* of its vec: entry i,j of an m x n matrix stands at place j*m + i, so the
digits of F are (j,i), the most significant one first. A product whose factors link the digits j with l and i
with k, and none of these with the others, is a Kronecker product, since these are the digits of its rows and
columns: kron(B, A)[(j,i),(l,k)] = B[j,l]*A[i,k]. Everything else follows from three laws:

- the digits of the columns may be exchanged: M[(j,i),(l,k)] = N[(j,i),(k,l)]*commutation;
- rows and columns that are not linked at all are an outer product of vecs;
- a matrix between the two sides, which touches both only at its own digits, is a diagonal matrix between two
  matrices of this kind: sum[p,q](A[i,p]*B[j,q]*G[p,q]*C[p,k]*D[q,l]) = kron(B,A)*diag(vec(G))*kron(D,C).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hesse.ir import (
    Add,
    Einsum,
    Node,
    Product,
    Size,
    connected,
    einsum_of,
    label_axis,
    size_product,
    topological,
    uniform_value,
    unscaled,
)
from hesse.printing.describe import describe, scaled_form
from hesse.printing.digits import divided, is_reshape, regrouped
from hesse.printing.forms import Call, Elementwise, Form, Leaf, Number, Sum, Symbol, leaves
from hesse.printing.index_forms import plain_labels, whole_nodes
from hesse.printing.presentation import present
from hesse.printing.products import chained, transposed, transposes

MOST_TERMS = 8
"""Derivatives of more terms have no matrix form that anybody would read …"""
MOST_FACTORS = 16
"""… and neither do those with more factors in all terms together …"""
MOST_DIGITS = 4
"""… or with more digits of rows or columns."""
MOST_TRIALS = 250
"""How many matrices are tried as parts of those of all terms."""
MOST_CUTS = 2
"""How often the two sides of a product are divided again; longer products say less than index notation."""

Digits = tuple[int, ...]


class Factor(NamedTuple):
    """An operand with the labels of its axes."""

    node: Node
    labels: Digits


@dataclass(frozen=True)
class Matrix:
    """A number times a product of matrices; without factors it is the unit matrix."""

    factors: tuple[Form, ...]
    value: float = 1.0

    def __mul__(self, other: Matrix) -> Matrix:
        return Matrix(self.factors + other.factors, self.value * other.value)


def matrix_of(node: Node, row_rank: int) -> Form | None:
    """The matrix whose rows are the first axes of a node, as by vec, and whose columns are the others."""
    if 1 in node.shape:
        return None
    apart = divided(node)
    places = iter(range(apart.node.rank))
    axes = [[next(places) for _ in group] for group in apart.groups]
    rows, columns = (
        [place for axis in reversed(side) for place in axis] for side in (axes[:row_rank], axes[row_rank:])
    )
    terms = _multiplied_out(apart.node)
    if not terms or max(len(rows), len(columns)) > MOST_DIGITS:
        return None
    forms: list[Form] = []
    trials, count = MOST_TRIALS, 0
    for term in terms:
        product = _Product(term, trials)
        form = product.form(rows, columns)
        trials, count = product.trials, count + product.count
        if form is None or count > MOST_FACTORS:
            return None
        forms.append(form)
    return forms[0] if len(forms) == 1 else Sum(tuple(forms))


def _multiplied_out(node: Node) -> list[Einsum]:
    """The terms of a sum, tensors of more than two axes inside them multiplied out; none if that fails."""
    terms: list[Einsum] = []
    stack = [node]
    while stack and len(terms) + len(stack) <= MOST_TERMS:
        term = stack.pop()
        opened = list(term.operands) if isinstance(term, Add) else _opened(term)
        if opened and term not in opened:
            stack += reversed(opened)
        else:
            if not isinstance(term, Einsum) or any(
                part.rank > 2 and not is_reshape(part) for part in term.operands
            ):
                return []
            terms.append(term)
    return [] if stack else terms


def _opened(term: Node) -> list[Node]:
    """The terms of a product with its first tensor of more than two axes multiplied out, if it can be.

    They are not added again: constructors merge what has one pattern.
    """
    if not isinstance(term, Einsum):
        return []
    for k, part in enumerate(term.operands):
        if part.rank > 2 and isinstance(part, Add | Einsum):
            inside = part.operands if isinstance(part, Add) else [part]
            products = [term.product.with_operand(k, one) for one in inside]
            return [einsum_of(product, term.shape, expand=[k]) for product in products]
    return []


class _Product:
    """One term of a derivative."""

    def __init__(self, term: Einsum, trials: int) -> None:
        self.term, self.trials, self.count = term, trials, 0
        self.ranges = list(term.ranges)
        self._written: dict[tuple[Digits, tuple[Factor, ...]], tuple[Node, float] | None] = {}
        self._tried: dict[tuple[Digits, Digits, tuple[Factor, ...], int], Matrix | None] = {}

    def form(self, row_places: Sequence[int], column_places: Sequence[int]) -> Form | None:
        """The matrix of the term whose rows and columns have the given axes as digits."""
        tables = plain_labels(self.term)
        if tables is None:
            return None
        *labels, output = tables
        counted = [label for label in range(len(self.ranges)) if not any(label in row for row in tables)]
        factors = [Factor(*pair) for pair in zip(self.term.operands, labels, strict=True)]
        digits = [tuple(output[place] for place in places) for places in (row_places, column_places)]
        merged = self._merged(factors, digits)
        if merged is None:
            return None
        factors, (rows, columns) = merged
        inside, scalars = self._separated(factors, {*rows, *columns})
        found = self._matrix(rows, columns, inside, MOST_CUTS)
        if found is None:
            return None
        self.count = len(found.factors)
        scalar, value = unscaled(present(self._node(scalars, (), counted)))
        body = chained(found.factors) if found.factors else self._unit(rows)
        factor = Elementwise(((Leaf(scalar), 1),), scalar=True) if uniform_value(scalar) is None else None
        return scaled_form(self.term.scale * value * found.value, (), factor, body)

    def _merged(
        self, factors: Sequence[Factor], sides: Sequence[Digits]
    ) -> tuple[list[Factor], list[Digits]] | None:
        """Matrices that are read by digits as matrices again: one label for several that stand together."""
        merged: dict[Digits, int] = {}
        found: list[Factor] = []
        for node, labels in factors:
            groups = regrouped(node.shape, node.operands[0].shape) if node.rank > 2 else None
            if node.rank > 2 and (groups is None or node.operands[0].rank > 2):
                return None
            if groups is None:
                found.append(Factor(node, labels))
                continue
            rest = iter(labels)
            runs = [tuple(next(rest) for _ in group) for group in groups]
            for run in runs:
                if len(run) > 1 and run not in merged:
                    merged[run] = len(self.ranges)
                    self.ranges.append(self._size(run))
            found.append(Factor(node.operands[0], tuple(merged.get(run, run[0]) for run in runs)))
        digits = [(merged[side],) if side in merged else side for side in sides]
        used = {label for labels in [*digits, *(factor.labels for factor in found)] for label in labels}
        replaced = {label for run in merged for label in run}
        return None if used & replaced else (found, digits)

    def _matrix(
        self, rows: Digits, columns: Digits, factors: Sequence[Factor], cuts: int = 0
    ) -> Matrix | None:
        """The product as a matrix with the given digits of its rows and columns."""
        key = rows, columns, tuple(factors), cuts
        if key not in self._tried:
            if not self.trials:
                return None
            self.trials -= 1
            self._tried[key] = None
            self._tried[key] = self._found(rows, columns, factors, cuts)
        return self._tried[key]

    def _found(self, rows: Digits, columns: Digits, factors: Sequence[Factor], cuts: int) -> Matrix | None:
        if rows == columns and len(set(rows)) < len(rows):
            return self._diagonal(rows, factors)
        if rows == columns and not factors:
            return Matrix(())
        if min(len(rows), len(columns)) == 0 or len(rows) == len(columns) == 1:
            return self._single(rows, columns, factors)
        if not factors and len({*rows, *columns}) == len(rows + columns):
            sizes = tuple(Symbol(str(self._size(digits))) for digits in (rows, columns))
            return Matrix((Call("matrix", (Number(1.0), *sizes)),))
        found = self._split(rows, columns, factors)
        if found is None and len(columns) == 2:
            exchanged = columns[::-1]
            found = Matrix(()) if rows == exchanged and not factors else None
            found = found or self._split(rows, exchanged, factors)
            if found is not None:
                sizes = tuple(Symbol(str(self.ranges[label])) for label in exchanged)
                found = found * Matrix((Call("commutation", sizes),))
        for allowed in range(1, cuts + 1):
            found = found or min(self._cut(rows, columns, factors, allowed), key=_cost, default=None)
        return found

    def _diagonal(self, digits: Digits, factors: Sequence[Factor]) -> Matrix | None:
        """Rows and columns with the same digits, some of them equal: M[(i,i),(i,i)] = v[i], else zero."""
        middle = self._single(digits, (), factors)
        return middle and Matrix((Call("diag", middle.factors),), middle.value)

    def _single(self, rows: Digits, columns: Digits, factors: Sequence[Factor]) -> Matrix | None:
        """A matrix, a column or a row."""
        digits = rows + columns
        if len(digits) > 2:
            return None
        axes = digits if len(rows) == len(columns) else digits[::-1]
        found = self._whole(axes, tuple(factors))
        if found is None:
            return None
        node, value = found
        form: Form = Leaf(node) if len(rows) == len(columns) or len(digits) == 1 else _vec(Leaf(node))
        return Matrix((form if rows else transposed(form),), value)

    def _whole(self, axes: Digits, factors: tuple[Factor, ...]) -> tuple[Node, float] | None:
        """The product of factors, less a number, if it has a notation without indices."""
        if (axes, factors) not in self._written:
            node = self._node(factors, axes)
            whole = [form for form in (present(node), node) if _is_whole(form)]  # best multiplied out
            self._written[axes, factors] = unscaled(whole[0]) if whole else None
        return self._written[axes, factors]

    def _split(self, rows: Digits, columns: Digits, factors: Sequence[Factor]) -> Matrix | None:
        """A Kronecker product of a matrix of the first digits and one of the others."""
        for first, second in _splits(len(rows), len(columns)):
            upper, lower = {*rows[:first], *columns[:second]}, {*rows[first:], *columns[second:]}
            parts = None if upper & lower else self._separated(factors, upper)
            if parts is None or self._separated(parts[0], lower)[0]:
                continue
            left = self._matrix(rows[:first], columns[:second], parts[0])
            right = self._matrix(rows[first:], columns[second:], parts[1]) if left else None
            if left is None or right is None:
                continue
            if second == 0 and first == len(rows):
                return left * right
            arguments = [
                chained(part.factors) if part.factors else self._unit(digits)
                for part, digits in ((left, rows[:first]), (right, rows[first:]))
            ]
            return Matrix((Call("kron", tuple(arguments), "apply"),), left.value * right.value)
        return None

    def _cut(self, rows: Digits, columns: Digits, factors: Sequence[Factor], cuts: int) -> Iterator[Matrix]:
        """Products with a diagonal matrix in the middle."""
        pairs = dict.fromkeys(factor.labels for factor in factors if len(set(factor.labels)) == 2)
        for pair in dict.fromkeys(pair for pair in pairs if pair[::-1] not in pairs or pair < pair[::-1]):
            sides = self._sides(set(rows), set(columns), set(pair), factors)
            if sides is None:
                continue
            before, between, behind = sides
            for ends in (pair, pair[::-1]):
                middle = self._single(ends[::-1], (), between)
                left = self._matrix(rows, ends[::-1], before, cuts - 1) if middle else None
                right = self._matrix(ends[::-1], columns, behind, cuts - 1) if left else None
                if middle is not None and left is not None and right is not None:
                    yield left * Matrix((Call("diag", middle.factors),), middle.value) * right
                    break

    def _sides(
        self, rows: set[int], columns: set[int], ends: set[int], factors: Sequence[Factor]
    ) -> tuple[list[Factor], list[Factor], list[Factor]] | None:
        """The factors before, in and behind a matrix with the given labels; None if they cannot be told."""
        if (rows & columns) - ends:
            return None
        sides: tuple[list[Factor], list[Factor], list[Factor]] = [], [], []
        for group, inside in connected(set(factor.labels) - ends for factor in factors):
            if inside & rows and inside & columns:
                return None
            side = 0 if inside & rows else 2 if inside & columns else 1
            sides[side].extend(factors[k] for k in group)
        return sides

    def _separated(self, factors: Sequence[Factor], labels: set[int]) -> tuple[list[Factor], list[Factor]]:
        """The factors that are linked with some labels, and those that are not."""
        linked: list[Factor] = []
        others: list[Factor] = []
        for group, inside in connected(factor.labels for factor in factors):
            (linked if inside & labels else others).extend(factors[k] for k in group)
        return linked, others

    def _node(self, factors: Sequence[Factor], output: Digits, counted: Sequence[int] = ()) -> Node:
        """The product of factors with the given axes."""
        axes = tuple(tuple(map(label_axis, factor.labels)) for factor in factors)
        placed = tuple(map(label_axis, output))
        product = Product(tuple(factor.node for factor in factors), axes, placed, tuple(self.ranges), 1.0)
        return einsum_of(product.over(sorted(product.used.union(counted))), product.sizes(output))

    def _unit(self, digits: Digits) -> Form:
        return Call("eye", (Symbol(str(self._size(digits))),))

    def _size(self, digits: Digits) -> Size:
        return size_product(self.ranges[label] for label in digits)


def _is_whole(node: Node) -> bool:
    return set(topological([node])) <= whole_nodes([node])


def _vec(form: Form) -> Form:
    return Call("vec", (form,), "apply")


def _splits(rows: int, columns: int) -> list[tuple[int, int]]:
    """How many digits of rows and columns the first factor of a Kronecker product may have, best first."""
    found = [(a, b) for a in range(rows + 1) for b in range(columns + 1)]
    digits = rows + columns
    most = 2 if digits <= 4 else digits - 1  # parts of three digits out of four are better cut
    found = [(a, b) for a, b in found if 0 < a + b <= most and 0 < digits - a - b <= most]
    return sorted(found, key=lambda split: (split != (rows, 0), split != (1, 1)))


def _cost(matrix: Matrix) -> tuple[int, int]:
    """What makes a product long to read: its factors, and transposes in them."""
    parts = [leaf.node for factor in matrix.factors for leaf in leaves(factor)]
    return len(matrix.factors), sum(transposes(describe(part)) for part in parts)
