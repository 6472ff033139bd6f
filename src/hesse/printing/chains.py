"""Products that can be written without indices: chains of matrices and vectors, traces, diagonals.

Labels are points, matrices are edges between two of them and vectors are weights at one. Where edges and
weights form trees (or one cycle: a trace), the product has a matrix notation: `A*diag(w)*B`, `x'*A*y`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hesse.ir import Axis, Einsum, Node, Shape, Size, connected, remembered
from hesse.printing.forms import Call, Form, Transposed
from hesse.printing.products import (
    chained,
    element_wise,
    inner_product,
    is_symmetric,
    multiplied,
    norm,
    ones,
    pattern,
    powers,
    square_root,
    transposed,
    transposes,
)

Labels = tuple[int, ...]
Unit = tuple[int, int]
"""An axis of size one: the number of its tensor and its place there."""


class Factor(NamedTuple):
    """Operands that share their axes, as one form."""

    labels: Labels
    form: Form
    symmetric: bool


@remembered
def matrix_form(node: Einsum) -> tuple[Form | None, Form | None] | None:
    """Scalar factors and the rest of a product in matrix notation, or None if it has none."""
    groups: dict[tuple[tuple[Axis, ...], Shape], list[Node]] = {}
    for operand, axes in zip(node.operands, node.axes, strict=True):
        groups.setdefault((axes, operand.shape), []).append(operand)
    scalars: list[Node] = groups.pop(((), ()), [])
    tables = _tables([*groups, (node.output, node.shape)], node.ranges)
    if tables is None:
        return None
    factors = [
        Factor(labels, powers(operands), all(map(is_symmetric, operands)))
        for labels, operands in zip(tables, groups.values(), strict=False)
    ]
    found = _single(factors[0], tables[-1]) if len(factors) == 1 else None
    if found is not None:
        return _scalar_product(scalars, []), found
    return _network_form(factors, tables[-1], scalars, node.ranges)


def whole_labels(axes: Sequence[Axis], shape: Shape, ranges: Sequence[Size]) -> tuple[int | None, ...] | None:
    """The labels of axes that are taken whole (None: an axis of size one), or None if one is not."""
    labels: list[int | None] = []
    for axis, size in zip(axes, shape, strict=True):
        if axis.is_label and ranges[axis.label] == size:
            labels.append(axis.label)
        elif size == 1 and not axis.terms:
            labels.append(None)
        else:
            return None
    return tuple(labels)


def _tables(tensors: Sequence[tuple[Sequence[Axis], Shape]], ranges: Sequence[Size]) -> list[Labels] | None:
    """The labels of each tensor, the output last, or None if an axis is not taken whole.

    Axes of size one carry no label. They get one again, so that a matrix with one row is still a matrix:
    those of the operands are joined to those of the output first and then to each other.
    """
    tables: list[list[int]] = []
    units: list[Unit] = []
    for number, (axes, shape) in enumerate(tensors):
        labels = whole_labels(axes, shape, ranges)
        if labels is None:
            return None
        units += [(number, place) for place, label in enumerate(labels) if label is None]
        tables.append([-1 if label is None else label for label in labels])
    pairs = _paired(units, len(tensors) - 1)
    if pairs is None:
        return None
    for label, pair in enumerate(pairs, len(ranges)):
        for number, place in pair:
            tables[number][place] = label
    return [tuple(table) for table in tables]


def _paired(units: Sequence[Unit], output: int) -> list[tuple[Unit, Unit]] | None:
    """Axes of size one in pairs of two tensors; those of the output with like places, if there are any."""
    rest = [unit for unit in units if unit[0] != output]
    pairs: list[tuple[Unit, Unit]] = []
    for number, place in units:
        if number == output and rest:
            partner = next((unit for unit in rest if unit[1] == place), rest[0])
            rest.remove(partner)
            pairs.append((partner, (number, place)))
    pairs += zip(rest[::2], rest[1::2], strict=False)
    return pairs if 2 * len(pairs) == len(units) and all(one[0] != two[0] for one, two in pairs) else None


def _single(factor: Factor, output: Labels) -> Form | None:
    """Views of one tensor that have a name."""
    labels, form, _ = factor
    if len(set(labels)) == len(labels):
        if output == labels:
            return form
        if output == labels[::-1] and len(labels) == 2:
            return Transposed(form)
        if not output and len(labels) > 1:
            return square_root(form, lambda root: norm(root, 2)) or Call("sum", (form,), scalar=True)
    elif len(labels) == 2 and not output:
        return Call("tr", (form,), scalar=True)
    elif len(labels) == 2 and output == labels[:1]:
        return Call("diagonal", (form,))
    return None


def _network_form(
    factors: Sequence[Factor], output: Labels, scalars: Sequence[Node], ranges: Sequence[Size]
) -> tuple[Form | None, Form | None] | None:
    known = {label for factor in factors for label in factor.labels}
    if len(output) > 2 or any(len(factor.labels) > 2 for factor in factors):
        return None
    network = _Network(factors, output)
    missing = [label for label in dict.fromkeys(output) if label not in known]
    if missing and not known.intersection(output):
        body: Form | None = pattern([ranges[label] if label < len(ranges) else 1 for label in output], output)
    else:
        for label in missing:
            network.weights[label] = ones(ranges[label] if label < len(ranges) else 1)
        body = network.body(output)
    products = [network.scalar(labels) for labels in network.components() if not labels.intersection(output)]
    if (output and body is None) or None in products:
        return None
    return _scalar_product(scalars, [product for product in products if product is not None]), body


def _scalar_product(scalars: Sequence[Node], products: Sequence[Form]) -> Form | None:
    forms = [powers(scalars, scalar=True), *products] if scalars else list(products)
    return multiplied(forms, scalar=True) if forms else None


class _Matrix(NamedTuple):
    row: int
    column: int
    form: Form
    symmetric: bool

    def other(self, label: int) -> int:
        return self.column if label == self.row else self.row

    def starting(self, label: int) -> Form:
        """The matrix with its rows numbered by `label`."""
        return self.form if self.symmetric or label == self.row else transposed(self.form)


class _Network:
    """Matrices between labels and vectors at labels."""

    def __init__(self, factors: Sequence[Factor], output: Labels) -> None:
        self.weights: dict[int, Form] = {}
        for labels, form, _ in sorted(factors, key=lambda factor: len(factor.labels)):
            if len(set(labels)) == 1:
                weight = form if len(labels) == 1 else Call("diagonal", (form,))
                own = self.weights.get(labels[0])
                self.weights[labels[0]] = weight if own is None else multiplied([own, weight])
        pairs = [factor for factor in factors if len(set(factor.labels)) == 2]
        self.matrices = [_Matrix(f.labels[0], f.labels[1], f.form, f.symmetric) for f in pairs]
        self._merge_parallel(output)
        while self._merge_detour(output):
            pass

    def _merge_detour(self, output: Labels) -> bool:
        """`P[i,j] A[i,k] B[k,j]` is one matrix `P.*(A*B)`, unless it is a trace; whether there was one."""
        for label in sorted({end for matrix in self.matrices for end in matrix[:2]} - set(output)):
            pair = self.at(label)
            if len(pair) != 2:
                continue
            ends = {matrix.other(label) for matrix in pair}
            direct = [m for m in self.matrices if m not in pair and {m.row, m.column} == ends]
            around = self._reached(label)
            if not direct or (not around.intersection(output) and all(len(self.at(k)) == 2 for k in around)):
                continue
            start, end, form, _ = direct[0]
            first, second = pair if pair[0].other(label) == start else pair[::-1]
            weight = [Call("diag", (self.weights.pop(label),))] if label in self.weights else []
            way = chained([first.starting(start), *weight, second.starting(label)])
            kept = [matrix for matrix in self.matrices if matrix not in (*pair, direct[0])]
            self.matrices = [*kept, _Matrix(start, end, element_wise([form, way]), False)]
            return True
        return False

    def _merge_parallel(self, output: Labels) -> None:
        """`A[i,j] B[j,i]` is one matrix `A.*B'`, unless it is a trace."""
        for first in list(self.matrices):
            second = next((m for m in self.matrices if (m.row, m.column) == (first.column, first.row)), None)
            if second is None or first not in self.matrices:
                continue
            ends = (first.row, first.column)
            if not set(ends).intersection(output) and all(len(self.at(label)) == 2 for label in ends):
                continue
            merged = element_wise([first.form, second.starting(first.row)])
            place = self.matrices.index(first)
            self.matrices.remove(second)
            self.matrices[place] = _Matrix(*ends, merged, first.symmetric and second.symmetric)

    def at(self, label: int) -> list[_Matrix]:
        """The matrices that have a label."""
        return [matrix for matrix in self.matrices if label in (matrix.row, matrix.column)]

    def components(self) -> list[set[int]]:
        """The labels that matrices connect."""
        tensors = [*({label} for label in self.weights), *({m.row, m.column} for m in self.matrices)]
        return [labels for _, labels in connected(tensors)]

    def _reached(self, start: int) -> set[int]:
        seen, stack = {start}, [start]
        while stack:
            label = stack.pop()
            new = {matrix.other(label) for matrix in self.at(label)} - seen
            seen |= new
            stack += new
        return seen

    def _is_tree(self, labels: set[int]) -> bool:
        return sum(matrix.row in labels for matrix in self.matrices) == len(labels) - 1

    def body(self, output: Labels) -> Form | None:
        """The part of the product that has the labels of the output."""
        if not output or not all(self._is_tree(self._reached(label)) for label in output):
            return None
        first, last = output[0], output[-1]
        if len(output) == 2 and first != last and last in self._reached(first):
            return self._between(first, last)
        column, row = self._column(first), self._column(last)
        if column is None or row is None or len(output) == 1:
            return column if row is not None else None
        return Call("diag", (column,)) if first == last else chained([column, transposed(row)])

    def _between(self, first: int, last: int) -> Form | None:
        """The matrices on the way from one label to another; what hangs off the way is a diagonal."""
        path = self._path(first, last)
        factors: list[Form] = []
        label = first
        for matrix in [*path, None]:
            hanging = self._hanging(label, path)
            if hanging is None:
                return None
            if hanging:
                factors.append(Call("diag", (element_wise(hanging),)))
            if matrix is not None:
                factors.append(matrix.starting(label))
                label = matrix.other(label)
        return chained(factors)

    def _path(self, first: int, last: int) -> list[_Matrix]:
        ways: dict[int, list[_Matrix]] = {first: []}
        stack = [first]
        while last not in ways:
            label = stack.pop()
            for matrix in self.at(label):
                if matrix.other(label) not in ways:
                    ways[matrix.other(label)] = [*ways[label], matrix]
                    stack.append(matrix.other(label))
        return ways[last]

    def _hanging(self, label: int, skipped: Iterable[_Matrix]) -> list[Form] | None:
        """The vectors at a label: its weight, and what comes through its matrices; None if one has no end."""
        found = [self.weights[label]] if label in self.weights else []
        for matrix in self.at(label):
            if matrix not in skipped:
                end = self._column(matrix.other(label), [matrix])
                if end is None:
                    return None
                found.append(chained([matrix.starting(label), end]))
        return found

    def _column(self, label: int, skipped: Iterable[_Matrix] = ()) -> Form | None:
        hanging = self._hanging(label, skipped)
        if hanging is None:
            return None
        return element_wise(hanging) if hanging else ones()

    def scalar(self, labels: set[int]) -> Form | None:
        """A component without output labels."""
        matrices = [matrix for matrix in self.matrices if matrix.row in labels]
        if not matrices:
            return inner_product(self.weights[min(labels)])
        if not self._is_tree(labels):
            return self._trace(matrices, labels)
        ends = [label for matrix in matrices for label in matrix[:2] if len(self.at(label)) == 1]
        bare = [label for label in ends if label not in self.weights]
        if len(matrices) == 1 and len(bare) == 2:
            form = matrices[0].form
            return square_root(form, lambda root: norm(root, 2)) or Call("sum", (form,), scalar=True)
        if bare:
            column = self._column(bare[0])
            return None if column is None else Call("sum", (column,), scalar=True)
        forms = [self._from_end(end) for end in dict.fromkeys(ends)]
        return min((form for form in forms if form is not None), key=transposes, default=None)

    def _from_end(self, end: int) -> Form | None:
        (matrix,) = self.at(end)
        rest = self._column(matrix.other(end), [matrix])
        return None if rest is None else chained([Transposed(self.weights[end]), matrix.starting(end), rest])

    def _trace(self, matrices: Sequence[_Matrix], labels: set[int]) -> Form | None:
        if any(len(self.at(label)) != 2 for label in labels):
            return None
        rounds = [self._round(matrices[0], start) for start in matrices[0][:2]]
        return Call("tr", (min(rounds, key=transposes),), scalar=True)

    def _round(self, matrix: _Matrix, start: int) -> Form:
        """Once around a cycle."""
        factors: list[Form] = []
        label = start
        while True:
            factors.append(matrix.starting(label))
            label = matrix.other(label)
            if label in self.weights:
                factors.append(Call("diag", (self.weights[label],)))
            if label == start:
                return chained(factors)
            matrix = next(m for m in self.at(label) if m is not matrix)
