"""Functions from elsewhere: a node that holds the rule by which it is computed and differentiated.

An operation of the tables is known by its name. A function of a user, or of another library, is known by a
`Rule` object: what shapes it gives, how it is called with arrays, and how tangents and cotangents pass
through it. Each of its results is a node of its own with the same operands and the same rule, and a program
calls the rule once for all of them.
"""

from __future__ import annotations

import itertools
import math
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hesse.errors import ShapeError
from hesse.ir import Apply, Node, add, apply_

FOREIGN = "foreign"
"""The name of the nodes; their parameters are the rule and the number of the result."""
PICK = "pick"
"""The name of the instruction that takes one result out of those of a call."""


class Output(NamedTuple):
    """A result of a foreign function: its shape, and whether it is "real", "integer" or "boolean"."""

    shape: tuple[int, ...]
    kind: str = "real"


class Repeated(NamedTuple):
    """The same result of another call: its rule and number, and the operands that decide, by their slots."""

    rule: Rule
    number: int
    operands: Mapping[int, Node]


_lock = threading.Lock()
_named: Counter[str] = Counter()


class Rule(ABC):
    """All that is known of a foreign function. Rules are compared by identity.

    `is_native` says that `call` takes the arrays of whichever library computes, and uses its functions: then
    that library can trace and differentiate it. Else it is called with NumPy arrays.
    """

    is_native = False
    has_native_matrix = False
    """The same for `matrix`."""
    is_searched = True
    """Whether a search for the best order of products is worth the partials that it needs."""

    is_loop = False
    """Whether it is a loop that is compiled anew wherever something passes through it."""

    lines = 1
    """How many operations it is made of, one after the other, for estimates of time."""
    steps = 0
    """How often it repeats them."""
    exponentials: float = math.inf
    """How many one of them computes at most, as far as it is known."""

    def __init__(self, name: str) -> None:
        self.name = name
        with _lock:
            _named[name] += 1
            number = _named[name]
        # Nodes are told apart by this text when they are sorted: the first of its name is the same always.
        self._text = name if number == 1 else f"{name}#{number}"

    def __repr__(self) -> str:
        return self._text

    def meaning(self) -> Hashable:
        """Equal for rules that compute the same, as far as it is known: each trace may make new ones."""
        return self

    @abstractmethod
    def outputs(self, shapes: tuple[tuple[int, ...], ...]) -> tuple[Output, ...]:
        """The results for operands of these shapes."""

    @abstractmethod
    def call(self, *arrays: Any) -> Sequence[Any]:
        """The results for arrays, which it may change."""

    def matrix(self, number: int, slot: int, arrays: Sequence[Any]) -> Any:
        """The matrix `[result…, operand…]` of a result that is linear in an operand, which is given as 0."""

        def column(unit: Any) -> Any:
            given = arrays if self.has_native_matrix else [np.array(array)[()] for array in arrays]
            return self.call(*given[:slot], unit, *given[slot + 1 :])[number]

        return self.columns(column, arrays[slot], self.outputs(tuple(map(np.shape, arrays)))[number].shape)

    def columns(self, function: Callable[[Any], Any], operand: Any, shape: tuple[int, ...]) -> Any:
        """The values of this shape, along the first axes, of a linear function of an operand.

        One column after the other: the function of unit tensors.
        """
        columns = []
        for place in itertools.product(*map(range, np.shape(operand))):
            unit = np.zeros(np.shape(operand), operand.dtype)
            unit[place] = 1.0
            columns.append(np.asarray(function(unit[()])))
        whole = shape + np.shape(operand)
        return np.stack(columns, -1).reshape(whole) if columns else np.zeros(whole)

    def is_active(self, node: Apply, slot: int) -> bool:
        """Whether a result depends smoothly on an operand at all; if not, its derivative is zero."""
        return True

    def primal(self, node: Apply) -> Node:
        """What stands for a result wherever it was differentiated: the node itself, or what the rule says."""
        return node

    def repeated(self, node: Apply) -> Iterable[Repeated]:
        """What else computes a result of a loop besides its derivative, as far as it was differentiated."""
        return ()

    @abstractmethod
    def push(self, node: Apply, slot: int, tangent: Node) -> Node:
        """The tangent `[node…, trail…]` of a result for the tangent `[operand…, trail…]` of an operand."""

    def push_all(self, node: Apply, tangents: Mapping[int, Node]) -> Node:
        """The tangent of a result for tangents of several operands, by their slots."""
        terms = [self.push(node, slot, tangent) for slot, tangent in tangents.items()]
        return add(terms, terms[0].shape)

    @abstractmethod
    def pull(self, node: Apply, slot: int, cotangent: Node) -> Node:
        """The cotangent `[lead…, operand…]` of an operand for the cotangent `[lead…, node…]` of a result."""

    def pull_all(self, cotangents: Mapping[Apply, Node], slots: Collection[int]) -> dict[int, Node]:
        """The cotangents of some operands of a call, by their slots, for those of several of its results."""
        found = {}
        for slot in slots:
            terms = [
                self.pull(node, slot, cotangent)
                for node, cotangent in cotangents.items()
                if self.is_active(node, slot)
            ]
            found[slot] = add(terms, terms[0].shape)
        return found

    def arguments(self, operands: Sequence[Any]) -> list[Any]:
        """What is written between the parentheses: operands, and texts for anything else."""
        return list(operands)


def rule_of(node: Apply) -> Rule:
    """The rule of a foreign node."""
    rule: Rule = node.params[0]
    return rule


def printed_name(node: Apply) -> str:
    """The name of the function, with the number of the result if it has several."""
    rule, number = node.params
    shapes = concrete_shapes(rule.name, node.operands)
    return rule.name if len(rule.outputs(shapes)) == 1 else f"{rule.name}_{number + 1}"


def foreign(rule: Rule, *operands: Node) -> tuple[Node, ...]:
    """The results of a foreign function."""
    outputs = rule.outputs(concrete_shapes(rule.name, operands))
    return tuple(
        apply_(FOREIGN, operands, shape, (rule, k), "integer" if kind == "integer" else "real")
        for k, (shape, kind) in enumerate(outputs)
    )


def concrete_shapes(name: str, operands: Sequence[Node]) -> tuple[tuple[int, ...], ...]:
    """The shapes of operands, which must be numbers."""
    shapes = tuple(operand.shape for operand in operands)
    symbolic = sorted({size for shape in shapes for size in shape if isinstance(size, str)})
    if symbolic:
        raise ShapeError(
            f"{name} needs operands of known sizes, not {', '.join(symbolic)}; bind the sizes first"
        )
    return shapes  # type: ignore[return-value]
