"""The closed set of node classes, and interning.

Nodes are frozen and hash-consed: equal expressions are one object, so `is` is equality and common
subexpressions are free. They are made only by the constructors of this package. Every node carries a
`key`, by which operands are sorted: it depends on structure alone, never on creation order, so that
results and prints do not depend on history.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import math
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast
from weakref import WeakValueDictionary

import numpy as np

from hesse.ir.axis import PATTERNS, Axis, Size, constant_axis, plain_axes
from hesse.ir.labelled import Labelled, Product

Shape = tuple[Size, ...]
Params = tuple[Any, ...]
NodeType = TypeVar("NodeType", bound="Node")


class Node:
    """An expression. `shape` holds sizes; `operands` the nodes it is computed from; `kind` is
    "real" or "integer" (index arrays, which only `Apply` records read)."""

    __slots__ = ("__weakref__", "_cache", "_key", "kind", "operands", "shape")
    shape: Shape
    operands: tuple[Node, ...]
    kind: str
    _key: tuple[Any, ...] | None
    _cache: dict[Any, Any]

    @property
    def key(self) -> tuple[Any, ...]:
        """What nodes are sorted by; found when it is asked for."""
        return self._key or _found_key(self)

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def product(self) -> Product:
        """The node as a product: one operand, read whole."""
        if 1 not in self.shape:
            axes, ranges = plain_axes(self.rank), self.shape
        else:  # an axis of size one has no label
            ranges = tuple(size for size in self.shape if size != 1)
            labels = iter(plain_axes(len(ranges)))
            axes = tuple(constant_axis(0) if size == 1 else next(labels) for size in self.shape)
        return Product((self,), (axes,), axes, ranges, 1.0)

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
Arguments = ParamSpec("Arguments")
KEPT_VARIANTS = 512
"""For how many choices of further arguments a node keeps the results of one function."""
_UNKNOWN = object()
_ITSELF = object()
"""What a node remembers instead of itself: what refers to itself is freed by garbage collections only."""


def remembered(
    function: Callable[Concatenate[NodeType, Arguments], Result],
) -> Callable[Concatenate[NodeType, Arguments], Result]:
    """Keep the results of a function of a node, and of further arguments, with the node: nodes never change.

    They are freed with the node. A tuple that holds the node would keep it alive: remember the rest of it.
    """

    def of_node(node: NodeType) -> Result:
        found: Result = node._cache.get(function, _UNKNOWN)
        if found is _UNKNOWN:
            found = function(node)  # type: ignore[call-arg]
            node._cache[function] = _ITSELF if found is node else found
        return cast("Result", node) if found is _ITSELF else found

    def of_more(node: NodeType, /, *arguments: Arguments.args, **options: Arguments.kwargs) -> Result:
        variants = node._cache.setdefault(function, {})
        key = (arguments, *options.items())
        try:
            found = variants[key]
        except KeyError:
            found = function(node, *arguments, **options)
            if len(variants) >= KEPT_VARIANTS:
                variants.clear()
            variants[key] = _ITSELF if found is node else found
        return cast("Result", node if found is _ITSELF else found)

    takes_more = len(inspect.signature(function).parameters) > 1
    wrapper: Callable[..., Result] = of_more if takes_more else of_node
    return functools.update_wrapper(wrapper, function)


_table: WeakValueDictionary[tuple[Any, ...], Any] = WeakValueDictionary()
_lock = threading.Lock()


class _Kept(threading.local):
    nodes: list[Node] | None = None
    most: float = math.inf


_kept = _Kept()


@contextmanager
def keep_nodes() -> Iterator[None]:
    """Keep all nodes that this thread makes alive until the end: another way there may ask for them again."""
    outer = _kept.nodes
    _kept.nodes = [] if outer is None else outer
    try:
        yield
    finally:
        _kept.nodes = outer


class TooManyNodes(Exception):
    """More nodes were made than may be."""


@contextmanager
def at_most_nodes(count: float) -> Iterator[None]:
    """Raise `TooManyNodes` where more nodes than this are made inside; all of them are kept until the end."""
    outer = _kept.most
    with keep_nodes():
        assert _kept.nodes is not None, "that keeps them"
        _kept.most = min(outer, len(_kept.nodes) + count)
        try:
            yield
        finally:
            _kept.most = outer


def intern(
    cls: type[NodeType], shape: Shape, operands: tuple[Node, ...], kind: str = "real", **fields: Any
) -> NodeType:
    """The one node of this class with these fields."""
    # Operands by their addresses: the table must not keep them alive. An address means one operand as long as
    # the node lives that holds it, and the entry of a node is dead before its operands are.
    identity = (cls, shape, kind, *fields.values(), *map(id, operands))
    with _lock:  # two threads must not make the same node twice
        found: NodeType | None = _table.get(identity)
        if found is not None:
            return found
        found = object.__new__(cls)
        found.shape, found.operands, found.kind = shape, operands, kind
        found._cache, found._key = {}, None
        for name, value in fields.items():
            setattr(found, name, value)
        _table[identity] = found
    if _kept.nodes is not None:
        _kept.nodes.append(found)
        if len(_kept.nodes) > _kept.most:
            raise TooManyNodes
    return found


_RANKS = {Variable: 0, Constant: 1, Map: 2, Apply: 3, Einsum: 4, Add: 5}


def _found_key(node: Node) -> tuple[Any, ...]:
    stack = [node]  # operands first, without recursion
    while stack:
        unknown = [operand for operand in stack[-1].operands if operand._key is None]
        if unknown:
            stack += unknown
        else:
            found = stack.pop()
            found._key = _sort_key(found)
    return node.key


def _sort_key(node: Node) -> tuple[Any, ...]:
    cls, name = type(node), getattr(node, "name", "")
    if isinstance(node, Einsum):
        text = _einsum_text(node.shape, node.kind, node.axes, node.output, node.ranges, node.scale)
    elif isinstance(node, Variable):
        # the mark of a traced argument does not change the order: traced and symbolic results read alike
        text = _text(node, {"name": name, "attributes": sorted(node.attributes - {"argument"})})
    else:
        text = _text(node, {slot: getattr(node, slot) for slot in cls.__slots__})
    parts = [text, *[operand.key[-1] for operand in node.operands]]
    return (_RANKS[cls], name, hashlib.blake2b(b"".join(parts), digest_size=16).digest())


def _text(node: Node, fields: Mapping[str, Any]) -> bytes:
    return repr((type(node).__name__, node.shape, node.kind, fields)).encode()


@functools.lru_cache(PATTERNS, typed=True)  # texts of axes take long
def _einsum_text(shape: Shape, kind: str, *fields: Any) -> bytes:
    return repr(("Einsum", shape, kind, dict(zip(Einsum.__slots__, fields, strict=True)))).encode()


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
