"""What MATLAB and Julia share: matrix notation, dotted element-wise operators, arrays stored by columns.

Vectors are columns. Arrays broadcast along missing last axes, so only leading axes have to be made.
"""

from __future__ import annotations

from typing import cast

from hesse.export.column_words import ColumnWords
from hesse.export.terms import (
    Argument,
    Broadcast,
    Call,
    Contract,
    Count,
    Diagonal,
    Dot,
    Expand,
    Function,
    Identity,
    Literal,
    MatrixProduct,
    Number,
    Outer,
    Permute,
    Place,
    Placement,
    Product,
    Reduce,
    Sum,
    Term,
    View,
)
from hesse.export.writer import Level, Piece, as_divisor
from hesse.ir import Axis, Shape, Size


class ColumnWriter(ColumnWords):
    """Writes terms in a language of matrices."""

    def assign(self, name: str, term: Term) -> None:
        self.lines.append(f"{name} = {self.pieces[term].text}{self.end}")

    def render(self, term: Term) -> Piece:
        match term:
            case Argument():
                return Piece(self.names.arguments[term.name])
            case Number():
                return self.literal_number(term.value)
            case Count():
                return self.count(term.size)
            case Literal():
                return Piece(self.literal(term))
            case Function():
                return self.function(term)
            case Sum():
                return self.summed(term.summands, *self.plus(term))
            case Product():
                return self._product(term)
            case Expand():
                return self._expand(term)
            case Permute():
                body = self.text(term.operand, Level.ATOM)
                return Piece(f"{body}'") if term.rank == 2 else Piece(self.permuted(body, term.order))
            case Broadcast():
                return Piece(self.filled(term.operand, term.shape), Level.SUM)
            case View():
                return self._view(term)
            case Reduce():
                return self._reduce(term)
            case Diagonal():
                return Piece(self.word("diagonal matrix", self.text(term.operand)))
            case Identity():
                return Piece(self.word("identity", self.size(term.shape[0])))
            case MatrixProduct():
                return self._matrix_product(term)
            case Dot():
                return self.dot(term)
            case Outer():
                text = f"{self.text(term.left, Level.ATOM)} * {self.text(term.right, Level.ATOM)}'"
                return Piece(text, Level.PRODUCT)
            case Contract():
                return self._contract(term)
            case Place():
                return self._place(term)
            case Call():
                return self.operation(term)
        raise AssertionError(f"no text for {term}")

    def dot(self, term: Dot) -> Piece:
        """The inner product of two vectors."""
        text = f"{self.text(term.left, Level.ATOM)}' * {self.text(term.right, Level.ATOM)}"
        return Piece(text, Level.PRODUCT)

    def _product(self, term: Product) -> Piece:
        factor = abs(term.factor)
        scalars = [self._power(part, power) for part, power in term.factors if not part.rank]
        arrays = [self._power(part, power) for part, power in term.factors if part.rank]
        divisor = as_divisor(factor)
        plain = factor == 1 and len(term.factors) == 1 and term.factors[0][1] == 1 and not term.divisors
        if plain:  # -A * x is (-A) * x
            return self.signed(term.factor, self.text(term.operands[0], Level.PRODUCT))
        if not (scalars or arrays) or (factor != 1 and divisor is None):
            scalars.insert(0, self.number(factor))
            divisor = None
        text = " * ".join([*scalars, *arrays[:1]]) + "".join(f" .* {part}" for part in arrays[1:])
        text += f" / {divisor}" if divisor is not None else ""
        for part, power in term.divisors:
            text += f" {'./' if part.rank else '/'} {self._power(part, power)}"
        single = len(scalars) + len(arrays) == 1 and not term.divisors and divisor is None
        return self.signed(term.factor, text, Level.POWER if single else Level.PRODUCT)

    def _power(self, term: Term, power: int) -> str:
        if power == 1:
            return self.text(term, Level.NEGATION)
        return f"{self.text(term, Level.ATOM)}{' .^ ' if term.rank else '^'}{power}"

    def _expand(self, term: Expand) -> Piece:
        if term.positions == tuple(range(term.operand.rank)):
            return self.pieces[term.operand]
        if term.rank == 2:
            return Piece(f"{self.text(term.operand, Level.ATOM)}'")
        return Piece(self.reshaped(self.text(term.operand), self.dims(term.shape)))

    def _reduce(self, term: Reduce) -> Piece:
        operand = term.operand
        if isinstance(operand, View) and operand.is_diagonal and operand not in self.named:
            return Piece(self.word("trace", self.text(operand.operand)))
        if term.rank == 0:
            return Piece(self.total(operand))
        return Piece(self.summed_over(self.text(operand), operand.rank, term.axes, term.shape))

    def _matrix_product(self, term: MatrixProduct) -> Piece:
        chain = isinstance(term.left, MatrixProduct) and term.left not in self.named
        left = self.text(term.left, Level.PRODUCT if chain else Level.ATOM)
        return Piece(f"{left} * {self.text(term.right, Level.ATOM)}", Level.PRODUCT)

    def _contract(self, term: Contract) -> Piece:
        """A product of two matrices, into which the axes are gathered; batches by broadcasting."""
        a, b, labels = term.left_labels, term.right_labels, term.labels
        sizes = dict(zip(a + b, term.left.shape + term.right.shape, strict=True))
        summed = [label for label in a if label in b and label not in labels]
        if any(label in a and label in b for label in labels):
            return self._batched(term, [*labels, *summed], sizes)
        rows = [label for label in labels if label in a]
        columns = [label for label in labels if label in b]
        if rows:
            left = self._gathered(term.left, a, [rows, summed], sizes)
            right = self._gathered(term.right, b, [summed, columns], sizes)
        else:  # a matrix is written before a vector
            left = self._gathered(term.right, b, [columns, summed], sizes)
            right = self._gathered(term.left, a, [summed], sizes)
        product = f"{left} * {right}"
        if len(rows) <= 1 and len(columns) <= 1:
            return Piece(product, Level.PRODUCT)
        return Piece(self.reshaped(product, self.dims(term.shape)))

    def _gathered(
        self, term: Term, labels: tuple[int, ...], groups: list[list[int]], sizes: dict[int, Size]
    ) -> str:
        """An array as a matrix (or a vector), each group of axes as one."""
        order = [labels.index(label) for group in groups for label in group]
        turned = order != list(range(len(order)))
        if all(len(group) <= 1 for group in groups):
            return self.text(term, Level.ATOM) + ("'" if turned else "")
        text = self.permuted(self.text(term), order) if turned else self.text(term)
        shape = [" * ".join(self.dims(sizes[label] for label in group)) for group in groups if group]
        return self.reshaped(text, shape)

    def _batched(self, term: Contract, order: list[int], sizes: dict[int, Size]) -> Piece:
        parts = []
        for factor, labels in ((term.left, term.left_labels), (term.right, term.right_labels)):
            present = [label for label in order if label in labels]
            turn = [labels.index(label) for label in present]
            text = self.text(factor, Level.ATOM)
            if turn != list(range(len(turn))):
                text = self.permuted(self.text(factor), turn) if len(turn) > 2 else f"{text}'"
            if present != order[: len(present)]:
                shape = [self.size(sizes[label]) if label in labels else "1" for label in order]
                text = self.reshaped(text, shape)
            parts.append(text)
        axes = tuple(range(len(term.labels), len(order)))
        return Piece(self.summed_over(" .* ".join(parts), len(order), axes, term.shape))

    def _view(self, term: View) -> Piece:
        labels = [label for axis in term.axes for label in axis.labels()]
        if term.is_diagonal:
            return Piece(f"diag({self.text(term.operand)})")
        name = self.name(term.operand)
        if len(labels) == len(set(labels)) and all(len(axis.terms) <= 1 for axis in term.axes):
            shape = term.operand.shape
            index = [self._range(axis, term.shape, size) for axis, size in zip(term.axes, shape, strict=True)]
            return Piece(self.slice_of(name, ", ".join(index), term))
        target = self.target(term)
        self.lines.append(f"{target} = {self.filled(self._zero(), term.shape)}{self.end}")
        indices = self.names.indices(term.rank)
        read = ", ".join(self.affine(axis, indices, first=1) for axis in term.axes)
        value = f"{name}{self.opening}{read}{self.closing}"
        entry = f"{target}{self.opening}{', '.join(indices)}{self.closing} = {value}{self.end}"
        self._looped(list(zip(indices, self.dims(term.shape), strict=True)), entry)
        self.named[term] = target
        return Piece(target)

    def _zero(self) -> Term:
        return Number((), 0.0)

    def _range(self, axis: Axis, ranges: Shape, size: Size) -> str:
        """The positions along an axis, from 1 on: a number, all, or a range."""
        if not axis.terms:
            return str(axis.offset + 1)
        ((label, stride),) = axis.terms
        if axis.is_label and ranges[label] == size:
            return ":"
        first = axis.offset + 1
        last = first + stride * (cast(int, ranges[label]) - 1)
        return f"{first}:{last}" if stride == 1 else f"{first}:{stride}:{last}"

    def _looped(self, loops: list[tuple[str, str]], statement: str) -> None:
        for depth, (index, size) in enumerate(loops):
            self.lines.append(self.indent * depth + self.loop(index, size))
        self.lines.append(self.indent * len(loops) + statement)
        for depth in reversed(range(len(loops))):
            self.lines.append(self.indent * depth + "end")

    def _place(self, term: Place) -> Piece:
        name = self.target(term)
        base = self.filled(self._zero(), term.shape) if term.base is None else self.fresh(term.base)
        self.lines.append(f"{name} = {base}{self.end}")
        for source, placement in zip(term.sources, term.placements, strict=True):
            self._placed(name, source, placement, term.shape)
        self.named[term] = name
        return Piece(name)

    def fresh(self, term: Term) -> str:
        """The text of a term as an array that may be changed."""
        return self.text(term)

    def _placed(self, name: str, source: Term, placement: Placement, shape: Shape) -> None:
        """A loop over the labels that are used twice or together; slices for the others."""
        axes, ranges = placement.output, placement.ranges
        used = [label for axis in axes for label in axis.labels()]
        sliced = {a.label for a in axes if len(a.terms) == 1 and used.count(a.label) == 1}
        looped = [label for label in dict.fromkeys(used) if label not in sliced]
        letters = dict(zip(looped, self.names.indices(len(looped)), strict=True))
        indices = [letters.get(label, "") for label in range(len(ranges))]
        index = ", ".join(
            self._range(axis, ranges, size)
            if not looped or any(label in sliced for label in axis.labels())
            else self.affine(axis, indices, first=1)
            for axis, size in zip(axes, shape, strict=True)
        )
        value = self._source(source, placement, letters, sliced)
        negative = self.pieces[source].negative and value == self.text(source)
        statement = self.added(name, index, value.removeprefix("-") if negative else value, negative)
        self._looped([(letters[label], self.size(ranges[label])) for label in looped], statement)

    def _source(self, source: Term, placement: Placement, letters: dict[int, str], sliced: set[int]) -> str:
        """The entries of a source for fixed values of the looped labels."""
        axes, labels = placement.output, placement.labels
        order = [axis.label for axis in axes if len(axis.terms) == 1 and axis.label in sliced]
        if not labels:
            return self.text(source, Level.PRODUCT)
        turn = tuple(labels.index(label) for label in (*letters, *order) if label in labels)
        source, turn = self.unturned(source, turn)
        if turn != tuple(range(len(turn))):
            body = self.text(source, Level.ATOM)
            text = self.permuted(body, turn) if len(turn) > 2 else f"{body}'"
            name = self.names.numbered("t")
            self.lines.append(f"{name} = {text}{self.end}")
        else:
            name = self.name(source)
        index = ", ".join(
            [letters[label] for label in letters if label in labels]
            + [":" for label in order if label in labels]
        )
        shape = [
            (self.size(placement.ranges[axis.label]) if axis.label in labels else "1")
            if len(axis.terms) == 1 and axis.label in sliced
            else None
            for axis in axes
        ]
        whole = all(label in labels for label in order)
        return self.source_slice(name, index, shape, whole)
