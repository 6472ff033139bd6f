"""Sizes of axes, found by unification.

Every axis of every value has a cell. Operations equate cells; a cell may be fixed to a number or a name by a
declaration, or be the product of other cells (the rows of a Kronecker product). What stays open gets a name.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Container, Iterable
from typing import NamedTuple

from hesse.frontends.language.source import Span
from hesse.ir import Size, size_product

MOST_FACTORS = 8
"""A product of sizes has at most this many factors."""
NAMES = "mnkpqrsltuvw"


class Cell:
    """The size of one axis; `span` is the place in the text it comes from."""

    __slots__ = ("factors", "parent", "span", "value")

    def __init__(self, span: Span, value: Size | None = None, factors: tuple[Cell, ...] = ()) -> None:
        self.parent: Cell | None = None
        self.span = span
        self.value = value
        self.factors = factors

    @property
    def root(self) -> Cell:
        """The cell that stands for all cells equal to this one."""
        cell = self
        while cell.parent is not None:
            if cell.parent.parent is not None:
                cell.parent = cell.parent.parent
            cell = cell.parent
        return cell

    @property
    def is_open(self) -> bool:
        """Whether nothing is known about the size."""
        root = self.root
        return root.value is None and not root.factors


class Contradiction(Exception):
    """Two cells that must be equal and cannot be."""

    def __init__(self, first: Cell, second: Cell) -> None:
        super().__init__()
        self.first, self.second = first.root, second.root


class Equation(NamedTuple):
    """An equation between products, looked at when everything else is known."""

    first: Cell
    second: Cell
    spans: tuple[Span, ...]


class Sizes:
    """The cells of one formula."""

    def __init__(self) -> None:
        self._cells: list[Cell] = []
        self._named: dict[str, Cell] = {}
        self.postponed: list[Equation] = []

    def fresh(self, span: Span) -> Cell:
        """A size nothing is known about."""
        self._cells.append(Cell(span))
        return self._cells[-1]

    def fixed(self, value: Size, span: Span) -> Cell:
        """A size given as a number or by name; a name always is the same cell."""
        if isinstance(value, int):
            return Cell(span, value)
        return self._named.setdefault(value, Cell(span, value))

    def product(self, cells: Iterable[Cell], span: Span) -> Cell:
        """The product of sizes."""
        return Cell(span, None, tuple(cells))

    def equate(self, first: Cell, second: Cell, spans: tuple[Span, ...]) -> None:
        """Make two cells one; `spans` are the operands that ask for it."""
        a, b = first.root, second.root
        if a is b:
            return
        if a.is_open or b.is_open:
            unknown, known = (a, b) if a.is_open else (b, a)
            if known.factors and unknown in _leaves(known):
                raise Contradiction(a, b)
            unknown.parent = known
        elif a.factors or b.factors:
            self.postponed.append(Equation(a, b, spans))
        elif a.value == b.value:
            a.parent = b
        else:
            raise Contradiction(a, b)

    def settle(self, equation: Equation) -> None:
        """Solve an equation between products: factor by factor, in the order they were written."""
        first, second = _leaves(equation.first), _leaves(equation.second)
        if _canonical(first) == _canonical(second):
            return
        if len(first) != len(second):
            raise Contradiction(equation.first, equation.second)
        for a, b in zip(first, second, strict=True):
            self.equate(a, b, equation.spans)

    def give_names(self, taken: Container[str]) -> None:
        """Name the open sizes, in the order they were made, by letters that nothing else uses."""
        roots = list(dict.fromkeys(cell.root for cell in self._cells if cell.is_open))
        used = set(self._named)
        letters = NAMES if len(roots) > 1 else "n" + NAMES
        for cell in roots:
            suffixes = itertools.chain([""], map(str, itertools.count(1)))
            rounds = (letter + suffix for suffix in suffixes for letter in letters)
            cell.value = next(name for name in rounds if name not in used and name not in taken)
            used.add(cell.value)

    @staticmethod
    def factor_count(cells: Iterable[Cell]) -> int:
        """How many factors the product of these cells has."""
        return sum(len(_leaves(cell)) for cell in cells)


def _leaves(cell: Cell) -> list[Cell]:
    """The factors of a size that are no products themselves."""
    found: list[Cell] = []
    stack = [cell.root]
    while stack:
        top = stack.pop()
        if top.factors:
            stack.extend(factor.root for factor in reversed(top.factors))
        else:
            found.append(top)
    return found


def _canonical(leaves: list[Cell]) -> tuple[int, list[int]]:
    known = math.prod(cell.value for cell in leaves if isinstance(cell.value, int))
    return known, sorted(id(cell) for cell in leaves if not isinstance(cell.value, int))


def equal_products(first: Iterable[Cell], second: Iterable[Cell]) -> bool:
    """Whether the products of some sizes are known to be equal."""
    sides = [[leaf for cell in cells for leaf in _leaves(cell)] for cells in (first, second)]
    return _canonical(sides[0]) == _canonical(sides[1])


def size_of(cell: Cell) -> Size:
    """The size of a cell whose leaves all have values: a number, a name, or a product such as `2*m*n`."""
    return size_product(leaf.value for leaf in _leaves(cell) if leaf.value is not None)


def size_text(cell: Cell) -> str:
    """A size in an error message, where it may still be open."""
    return "*".join("?" if leaf.value is None else str(leaf.value) for leaf in _leaves(cell))
