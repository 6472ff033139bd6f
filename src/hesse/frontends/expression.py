"""`Expression`: the tracer that stands in for an array, and the public symbolic object.

Everything an array can do arrives in the one table of `dispatch`: operators and methods are the NumPy
functions of the same meaning. What has no meaning for an expression raises an error with a way out.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from hesse.errors import ShapeError
from hesse.frontends.classes import class_of
from hesse.frontends.dispatch import call, call_ufunc, is_float_type
from hesse.frontends.flat import Flat
from hesse.frontends.indices import Index
from hesse.frontends.memory import Part, refresh
from hesse.frontends.methods import answered, binary, in_place, method_of, reflected, refused, valueless
from hesse.frontends.objects import OBJECT_LOOPS, array_of_entries
from hesse.frontends.orders import NO_SHAPE_IN_PLACE, reshape_in_place
from hesse.frontends.symbolic import SymbolicMethods
from hesse.frontends.tracing import (
    NumbersNeeded,
    UnknownAttribute,
    decided,
    note_need,
    of_tensors,
    real_dtype,
    untraceable,
)
from hesse.ir import Node, Shape
from hesse.ops.choices import ratio
from hesse.ops.integers import as_integer, as_real
from hesse.ops.registry import elementwise

_BUILD = "Build the result with np.where, np.concatenate or np.stack."
_NUMBER = "float(), int() or complex() of a traced value (math.sin(x) and a[i] = x do it too)"
_NO_NUMBERS = (
    "Use np.sin(x) and the like instead of math, build the result with np.where, np.concatenate or np.stack"
)
_EVALUATE = "Evaluate the expression first; inside a traced function values are not known."


class Quotient(NamedTuple):
    """A quotient as it was written, or a sum with one; `product` is its node, a product with a reciprocal.

    `x / h` is a whole number where `x * (1 / h)` falls short of it. This is known of an expression and not
    of a node: nodes do not tell `3*x / 3` from `x`.
    """

    product: Node
    written: tuple[Node, Node] | Node

    @property
    def node(self) -> Node:
        """The quotient, or the sum with one."""
        return ratio(*self.written) if isinstance(self.written, tuple) else self.written


class Expression(SymbolicMethods):
    """A tensor expression: a node with the behaviour of an array.

    `boolean` marks results of comparisons. `index` says what to read where the expression serves as an
    index array; `is_index` marks integers that have no real node of their own, such as the result of argmax.
    `is_ordered` says that its entries are known to lie in memory in the order of the axes, `is_part` that a
    complex value has it as one of its parts.
    `part` says what is changed by a write besides the expression itself; None: nothing. `quotient` says how
    the node was written as a quotient; None: it was not.
    """

    __slots__ = (
        "__weakref__",
        "boolean",
        "index",
        "is_index",
        "is_ordered",
        "is_part",
        "node",
        "part",
        "quotient",
    )
    __array_priority__ = 1000.0

    def __init__(
        self, node: Node, boolean: bool = False, index: Index | Node | None = None, is_index: bool = False
    ) -> None:
        self.node = node
        self.boolean = boolean
        self.is_index = is_index or node.kind == "integer"
        if index is None and node.kind == "integer":
            index = node
        self.index = Index(index) if isinstance(index, Node) else index
        self.is_ordered = self.is_part = False
        self.part: Part | None = None
        self.quotient: Quotient | None = None

    def __copy__(self) -> Expression:
        found = Expression(self.node, self.boolean, self.index, self.is_index)
        found.quotient = self.quotient
        return found

    def __deepcopy__(self, memo: Any) -> Expression:
        return self.__copy__()

    def __hash__(self) -> int:
        note_need([self])  # a key of a dict is meant by its value
        return hash(self.node)

    def __repr__(self) -> str:
        return f"Expression(shape={self.shape})"

    @property
    def divided(self) -> Node:
        """The node with a quotient as a quotient, for functions with jumps."""
        known, node = self.quotient, self.node
        return node if known is None or known.product is not node else known.node  # else it was written to

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """For the user that asks `isinstance(x, np.ndarray)`: what NumPy would have here."""
        return class_of(self, Expression)

    @property
    def shape(self) -> Shape:
        """Sizes of the axes: numbers, or names in symbolic work."""
        if self.part is not None and self.part.memory.is_written:  # no node is made to know its shape
            return self.part.positions.shape
        return self.node.shape

    @shape.setter
    def shape(self, shape: Any) -> None:
        if self.is_part:  # in NumPy z.real is another array each time
            raise untraceable("a new shape in place of a part of a complex value", NO_SHAPE_IN_PLACE)
        reshape_in_place(self, shape)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of entries."""
        return math.prod(_known_size(size, "the number of entries") for size in self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the numbers: that of the arrays of the call, or one of integers or truth values."""
        kind = bool if self.boolean else np.int64 if self.index is not None else real_dtype()
        return np.dtype(kind)

    @property
    def itemsize(self) -> int:
        """Bytes of an entry."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all entries."""
        return self.size * self.itemsize

    @property
    def flat(self) -> Any:
        """The entries in row-major order, to read and to write."""
        return Flat(self)

    @flat.setter
    def flat(self, value: Any) -> None:
        self.flat[:] = value

    @property
    def is_number(self) -> bool:
        """Whether it is what NumPy makes a number of: nothing can be written to it."""
        return not self.shape and self.part is None

    @property
    def T(self) -> Any:
        """All axes in reverse order."""
        return call(np.transpose, (self,))

    @property
    def mT(self) -> Any:
        """The last two axes exchanged."""
        return call(np.matrix_transpose, (self,))

    @property
    def real(self) -> Expression:
        """The expression itself: all expressions are real."""
        return self

    @property
    def imag(self) -> Any:
        """Zero: all expressions are real."""
        return call(np.imag, (self,))

    def __getattr__(self, name: str) -> Any:
        if name in ("node", "index"):  # forgotten, because something was written
            if self.part is None:
                raise untraceable(
                    "an array that a traced function has made and kept for later",
                    "Make it outside of the function.",
                )
            refresh(self)
            return getattr(self, name)
        if name in OBJECT_LOOPS:  # NumPy asks the entries of arrays of objects for them
            return functools.partial(self._of_ufunc, getattr(np, name))
        way_out = "Use the NumPy function instead of the method, if there is one."
        raise untraceable(f"the attribute .{name} of a traced value", way_out, kind=UnknownAttribute)

    def _of_ufunc(self, ufunc: np.ufunc, *others: Any) -> Any:
        return call(ufunc, (self, *others))

    # NumPy calls these for functions and ufuncs with an expression among their arguments.

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        return call_ufunc(ufunc, method, inputs, options)

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        return call(function, tuple(arguments), options)

    __add__, __radd__ = binary(np.add), reflected(np.add)
    __sub__, __rsub__ = binary(np.subtract), reflected(np.subtract)
    __mul__, __rmul__ = binary(np.multiply), reflected(np.multiply)
    __truediv__, __rtruediv__ = binary(np.divide), reflected(np.divide)
    __floordiv__, __rfloordiv__ = binary(np.floor_divide), reflected(np.floor_divide)
    __mod__, __rmod__ = binary(np.remainder), reflected(np.remainder)
    __divmod__, __rdivmod__ = binary(np.divmod), reflected(np.divmod)
    __pow__, __rpow__ = binary(np.power), reflected(np.power)
    __matmul__, __rmatmul__ = binary(np.matmul), reflected(np.matmul)
    __and__, __rand__ = binary(np.bitwise_and), reflected(np.bitwise_and)
    __or__, __ror__ = binary(np.bitwise_or), reflected(np.bitwise_or)
    __xor__, __rxor__ = binary(np.bitwise_xor), reflected(np.bitwise_xor)
    __lt__, __le__ = binary(np.less), binary(np.less_equal)
    __gt__, __ge__ = binary(np.greater), binary(np.greater_equal)
    __eq__ = binary(np.equal)
    __ne__ = binary(np.not_equal)
    __neg__, __pos__ = method_of(np.negative), method_of(np.positive)
    __abs__, __invert__ = method_of(np.absolute), method_of(np.invert)
    __round__ = method_of(np.round)

    __iadd__, __isub__ = in_place(np.add), in_place(np.subtract)
    __imul__, __itruediv__ = in_place(np.multiply), in_place(np.divide)
    __ifloordiv__, __imod__ = in_place(np.floor_divide), in_place(np.remainder)
    __ipow__, __imatmul__ = in_place(np.power), in_place(np.matmul)
    __iand__, __ior__, __ixor__ = (
        in_place(np.bitwise_and),
        in_place(np.bitwise_or),
        in_place(np.bitwise_xor),
    )

    def __len__(self) -> int:
        if not self.shape:
            note_need([self])
            raise untraceable(
                "len() of a 0-d value", "It has no axes; write np.atleast_1d(x) to give it one."
            )
        return _known_size(self.shape[0], "len()")

    def __iter__(self) -> Iterator[Expression]:
        if not self.shape:
            note_need([self])
            raise untraceable(
                "iteration over a 0-d value", "It has no axes; write np.atleast_1d(x) to give it one."
            )
        return (self[position] for position in range(_known_size(self.shape[0], "iteration")))

    def __getitem__(self, key: Any) -> Any:
        return call(operator.getitem, (self, key))

    def __setitem__(self, key: Any, value: Any) -> None:
        call(operator.setitem, (self, key, value))

    def item(self, *position: Any) -> Any:
        """An entry as a number: the only one, or one at a position."""
        self._refuse_tensors()
        if not position and self.size != 1:
            raise ShapeError(f"item() needs a position in an array of {self.size} entries")
        if len(position) == 1 and not isinstance(position[0], tuple):
            return self.flat[position[0]]
        return self[position[0] if len(position) == 1 else position or (0,) * self.ndim]

    def tolist(self) -> Any:
        """The entries as numbers in nested lists."""
        self._refuse_tensors()
        return [part.tolist() for part in self] if self.shape else self

    def _refuse_tensors(self) -> None:
        if of_tensors.get():
            raise untraceable("item() or tolist() of a traced tensor", _EVALUATE)

    def fill(self, value: Any) -> None:
        """Write a number everywhere."""
        call(operator.setitem, (self, ..., value))

    def sort(self, axis: int = -1, **options: Any) -> None:
        """Sort an axis in place."""
        call(np.copyto, (self, call(np.sort, (self, axis), options)))

    def partition(self, kth: Any, axis: int = -1, **options: Any) -> None:
        """Sort an axis in place, which puts every entry in its place."""
        call(np.copyto, (self, call(np.partition, (self, kth, axis), options)))

    def copy(self, order: str = "C") -> Any:
        """The same entries, in an array of its own if it is none that NumPy makes a number of."""
        return self.__copy__() if self.is_number else call(np.copy, (self,), {"order": order})

    def flatten(self, order: str = "C") -> Any:
        """A copy along one axis."""
        return call(np.copy, (call(np.ravel, (self,), {"order": order}),), {"order": "C"})

    sum, prod, mean = method_of(np.sum), method_of(np.prod), method_of(np.mean)
    var, std = method_of(np.var), method_of(np.std)
    max, min, ptp = method_of(np.max), method_of(np.min), method_of(np.ptp)
    argmax, argmin, argsort = method_of(np.argmax), method_of(np.argmin), method_of(np.argsort)
    argpartition = method_of(np.argpartition)
    all, any = method_of(np.all), method_of(np.any)
    cumsum, cumprod = method_of(np.cumsum), method_of(np.cumprod)
    dot, trace, diagonal = method_of(np.dot), method_of(np.trace), method_of(np.diagonal)
    swapaxes, squeeze, ravel = method_of(np.swapaxes), method_of(np.squeeze), method_of(np.ravel)
    take, repeat, searchsorted = method_of(np.take), method_of(np.repeat), method_of(np.searchsorted)
    clip, round = method_of(np.clip), method_of(np.round)

    def conj(self) -> Expression:
        """Itself, as in NumPy: a write to it is one to the array."""
        return self

    conjugate = conj

    def reshape(self, *shape: Any, **options: Any) -> Any:
        """The same entries in row-major order in another shape, given as numbers or as one tuple."""
        return call(np.reshape, (self, shape[0] if len(shape) == 1 else shape), options)

    def transpose(self, *order: Any) -> Any:
        """The axes in a new order, given as numbers or as one tuple; reversed without arguments."""
        return call(np.transpose, (self, order[0] if len(order) == 1 else order or None))

    def astype(self, dtype: Any, **options: Any) -> Any:
        """The same values in another type: floating types change nothing, integers lose their fractions."""
        kind = np.dtype(dtype).kind
        own = "b" if self.boolean else "f" if self.index is None else None
        if kind == own and not options.get("copy", True):
            return self
        if kind == "b":
            return self.__copy__() if self.boolean else call(np.not_equal, (self, 0.0))
        if kind in "iu":
            if self.index is not None:
                return self.__copy__()
            node = self.node if self.boolean else elementwise("trunc", self.divided)
            return Expression(node, index=as_integer(self.divided))
        if is_float_type(dtype):
            return call(np.multiply, (self, 1.0)) if self.is_index else Expression(self.node)
        if kind == "c":
            return call(np.add, (self, 0j))
        raise untraceable(
            f"astype({np.dtype(dtype)})", "Only real numbers are traced; np.trunc drops fractions."
        )

    def answer(self, question: str) -> Any:
        """The only entry as a "truth" or an "integer"; None where the function cannot decide by values."""
        if self.size != 1:
            return None
        integers = self.index if self.is_index or question == "integer" else None
        return decided(question, self.divided if integers is None else as_real(integers.as_node()))

    # What would need the value of the expression now, or would change it in place.

    __bool__ = answered(
        "truth",
        "the truth value of a traced value (if, while, and, or, not, assert, in)",
        "Use np.where(condition, x, y) for a choice, np.maximum(x, y) instead of max(x, y) or "
        "np.max([x, y]), and &, |, ~ for conditions; "
        "or let the function decide by values: @hesse.branching.",
    )
    __int__ = answered(
        "integer", _NUMBER, f"{_NO_NUMBERS}; or let the function decide by values: @hesse.branching."
    )
    __complex__ = valueless(_NUMBER, f"{_NO_NUMBERS}.", NumbersNeeded)

    def __float__(self) -> float:
        """Of truth values and whole numbers, which have no derivatives; a real number would lose its own."""
        if self.boolean or self.index is not None:
            return float(bool(self) if self.boolean else int(self))
        note_need([self])
        raise untraceable(_NUMBER, f"{_NO_NUMBERS}.")

    def __index__(self) -> int:
        found = self.answer("integer") if self.index is not None and not self.shape else None
        if found is None:
            note_need([self])
            raise untraceable(
                "a traced value as a Python integer (range(x), a list index)",
                "Loop over a shape instead; np.take_along_axis and hesse.constant(a)[x] take traced indices; "
                "or let the function decide by values: @hesse.branching.",
            )
        return int(found)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        """What `np.array` and `np.asarray` make of it: an array of objects, each of them a traced entry."""
        return array_of_entries(self, dtype, bool(copy))

    __delitem__ = refused("the deletion of entries of a traced value (del x[i])", _BUILD)

    def __format__(self, spec: str) -> str:
        """What `print(f"{x[0]:.3f}")` in a traced function shows: the expression, which has no digits yet."""
        return str(self)

    def __contains__(self, value: Any) -> bool:
        return bool(call(np.any, (call(np.equal, (self, value)),)))

    resize = itemset = refused("a method that changes a traced value in place", _BUILD)
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = refused(
        "a shift of bits (x << 1)", "Multiply by a power of two, or divide by it: x * 2**k, x // 2**k."
    )
    tobytes = valueless("tobytes() of a traced value", _EVALUATE)
    nonzero, put, choose = method_of(np.nonzero), method_of(np.put), method_of(np.choose)

    def compress(self, condition: Any, axis: Any = None) -> Any:
        """What of an axis a condition holds for."""
        return call(np.compress, (condition, self, axis))


def _known_size(size: int | str, purpose: str) -> int:
    if isinstance(size, str):
        raise ShapeError(
            f"{purpose} needs a known size, but the axis has the symbolic size {size}; bind it first"
        )
    return size
