"""The closed set of node classes, and interning.

Nodes are frozen and hash-consed: equal expressions are one object, so `is` is equality and common
subexpressions are free. They are made only by the constructors of this package. Every node carries a
`key`, by which operands are sorted: it depends on structure alone, never on creation order, so that
results and prints do not depend on history.
"""

from __future__ import annotations

import functools
import hashlib
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast
from weakref import WeakValueDictionary

import numpy as np

from hesse.ir.axis import Axis, Size, plain_axes
from hesse.ir.labelled import Labelled, Product

Shape = tuple[Size, ...]
Params = tuple[Any, ...]
NodeType = TypeVar("NodeType", bound="Node")


class Node:
    """An expression. `shape` holds sizes; `operands` the nodes it is computed from; `kind` is
    "real" or "integer" (index arrays, which only `Apply` records read)."""

    __slots__ = ("__weakref__", "_cache", "key", "kind", "operands", "shape")
    shape: Shape
    operands: tuple[Node, ...]
    kind: str
    key: tuple[Any, ...]
    _cache: dict[Any, Any]

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def product(self) -> Product:
        """The node as a product: one operand, read whole."""
        axes = plain_axes(self.rank)
        return Product((self,), (axes,), axes, self.shape, 1.0)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.shape}>"

    if TYPE_CHECKING:  # defined in `build`, which has the constructors they need

        def __add__(self, other: Node | float) -> Node: ...
        def __radd__(self, other: float) -> Node: ...
        def __sub__(self, other: Node | float) -> Node: ...
        def __rsub__(self, other: float) -> Node: ...
        def __mul__(self, other: Node | float) -> Node: ...
        def __rmul__(self, other: float) -> Node: ...
        def __truediv__(self, other: Node | float) -> Node: ...
        def __rtruediv__(self, other: float) -> Node: ...
        def __neg__(self) -> Node: ...

    def __reduce__(self) -> Any:
        raise TypeError("nodes are interned and cannot be pickled")


class Variable(Node):
    """A named input. `attributes` are facts the rewriting may use, such as "symmetric"."""

    __slots__ = ("attributes", "name")
    name: str
    attributes: frozenset[str]


class Constant(Node):
    """An array known when the expression is built."""

    __slots__ = ("frozen",)
    frozen: FrozenArray

    @property
    def value(self) -> np.ndarray:
        """The array (read-only)."""
        return self.frozen.array


class Einsum(Node, Labelled):
    """`scale * sum over labels of the product of operands`, added into the output.

    `axes[k][d]` says which entry of axis d of operand k a point of the label box reads, `output[d]`
    where in axis d of the result it is added. `ranges[label]` is the number of values of a label.
    """

    __slots__ = ("axes", "output", "ranges", "scale")
    axes: tuple[tuple[Axis, ...], ...]
    output: tuple[Axis, ...]
    ranges: tuple[Size, ...]
    scale: float

    @property
    def product(self) -> Product:
        """The fields as a value."""
        return Product(self.operands, self.axes, self.output, self.ranges, self.scale)


class Add(Node):
    """The sum of its operands, all of one shape. Without operands it is zero."""

    __slots__ = ()


class Map(Node):
    """An element-wise function, by its name in the table of `ops`, of operands of one shape."""

    __slots__ = ("name",)
    name: str


class Apply(Node):
    """Any other operation, by the name of its record in `ops`, with static parameters."""

    __slots__ = ("name", "params")
    name: str
    params: Params


Result = TypeVar("Result")


def remembered(function: Callable[[NodeType], Result]) -> Callable[[NodeType], Result]:
    """Keep the result of a function of a node with the node: nodes never change."""

    @functools.wraps(function)
    def wrapper(node: NodeType) -> Result:
        try:
            found: Result = node._cache[function]
        except KeyError:
            found = node._cache[function] = function(node)
        return found

    return wrapper


_table: WeakValueDictionary[tuple[Any, ...], Node] = WeakValueDictionary()
_lock = threading.Lock()


def intern(
    cls: type[NodeType], shape: Shape, operands: tuple[Node, ...], kind: str = "real", **fields: Any
) -> NodeType:
    """The one node of this class with these fields."""
    identity = (cls, shape, operands, kind, *fields.values())
    found = cast("NodeType | None", _table.get(identity))
    if found is None:
        with _lock:  # two threads must not make the same node twice
            found = cast("NodeType | None", _table.get(identity))
            if found is None:
                found = object.__new__(cls)
                found.shape, found.operands, found.kind, found._cache = shape, operands, kind, {}
                for name, value in fields.items():
                    setattr(found, name, value)
                found.key = _sort_key(cls, shape, operands, kind, fields)
                _table[identity] = found
    return found


_RANKS = {Variable: 0, Constant: 1, Map: 2, Apply: 3, Einsum: 4, Add: 5}


def _sort_key(
    cls: type[Node], shape: Shape, operands: tuple[Node, ...], kind: str, fields: dict[str, Any]
) -> tuple[Any, ...]:
    # the mark of a traced argument does not change the order, so that traced and symbolic results read alike
    printed = {
        name: sorted(value - {"argument"}) if name == "attributes" else value
        for name, value in fields.items()
    }
    text = repr((cls.__name__, shape, kind, printed))
    digest = hashlib.blake2b(text.encode(), digest_size=16)
    for operand in operands:
        digest.update(operand.key[-1])
    return (_RANKS[cls], str(fields.get("name", "")), digest.digest())


class FrozenArray:
    """An array compared by content, the identity of a `Constant`."""

    __slots__ = ("array", "digest")

    def __init__(self, array: np.ndarray) -> None:
        self.array = np.array(array, copy=True, order="C")
        self.array.setflags(write=False)
        self.digest = hashlib.blake2b(self.array.tobytes(), digest_size=16).hexdigest()

    def _identity(self) -> tuple[Any, ...]:
        return (self.digest, self.array.shape, self.array.dtype.str)

    def __hash__(self) -> int:
        return hash(self._identity())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FrozenArray) and self._identity() == other._identity()

    def __repr__(self) -> str:
        return repr(self._identity())
