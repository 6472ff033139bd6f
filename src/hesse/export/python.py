"""NumPy, PyTorch and JAX: one writer, three tables of names."""

from __future__ import annotations

import re

from hesse.export.python_calls import PythonCalls
from hesse.export.python_index import (
    axes_of_index,
    is_slice,
    letters,
    slice_text,
    sliced_labels,
)
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
from hesse.export.writer import Level, Piece, as_divisor, is_plain_number
from hesse.ir import Axis, Shape, overlapping_labels


class PythonWriter(PythonCalls):
    """Writes terms over one array library."""

    def render(self, term: Term) -> Piece:
        match term:
            case Argument():
                return Piece(self.names.arguments[term.name])
            case Number():
                return self.literal_number(term.value)
            case Count():
                return self.count(term.size)
            case Literal():
                make = self.call if term.kind == "integer" else self.made
                return make("tensor" if self.dialect.is_torch else "array", self._entries(term))
            case Function():
                return self.function(term)
            case Sum():
                return self.summed(term.summands)
            case Product():
                return self._product(term)
            case Expand():
                return self._expand(term)
            case Permute():
                return self._permute(term)
            case Broadcast():
                return self._broadcast(term)
            case View():
                return self._view(term)
            case Reduce():
                return self._reduce(term)
            case Diagonal():
                return self.call("diag", self.text(term.operand))
            case Identity():
                return self.made("eye", self.size(term.shape[0]))
            case MatrixProduct() | Dot():
                return self._matrix_product(term)
            case Outer():
                return self.call("outer", self.text(term.left), self.text(term.right))
            case Contract():
                return self._contract(term)
            case Place():
                return self._place(term)
            case Call():
                return self.operation(term)
        raise AssertionError(f"no text for {term}")

    def _entries(self, term: Literal) -> str:
        """The entries of a constant array as nested lists."""
        text = repr(term.value.tolist())
        return re.sub(r"\b(inf|nan)\b", lambda found: f"{self.dialect.module}.{found[0]}", text)

    def _product(self, term: Product) -> Piece:
        factor = abs(term.factor)
        power = any(power > 1 for _, power in term.factors)
        parts = [
            self._power(part, power, part.shape == term.shape)
            for part, power in sorted(term.factors, key=lambda pair: pair[0].rank)
        ]
        divisors = [self._divisor(part, power) for part, power in term.divisors]
        divisor = as_divisor(factor)
        if divisor is not None and parts:
            divisors.insert(0, str(divisor))
        elif factor != 1 or not parts:
            parts.insert(0, self.number(factor))
        text = " * ".join(parts)
        if factor == 1 and len(term.factors) == 1 and not divisors and not power:
            text = self.text(term.operands[0], Level.PRODUCT)  # -A @ x is (-A) @ x
        if len(divisors) == 1:
            text += f" / {divisors[0]}"
        elif divisors:
            text += f" / ({' * '.join(divisors)})"
        single = len(parts) == 1 and not divisors
        return self.signed(term.factor, text, Level.POWER if single else Level.PRODUCT)

    def _power(self, term: Term, power: int, is_whole: bool) -> str:
        """A factor of a product; a product that is one, and as large, needs no parentheses."""
        inside = (
            isinstance(term, Product) and power == 1 and not term.divisors and term.factor > 0 and is_whole
        )
        return self.text(term) if inside else self._divisor(term, power)

    def _divisor(self, term: Term, power: int) -> str:
        return self.text(term, Level.NEGATION) if power == 1 else f"{self.text(term, Level.ATOM)}**{power}"

    def _expand(self, term: Expand) -> Piece:
        if term.positions == tuple(range(term.rank - term.operand.rank, term.rank)):
            return self.pieces[term.operand]  # leading axes are added by broadcasting
        first = term.positions[0]
        index = ", ".join(":" if k in term.positions else "None" for k in range(first, term.rank))
        return Piece(f"{self.text(term.operand, Level.ATOM)}[{index}]")

    def _permute(self, term: Permute) -> Piece:
        body = self.text(term.operand, Level.ATOM)
        if term.order == (1, 0):
            return Piece(f"{body}.T")
        return Piece(f"{body}.{self.dialect.permute}({', '.join(map(str, term.order))})")

    def _broadcast(self, term: Broadcast) -> Piece:
        shape = self.shape(term.shape)
        if isinstance(term.operand, Number):
            if term.operand.value in (0, 1):
                return self.made("zeros" if term.operand.value == 0 else "ones", shape)
            return self.made("full", shape, repr(term.operand.value))
        if is_plain_number(term.operand):
            return self.made("full", shape, f"float({self.text(term.operand)})")
        piece = self.call("broadcast_to", self.text(term.operand), shape)
        if term is self.root:
            return Piece(f"{piece.text}.{'clone' if self.dialect.language == 'torch' else 'copy'}()")
        return piece

    def _view(self, term: View) -> Piece:
        body = self.text(term.operand, Level.ATOM)
        labels = [label for axis in term.axes for label in axis.labels()]
        if len(labels) == len(set(labels)) and self._are_slices(term.axes):
            shape = term.operand.shape
            index = [slice_text(axis, term.shape, size) for axis, size in zip(term.axes, shape, strict=True)]
            return Piece(f"{body}[{', '.join(index)}]")
        if all(
            axis.is_label and term.shape[axis.label] == size
            for axis, size in zip(term.axes, term.operand.shape, strict=True)
        ):
            if term.is_diagonal:
                return self.call("diagonal", self.text(term.operand))
            spec = f'"{letters(labels)}->{letters(range(term.rank))}"'
            return self.call("einsum", spec, self.text(term.operand))
        index = [self._positions(axis, tuple(range(term.rank)), term.shape) for axis in term.axes]
        return Piece(f"{body}[{', '.join(index)}]")

    def _are_slices(self, axes: tuple[Axis, ...]) -> bool:
        return all(is_slice(axis, backwards=not self.dialect.is_torch) for axis in axes)

    def _positions(self, axis: Axis, labels: tuple[int, ...], ranges: Shape) -> str:
        """The positions along an axis for all values of some labels, as an array that broadcasts."""
        indices = [
            self._index(self.size(size), len(labels) - 1 - labels.index(label))
            if label in axis.labels()
            else ""
            for label, size in enumerate(ranges)
        ]
        return self.affine(axis, indices, first=0)

    def _index(self, size: str, trailing: int) -> str:
        """The name of the array 0, 1, … up to a size, with further axes of size 1 after it."""
        if (size, trailing) not in self.indices:
            name = self.indices[size, trailing] = self.names.fresh(self.names.indices(1)[0])
            more = f"[:{', None' * trailing}]" if trailing else ""
            self.lines.append(f"{name} = {self.dialect.module}.arange({size}){more}")
        return self.indices[size, trailing]

    def _reduce(self, term: Reduce) -> Piece:
        operand = term.operand
        if isinstance(operand, View) and operand.is_diagonal and operand not in self.named:
            return self.call("trace", self.text(operand.operand))
        body = self.text(operand)
        if len(term.axes) == operand.rank:
            return self.call("sum", body)
        axes = str(term.axes[0]) if len(term.axes) == 1 else str(term.axes)
        return self.call("sum", body, f"{self.dialect.axis}={axes}")

    def _matrix_product(self, term: MatrixProduct | Dot) -> Piece:
        chain = isinstance(term.left, MatrixProduct) and term.left not in self.named
        left = self.text(term.left, Level.PRODUCT if chain else Level.ATOM)
        return Piece(f"{left} @ {self.text(term.right, Level.ATOM)}", Level.PRODUCT)

    def _contract(self, term: Contract) -> Piece:
        a, b, labels = term.left_labels, term.right_labels, term.labels
        batch = tuple(label for label in labels if label in a and label in b)
        summed = tuple(label for label in a if label in b and label not in labels)
        if len(summed) == 1 and (
            (not batch and a == (*labels, *summed) and b == summed)
            or (
                len(a) == len(b) == len(labels) == len(batch) + 2
                and a == (*batch, labels[-2], *summed)
                and b == (*batch, *summed, labels[-1])
            )
        ):
            left, right = self.text(term.left, Level.ATOM), self.text(term.right, Level.ATOM)
            return Piece(f"{left} @ {right}", Level.PRODUCT)
        spec = f'"{letters(a)},{letters(b)}->{letters(labels)}"'
        more = ("optimize=True",) if self.dialect.language == "numpy" else ()
        return self.call("einsum", spec, self.text(term.left), self.text(term.right), *more)

    def _place(self, term: Place) -> Piece:
        name = self.target(term)
        self.lines.append(f"{name} = {self._fresh(term)}")
        for source, placement in zip(term.sources, term.placements, strict=True):
            self.lines.append(self._placed(name, source, placement, term.shape))
        self.named[term] = name
        return Piece(name)

    def _fresh(self, term: Place) -> str:
        """The array that is added to: it must not be an argument, or share memory with one."""
        if term.base is None:
            return self.made("zeros", self.shape(term.shape)).text
        if term.base not in self.named and (
            isinstance(term.base, Sum | Product | MatrixProduct | Contract | Outer | Reduce | Identity)
            or (isinstance(term.base, Function) and term.base.name != "stop_gradient")
            or (isinstance(term.base, Broadcast) and is_plain_number(term.base.operand))
        ):
            return self.text(term.base)
        return self.text(term.base, Level.ATOM) + self.dialect.copy

    def _placed(self, name: str, source: Term, placement: Placement, shape: Shape) -> str:
        axes, ranges = placement.output, placement.ranges
        overlapping = bool(overlapping_labels(axes, ranges))
        labels = [label for axis in axes for label in axis.labels()]
        if len(labels) == len(set(labels)) and self._are_slices(axes):
            index = [slice_text(axis, ranges, size) for axis, size in zip(axes, shape, strict=True)]
            order = tuple(labels)
        else:
            everywhere = self.dialect.is_torch and overlapping  # index_put_ takes no slices
            sliced = set() if everywhere else sliced_labels(axes, ranges, shape)
            arrays, order = axes_of_index(axes, sliced)
            index = [
                ":" if axis.is_label and axis.label in sliced else self._positions(axis, arrays, ranges)
                for axis in axes
            ]
        value = self._source(source, placement.labels, order)
        negative = self.pieces[source].negative and value == self.text(source)
        return self._addition(name, ", ".join(index), value, overlapping, negative)

    def _source(self, source: Term, labels: tuple[int, ...], order: tuple[int, ...]) -> str:
        """The source with its axes in the order that the index asks for."""
        turn = tuple(labels.index(label) for label in order if label in labels)
        source, turn = self.unturned(source, turn)
        text = self.text(source)
        if turn != tuple(range(len(turn))):
            turned = ", ".join(map(str, turn))
            text = f"{self.text(source, Level.ATOM)}" + (
                ".T" if turn == (1, 0) else f".{self.dialect.permute}({turned})"
            )
        first = next((k for k, label in enumerate(order) if label in labels), len(order))
        if all(label in labels for label in order[first:]):
            return text
        body = text if text != self.text(source) else self.text(source, Level.ATOM)
        return f"{body}[{', '.join(':' if label in labels else 'None' for label in order[first:])}]"

    def _addition(self, name: str, index: str, value: str, overlapping: bool, negative: bool) -> str:
        if self.dialect.language == "jax":
            return f"{name} = {name}.at[{index}].add({value})"
        if not overlapping and negative:
            return f"{name}[{index}] -= {value.removeprefix('-')}"
        if not overlapping:
            return f"{name}[{index}] += {value}"
        if self.dialect.language == "numpy":
            return f"np.add.at({name}, np.s_[{index}], {value})"
        value = f"torch.as_tensor({value}, dtype=dtype, device=device)"
        positions = ", ".join(
            f"torch.tensor({part})" if part.isdigit() else part for part in index.split(", ")
        )
        return f"{name}.index_put_(({positions},), {value}, accumulate=True)"
