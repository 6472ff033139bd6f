"""The structured tensor: patterns over small arrays, with the operations of a matrix on that form."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from typing import Any

import numpy as np

from hesse.backends.arrays import as_arrays
from hesse.backends.target import Array
from hesse.errors import ArgumentError, ShapeError
from hesse.ir import (
    Node,
    Shape,
    Variable,
    number,
    substitute,
    topological,
    variable,
)
from hesse.plan import bytes_text, is_always_allowed
from hesse.structured import formulas
from hesse.structured.base import Patterns
from hesse.structured.chunks import check_chunk, dense_in_chunks
from hesse.structured.patterns import products
from hesse.structured.terms import Term, core_shape, pattern_text


class Structured(Patterns):
    """A derivative as a sum of patterns over small arrays.

    `groups` are the ranks of the groups of axes: those of the function's result, then one for each
    variable. Operations on the trailing groups contract the factors in the best order for each use and
    never form anything larger than they must.
    """

    __slots__ = ()
    __array_priority__ = 1000.0
    __array_ufunc__ = None  # NumPy arrays leave their operators to this class

    @property
    def terms(self) -> tuple[Term, ...]:
        """The terms: factors and patterns."""
        return tuple(
            Term(
                tuple(map(self._factor, product.operands)),
                product.axes,
                product.output,
                tuple(map(number, product.ranges)),
                product.scale,
            )
            for product in products(self.node)
        )

    def _factor(self, node: Node) -> Array:
        return self._values()[node.name] if isinstance(node, Variable) else self.like(node).dense()

    def __repr__(self) -> str:
        terms = products(self.node)
        parts = [f"pattern {pattern_text(t.output)}, core {core_shape(*t[1:4])}" for t in terms[:3]]
        count = f"{len(terms)} term{'' if len(terms) == 1 else 's'}"
        listed = ", ".join([count, *dict.fromkeys(parts), *(["…"] if len(terms) > 3 else [])])
        dense = math.prod(self.shape) * self.target.itemsize(self.dtype)
        return (
            f"<Structured {self.shape}: {listed}; {bytes_text(self.nbytes)} instead of {bytes_text(dense)}>"
        )

    def _operand(self, name: str, value: Any) -> Array:
        """An operand as an array of the library of this tensor."""
        first = next(iter(self._arrays), None)
        if first is not None and type(value) is type(first) and value.dtype == self.dtype:
            return value
        beside = [] if first is None else [first]
        given = as_arrays([name], [value], self.target).values  # and on the device of the parts:
        return self.target.converted([*beside, *given], [None] * (len(beside) + 1))[-1]

    def dense(self, chunk: int | None = None) -> Array:
        """The whole tensor as an array; `chunk` entries of its first axis at a time, to save memory.

        >>> import numpy as np, hesse
        >>> H = hesse.hessian(lambda x: np.sum(x) ** 3, form="structured")(np.ones(3))
        >>> H.dense(chunk=2)
        array([[18., 18., 18.],
               [18., 18., 18.],
               [18., 18., 18.]])
        """
        if chunk is None or not self.ndim:
            return self.run(formulas.whole)
        return dense_in_chunks(self.node, self._values(), self.dtype, self.target, check_chunk(chunk))

    def copy(self) -> Structured:
        """The same with arrays of its own: data that was given when it was made is no longer referred to."""
        return self.over(map(self.target.copied, self._arrays))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.target.on_host(self.dense()), dtype)

    def to(self, device: Any) -> Structured:
        """The same with its parts on another device (of PyTorch; JAX moves it with `jax.device_put`)."""
        if self.target.name != "torch":
            raise ArgumentError(f"the parts are of {self.target.name}, and only PyTorch's are moved by `to`")
        return self.over(array.to(device) for array in self._arrays)

    # Axes: [lead…, rows…, columns…]; columns are the last group, rows the one before it.

    def _columns(self) -> Shape:
        return self.node.shape[self.ndim - self.groups[-1] :]

    def _square(self, what: str) -> int:
        """The rank of the two last groups, which must have the same shape."""
        rank = self.groups[-1]
        if (
            len(self.groups) < 2
            or self.node.shape[self.ndim - 2 * rank : self.ndim - rank] != self._columns()
        ):
            raise ShapeError(f"{what} needs two equal trailing groups of axes; the shape is {self.shape}")
        return rank

    def matvec(self, vector: Any) -> Array:
        """The product with an array over the trailing variable axes (further axes of it are kept)."""
        try:
            program, parts, needed = self._products[type(vector), vector.shape, vector.dtype]
        except (AttributeError, KeyError, TypeError):
            pass  # the first one like this, or no array
        else:
            if is_always_allowed(needed):
                return program(*parts, vector)[0]
        array = self._operand("vector", vector)
        columns, rank, shape = self._columns(), self.groups[-1], tuple(array.shape)
        if shape[:rank] != columns:
            raise ShapeError(f"the array has shape {shape}, but the trailing axes are {columns}")
        result = self.run(formulas.times_vector, rank, shape, vector=array)
        ready = self._ready.get((formulas.times_vector, (rank, shape), array.dtype))
        if ready is not None and array is vector and array.dtype == ready.runs.dtype:
            known = ready.runs.compiled.function, ready.arrays, ready.needed
            self._products = {**self._products, (type(vector), vector.shape, vector.dtype): known}
        return result

    def __matmul__(self, vector: Any) -> Array:
        return self.matvec(vector)

    def quadratic(self, vector: Any) -> Array:
        """`v' H v` over the two trailing groups."""
        array, rank = self._operand("vector", vector), self._square("quadratic")
        if tuple(array.shape) != self._columns():
            raise ShapeError(
                f"the array has shape {tuple(array.shape)}, but the trailing axes are {self._columns()}"
            )
        return self.run(formulas.quadratic, rank, vector=array)

    def diagonal(self) -> Array:
        """The entries where both trailing groups have the same index."""
        return self.run(formulas.diagonal, self._square("diagonal"))

    def trace(self) -> Array:
        """The sum of the diagonal (the Laplacian, for a Hessian)."""
        return self.run(formulas.trace, self._square("trace"))

    def block(self, *index: int) -> Structured:
        """The part with the first axes of both trailing groups fixed at `index`."""
        rank = self._square("block")
        sizes = tuple(map(number, self._columns()))
        if not 0 < len(index) <= rank:
            raise ArgumentError(f"block takes 1 to {rank} positions, not {len(index)}")
        for at, size in zip(index, sizes, strict=False):
            if not -size <= at < size:
                raise ArgumentError(f"block {index} is outside of the axes {sizes}")
        node = formulas.block(
            self.node, rank, tuple(at % size for at, size in zip(index, sizes, strict=False))
        )
        rest = rank - len(index)
        return self.like(node, (*self.groups[:-2], rest, rest))

    def solve(self, right: Any, damping: float = 0.0) -> Array:
        """`X` with `(H + damping·I) X = right` over the two trailing groups (further axes of it are kept).

        The structure decides how: see `solve_method`. A singular system raises `numpy.linalg.LinAlgError`;
        where JAX or PyTorch trace or capture a function, its solution is nan instead.

        >>> import numpy as np, hesse
        >>> H = hesse.hessian(lambda x: np.sum(x**4), form="structured")(np.array([1.0, 2.0]))
        >>> H.solve(np.array([12.0, 48.0]))
        array([1., 1.])
        """
        rank, amount, xp = self._system(), _damping(damping), self.target.algebra
        array = self._operand("right", right)
        shape = tuple(array.shape)
        if shape[:rank] != self._columns():
            raise ShapeError(
                f"the right-hand side has shape {shape}, but the trailing axes are {self._columns()}"
            )
        dtype = self.promoted(array)
        if self.target.itemsize(dtype) < 4:  # too short to solve in
            dtype = self.target.dtype([dtype, xp.float32])
        (typed,) = self.target.converted([array], [dtype])
        if 0 in shape:
            return self.target.copied(typed)
        from hesse.structured.solvers import solve  # noqa: PLC0415  (not loaded before it is needed)

        solution = solve(self, typed.reshape(*shape[:rank], -1), amount)
        return xp.in_order(solution.reshape(shape))

    def solve_method(self, damping: float = 0.0) -> str:
        """The name of the method by which `solve` solves.

        "diagonal", "block-diagonal" (also followed by the method for one block when all blocks are the
        same), "kronecker", "banded", "low rank" (a diagonal plus a few outer products), "sparse" or "dense".

        >>> import numpy as np, hesse
        >>> f = hesse.hessian(lambda x: np.sum((x[1:] - x[:-1]) ** 2), form="structured")
        >>> f(np.ones(20)).solve_method()
        'banded'
        """
        self._system()
        from hesse.structured.solvers import solver  # noqa: PLC0415

        return solver(self, _damping(damping)).name

    def _system(self) -> int:
        """The rank of the variable of a square system."""
        rank = self._square("solve")
        if len(self.groups) > 2 and self.ndim > 2 * rank:
            raise ShapeError(
                f"solve needs two equal groups of axes and no others; the shape is {self.shape}, "
                f"in groups of {self.groups} axes"
            )
        return rank

    def to_sparse(self, format: str | None = None) -> Any:
        """A sparse matrix: the last group of axes are its columns, all others its rows.

        For NumPy it is a SciPy sparse array ("csr" unless another format is asked for), for PyTorch a sparse
        tensor ("coo", "csr" or "csc"), and for JAX a `BCOO` ("coo") or `BCSR` ("csr").
        """
        from hesse.structured.sparse import to_sparse  # noqa: PLC0415

        return to_sparse(self, format)

    def to_linear_operator(self) -> Any:
        """A SciPy linear operator, of NumPy arrays: columns are the last group of axes, rows all others."""
        from hesse.structured.sparse import to_linear_operator  # noqa: PLC0415

        return to_linear_operator(self)

    def plot(self, ax: Any = None) -> Any:
        """A matplotlib picture of the structure: one colour for each term; returns the axes."""
        from hesse.structured.plot import plot  # noqa: PLC0415

        return plot(self, ax)

    @property
    def T(self) -> Structured:
        """The two trailing groups of axes exchanged."""
        if len(self.groups) < 2:
            raise ShapeError("there is only one group of axes")
        *lead, rows, columns = self.groups
        start = sum(lead)
        order = (*range(start), *range(start + rows, self.ndim), *range(start, start + rows))
        return self.like(formulas.reordered(self.node, order), (*lead, columns, rows))

    def __mul__(self, factor: Any) -> Structured:
        if not isinstance(factor, numbers.Real):
            return NotImplemented
        return self.like(formulas.multiple(self.node, float(factor)))

    __rmul__ = __mul__

    def __truediv__(self, factor: Any) -> Structured:
        return self * (1.0 / factor) if isinstance(factor, numbers.Real) else NotImplemented

    def __neg__(self) -> Structured:
        return self * -1.0

    def __add__(self, other: Any) -> Structured:
        if not isinstance(other, Structured):
            return NotImplemented
        if other.shape != self.shape:
            raise ShapeError(f"cannot add tensors of shapes {self.shape} and {other.shape}")
        node, values = _renamed(other, self._values())
        total = formulas.total(self.node, node)
        if other.target.name != self.target.name:
            raise ArgumentError(
                f"cannot add tensors with arrays of {self.target.name} and of {other.target.name}"
            )
        dtype = self.target.dtype([self.dtype, other.dtype])
        both = self.of(self.node, {**self._values(), **values}, self.groups, dtype, self.target)
        return both.like(total)

    def __sub__(self, other: Any) -> Structured:
        return self + -other if isinstance(other, Structured) else NotImplemented


def _renamed(tensor: Structured, taken: Mapping[str, Array]) -> tuple[Node, dict[str, Array]]:
    """The node and parts of a tensor under names that are free (or mean the same array)."""
    table: dict[Node, Node] = {}
    values: dict[str, Array] = {}
    own = tensor.parts
    for node in topological([tensor.node]):
        if isinstance(node, Variable):
            name = node.name
            while name in values or (name in taken and taken[name] is not own[node.name]):
                name += "_"
            table[node] = variable(name, node.shape, node.attributes, node.kind)
            values[name] = own[node.name]
    return substitute([tensor.node], table)[0], values


def _damping(value: Any) -> float:
    if not isinstance(value, numbers.Real) or not math.isfinite(value):
        raise ArgumentError(f"damping must be a finite number, not {value!r}")
    return float(value)
