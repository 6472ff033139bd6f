"""What all rules of the language share: errors, equations between sizes, and the constructor of products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NoReturn

from hesse.errors import NotationError, ShapeError
from hesse.frontends.language.sizes import (
    MOST_FACTORS,
    Cell,
    Contradiction,
    Equation,
    Sizes,
    equal_products,
    size_of,
    size_text,
)
from hesse.frontends.language.source import Source, Span
from hesse.frontends.language.values import Value
from hesse.ir import Node, Size, broadcast, einsum, label_axis, uniform, uniform_value


@dataclass(frozen=True)
class Context:
    """The text that is being read and the sizes found so far."""

    source: Source
    sizes: Sizes = field(default_factory=Sizes)
    reshapes: list[tuple[Value, Value]] = field(default_factory=list)
    """Pairs of values that must have equally many entries."""

    def refuse(self, message: str, *spans: Span) -> NoReturn:
        """Raise for ranks or sizes that do not fit."""
        raise self.source.error(ShapeError, message, *spans)

    def misread(self, message: str, *spans: Span) -> NoReturn:
        """Raise for text that has no meaning."""
        raise self.source.error(NotationError, message, *spans)

    def words(self, value: Value) -> str:
        """The text of a value."""
        return self.source.words(value.span)

    def equate(self, first: Cell, second: Cell, values: tuple[Value, Value], reason: str) -> None:
        """Make two sizes equal, or say where each of them comes from."""
        try:
            self.sizes.equate(first, second, (values[0].span, values[1].span))
        except Contradiction as problem:
            self.contradict(problem, (values[0].span, values[1].span), reason)

    def contradict(self, problem: Contradiction, spans: tuple[Span, ...], reason: str) -> NoReturn:
        """Raise for two sizes that must be equal and are not, with both places."""
        first, second = problem.first, problem.second
        origins = [cell.span for cell in (first, second) if not any(_inside(cell.span, s) for s in spans)]
        self.refuse(
            f"the sizes {size_text(first)} and {size_text(second)} must be equal: {reason}",
            *dict.fromkeys([*spans, *origins]),
        )

    def settle(self) -> None:
        """Solve the equations between products of sizes that were postponed."""
        while self.sizes.postponed:
            equation = self.sizes.postponed.pop(0)
            try:
                self.sizes.settle(equation)
            except Contradiction as problem:
                self.contradict(problem, equation.spans, "they are sizes of one axis")
        for first, second in self.reshapes:
            if not equal_products(first.cells, second.cells) and not self._equated(first, second):
                self.refuse(
                    f"a reshape keeps the number of entries, but {self.words(first)} has {_count(first)} and "
                    f"the result has {_count(second)}; declare the sizes that are not known",
                    first.span,
                    second.span,
                )

    def _equated(self, first: Value, second: Value) -> bool:
        """Make the sizes of merged axes those of the axes they come from; whether that was possible."""
        if first.rank <= second.rank:
            return False
        sides = [self.sizes.product(value.cells, value.span) for value in (first, second)]
        try:
            self.sizes.settle(Equation(sides[0], sides[1], (first.span, second.span)))
        except Contradiction:
            return False
        return equal_products(first.cells, second.cells)

    def product(self, cells: Sequence[Cell], span: Span) -> Cell:
        """The product of sizes; it has few factors, lest nested products grow beyond all bounds."""
        if self.sizes.factor_count(cells) > MOST_FACTORS:
            self.refuse(f"a size is the product of at most {MOST_FACTORS} sizes", span)
        return self.sizes.product(cells, span)

    def constant(self, number: float, span: Span) -> Value:
        """A number."""
        return Value(span, (), lambda: uniform(number))

    def divisor(self, value: Value) -> Value:
        """A divisor, refused if it turns out to be zero whatever the variables are."""

        def combine(node: Node) -> Node:
            if uniform_value(node) == 0:
                self.misread(f"division by {self.words(value)}, which is zero", value.span)
            return node

        return replace(value, combine=combine, operands=(value,))

    def spread(self, value: Value, like: Value) -> Value:
        """A scalar repeated into the shape of another value."""
        cells = like.cells

        def combine(node: Node) -> Node:
            return broadcast(node, [size_of(cell) for cell in cells], ())

        return Value(value.span, cells, combine, (value,), like.labels, like.is_row)

    def contract(
        self,
        span: Span,
        operands: Sequence[tuple[Value, Sequence[str]]],
        output: Sequence[str],
        reason: str = "they are sizes of one axis",
        new: Mapping[str, Cell] | None = None,
    ) -> Value:
        """The product of operands whose axes are named by labels, summed over all labels not in `output`.

        `new` gives the sizes of labels of the output that no operand has.
        """
        cells = dict(new or {})
        owners: dict[str, Value] = {}
        for value, labels in operands:
            for label, cell in zip(labels, value.cells, strict=True):
                if label in owners:
                    self.equate(cells[label], cell, (owners[label], value), reason)
                elif label not in cells:
                    cells[label] = cell
                owners.setdefault(label, value)
        numbers = {label: k for k, label in enumerate(cells)}

        def combine(*nodes: Node) -> Node:
            ranges: list[Size] = [size_of(cell) for cell in cells.values()]
            axes = [[label_axis(numbers[label]) for label in labels] for _, labels in operands]
            placed = [numbers[label] for label in output]
            shape = [ranges[number] for number in placed]
            return einsum(nodes, axes, [label_axis(number) for number in placed], shape, ranges)

        return Value(
            span, tuple(cells[label] for label in output), combine, tuple(value for value, _ in operands)
        )


def _count(value: Value) -> str:
    return "*".join(map(size_text, value.cells)) or "1"


def _inside(inner: Span, outer: Span) -> bool:
    return outer.start <= inner.start and inner.end <= outer.end
