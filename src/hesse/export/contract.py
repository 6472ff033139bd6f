"""Products of many tensors as pairwise terms, in the order that costs least."""

from __future__ import annotations

from collections.abc import Sequence

from hesse.cost import concrete, contraction_path
from hesse.export.terms import Contract, Dot, MatrixProduct, Outer, Permute, Reduce, Term, Terms
from hesse.ir import Size

Labels = tuple[int, ...]
Labelled = tuple[Term, Labels]
"""A term and the labels of its axes."""


class Contraction:
    """Multiplies terms with labelled axes; `ranges` are the sizes of the labels."""

    def __init__(self, terms: Terms, ranges: Sequence[Size]) -> None:
        self.terms, self.ranges = terms, tuple(ranges)

    def product(self, values: list[Labelled], output: Labels) -> Term:
        """The product of all values, summed over the labels that are not in the output."""
        scalars = [term for term, labels in values if not labels]
        tensors = [value for value in values if value[1]]
        used = {label for _, labels in tensors for label in labels}
        if used <= set(output):
            return self._multiplied(tensors, scalars, output)
        inputs = tuple(labels for _, labels in tensors)
        for positions in contraction_path(inputs, output, tuple(map(concrete, self.ranges))):
            chosen = [tensors[k] for k in sorted(positions)]
            tensors = [value for k, value in enumerate(tensors) if k not in positions]
            needed = set(output).union(*(labels for _, labels in tensors))
            tensors.append(self._contracted(chosen, needed, None if tensors else output))
        ((term, labels),) = tensors
        term = self.terms.permuted(term, tuple(labels.index(label) for label in output))
        return self.terms.product(1.0, [*scalars, term])

    def _multiplied(self, values: list[Labelled], scalars: list[Term], output: Labels) -> Term:
        if [len(labels) for _, labels in values] == [1, 1] and values[0][1] != values[1][1]:
            first, second = sorted(values, key=lambda value: output.index(value[1][0]))
            return self.terms.product(1.0, [*scalars, self._outer(first[0], second[0])])
        aligned = [self.terms.aligned(term, labels, output) for term, labels in values]
        return self.terms.product(1.0, [*scalars, *aligned])

    def _outer(self, left: Term, right: Term) -> Term:
        return self.terms.make(Outer, left.shape + right.shape, left, right)

    def _contracted(self, chosen: list[Labelled], needed: set[int], order: Labels | None) -> Labelled:
        if len(chosen) == 1:
            return self._summed(chosen[0], needed)
        first, second = chosen
        left, a = self._summed(first, needed | set(second[1]))
        right, b = self._summed(second, needed | set(first[1]))
        summed = [label for label in a if label in b and label not in needed]
        batch = [label for label in a if label in b and label in needed]
        rows = [label for label in a if label not in b]
        columns = [label for label in b if label not in a]
        if order:
            batch, rows, columns = (sorted(group, key=order.index) for group in (batch, rows, columns))
        if not summed:
            labels = order or (*a, *columns)
            return self._multiplied([(left, a), (right, b)], [], labels), labels
        if not rows and not columns and (batch or len(summed) > 1):
            whole = self.terms.product(1.0, [left, self.terms.aligned(right, b, a)])
            return self._summed((whole, a), needed)
        if order and rows and columns and order.index(columns[0]) < order.index(rows[0]):
            left, right, a, b, rows, columns = right, left, b, a, columns, rows
        if not batch and len(summed) == 1 and len(rows) <= 1 and len(columns) <= 1:
            return self._matrix_product(left, a, right, b, summed[0])
        return self._general(left, a, right, b, (*batch, *rows, *columns))

    def _summed(self, value: Labelled, needed: set[int]) -> Labelled:
        term, labels = value
        axes = tuple(k for k, label in enumerate(labels) if label not in needed)
        if not axes:
            return value
        shape = [size for k, size in enumerate(term.shape) if k not in axes]
        kept = tuple(label for label in labels if label in needed)
        return self.terms.make(Reduce, shape, term, axes), kept

    def _matrix_product(self, left: Term, a: Labels, right: Term, b: Labels, summed: int) -> Labelled:
        if len(a) == len(b) == 1:
            return self._dot(left, right), ()
        if len(a) == 1:  # a matrix is written before a vector
            left, a, right, b = right, b, left, a
        matrix = self.terms.permuted(left, (0, 1) if a[1] == summed else (1, 0))
        row = a[0] if a[1] == summed else a[1]
        if len(b) == 1:
            return self.terms.make(MatrixProduct, matrix.shape[:1], matrix, right), (row,)
        other = self.terms.permuted(right, (0, 1) if b[0] == summed else (1, 0))
        column = b[1] if b[0] == summed else b[0]
        shape = (matrix.shape[0], other.shape[1])
        return self.terms.make(MatrixProduct, shape, matrix, other), (row, column)

    def _dot(self, left: Term, right: Term) -> Term:
        """x'(A'y) is written y'(A x)."""
        if isinstance(right, MatrixProduct) and isinstance(right.left, Permute):
            matrix = right.left.operand
            left, right = right.right, self.terms.make(MatrixProduct, matrix.shape[:1], matrix, left)
        return self.terms.make(Dot, (), left, right)

    def _general(self, left: Term, a: Labels, right: Term, b: Labels, labels: Labels) -> Labelled:
        shape = [self.ranges[label] for label in labels]
        numbers = {label: k for k, label in enumerate(dict.fromkeys(a + b))}  # equal contractions look equal
        tables = [tuple(numbers[label] for label in part) for part in (a, b, labels)]
        return self.terms.make(Contract, shape, left, right, *tables), labels
