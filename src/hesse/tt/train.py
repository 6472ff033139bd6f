"""`TensorTrain` and `TTMatrix`: tensors and operators as products of small cores, and their algebra."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from numbers import Real
from typing import Any, NoReturn

import numpy as np

from hesse.errors import ArgumentError, ShapeError
from hesse.tt.arrays import Array
from hesse.tt.chain import Chain, same_place, sealed
from hesse.tt.indices import checked_indices
from hesse.tt.orthogonal import centred
from hesse.tt.rounding import rounded
from hesse.tt.scales import exponential, is_short, logarithm, measured, of_size_one, widely

CHUNK = 16384
"""Entries that are gathered at a time."""
PROBES = 4
"""Pairs of random vectors by which symmetric operators are recognised."""


def is_scalar(value: Any) -> bool:
    """Whether a value is a number, or an array without axes."""
    return isinstance(value, Real) or (hasattr(value, "shape") and tuple(value.shape) == ())


class _Algebra(Chain):
    """Sums and multiples, the same for vectors and matrices."""

    __slots__ = ()

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, type(self)):
            return NotImplemented
        _same_sizes("a sum", self, other)
        return type(self)(list(_joined(self, other)))

    def __neg__(self) -> Any:
        return self * -1.0

    def __sub__(self, other: Any) -> Any:
        return self + -other if isinstance(other, type(self)) else NotImplemented

    def __mul__(self, other: Any) -> Any:
        if is_scalar(other):
            return type(self)((sealed(self.cores[0] * other), *self.cores[1:]))
        if not isinstance(other, type(self)):
            return NotImplemented
        _same_sizes("a product of entries", self, other)
        letters = "ij"[: self.inner]
        pattern = f"...a{letters}b,...c{letters}d->...ac{letters}bd"
        return type(self)(
            [
                _merged_bonds(self.library.einsum(pattern, x, y), self.inner)
                for x, y in zip(self.cores, other.cores, strict=True)
            ]
        )

    def __rmul__(self, other: Any) -> Any:
        return self * other if is_scalar(other) else NotImplemented

    def __truediv__(self, other: Any) -> Any:
        return self * (1.0 / other) if is_scalar(other) else NotImplemented


class TensorTrain(_Algebra):
    """A tensor with entries `G1[i1] @ … @ Gd[id]`; cores have the axes (left bond, position, right bond).

    With a leading axis in all cores it is a batch of tensors. With two positions it is a matrix of low rank.

    >>> import numpy as np
    >>> from hesse import tt
    >>> X = tt.TensorTrain([np.ones((1, 3, 2)), np.ones((2, 4, 1))])
    >>> X, X.dense()[0, 0]
    (TensorTrain(shape=(3, 4), ranks=(1, 2, 1)), np.float64(2.0))
    """

    inner = 1
    kind = "tensor train"
    __slots__ = ()

    def __repr__(self) -> str:
        batch = "" if self.batch is None else f", batch={self.batch}"
        return f"TensorTrain(shape={self.shape}, ranks={self.ranks}{batch})"

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes of the tensor."""
        return tuple(size for (size,) in self.sizes)

    def dense(self) -> Array:
        """The tensor itself, with all of its entries."""
        result = self.cores[0][..., 0, :, :]
        for core in self.cores[1:]:
            pattern = "...xa,...aib->...xib"
            product = self.library.einsum(pattern, result, core)
            result = product.reshape((*product.shape[:-3], -1, product.shape[-1]))
        batch = () if self.batch is None else (self.batch,)
        return result.reshape((*batch, *self.shape))

    def norm(self) -> Array:
        """The root of the sum of the squares of all entries, computed without cancellation."""
        if any(hasattr(core, "node") for core in self.cores):  # expressions have no QR decomposition
            return dot(self, self) ** 0.5
        if is_short(self.library, self.cores):
            return self._short_norm()
        first = self.orthogonalize(0).cores[0]
        size = abs(first).max()
        size = size + (size == 0.0)  # squares of large numbers do not fit into short types
        return size * ((first / size) ** 2).sum((-3, -2, -1)) ** 0.5

    def _short_norm(self) -> Array:
        with widely(self.library, self.cores):
            units, log_scale = of_size_one(self.library, self.cores)
            centre = centred(self.library, units, 0)[0]
            norm = ((centre * centre).sum() ** 0.5) * exponential(log_scale)
            return self.library.like(norm, centre)[()]

    def orthogonalize(self, mu: int) -> TensorTrain:
        """The same tensor, with cores orthogonal from the left before `mu` and from the right behind."""
        if not 0 <= mu < len(self):
            raise ArgumentError(f"mu must be a position from 0 to {len(self) - 1}, not {mu!r}")
        return TensorTrain([*map(sealed, centred(self.library, self.cores, mu))])

    def round(self, tol: float = 0.0, rank: int | Sequence[int] | None = None) -> TensorTrain:
        """A train of smaller ranks by SVDs: off by at most `tol` times the norm, or of a rank."""
        return TensorTrain([*map(sealed, rounded(self.library, self.cores, tol, rank))])

    def train(self, k: int) -> TensorTrain:
        """One train of a batch.

        >>> from hesse import tt
        >>> tt.rank_one([[[1.0, 2.0], [3.0, 4.0]], [[5.0], [6.0]]]).train(1).dense()
        array([[18.],
               [24.]])
        """
        if self.batch is None:
            raise ArgumentError("train(k) is one of a batch; this is a single train")
        if not -self.batch <= k < self.batch:
            raise ArgumentError(f"train {k} of a batch of {self.batch}")
        return TensorTrain([sealed(core[k]) for core in self.cores])

    def gather(self, *indices: Any) -> Array:
        """Entries at positions: an array of whole numbers for each axis, or one with a row for each entry."""
        return gather(self, indices[0] if len(indices) == 1 else indices)

    def stop_gradient(self) -> TensorTrain:
        """The train itself: only recorded ones have derivatives to stop."""
        return self

    @property
    def left(self) -> Array:
        """Of a matrix `left @ right.T`: the left factor."""
        self._is_matrix("left")
        return self.cores[0][..., 0, :, :]

    @property
    def right(self) -> Array:
        """Of a matrix `left @ right.T`: the right factor."""
        self._is_matrix("right")
        core = self.cores[1][..., 0]
        rank = len(core.shape)
        return self.library.transpose(core, (*range(rank - 2), rank - 1, rank - 2))

    @property
    def T(self) -> TensorTrain:
        """Of a matrix: its transpose."""
        self._is_matrix("T")
        flip = (2, 1, 0) if self.batch is None else (0, 3, 2, 1)
        return TensorTrain([self.library.transpose(core, flip) for core in reversed(self.cores)])

    def _is_matrix(self, name: str) -> None:
        if len(self) != 2:
            raise ShapeError(f"{name} is of matrices, which have two positions; this train has {len(self)}")

    def __rmatmul__(self, other: Array) -> TensorTrain:
        self._is_matrix("a matrix product with an array")
        first = self.library.einsum("ij,...ajb->...aib", other, self.cores[0])
        return TensorTrain([first, self.cores[1]])

    def __matmul__(self, other: Array) -> TensorTrain:
        if isinstance(other, TensorTrain):
            raise ArgumentError(
                "X @ Y of two trains is no product: write tt.dot(X, Y) for the sum of the products of their "
                "entries, X * Y for these products, or A @ X with a tt.TTMatrix A"
            )
        if isinstance(other, Chain):
            raise ArgumentError("X @ A is no product of a train: write A.T @ X")
        self._is_matrix("a matrix product with an array")
        return TensorTrain([self.cores[0], self.library.einsum("...aib,ij->...ajb", self.cores[1], other)])

    def __iter__(self) -> NoReturn:
        raise TypeError(
            "a train has no entries to iterate over; X.cores are its cores, X.dense() its entries"
        )


class TTMatrix(_Algebra):
    """An operator on tensor trains; cores have axes (left bond, row, column, right bond)."""

    inner = 2
    kind = "train of matrices"
    __slots__ = ()

    def __repr__(self) -> str:
        return f"TTMatrix(shape={self.shape}, ranks={self.ranks})"

    @property
    def T(self) -> TTMatrix:
        """The transpose; that of the transpose is this very object."""
        found: TTMatrix = self.memo("transpose", self._transpose)
        return found

    def _transpose(self) -> TTMatrix:
        order = (0, 2, 1, 3) if self.batch is None else (0, 1, 3, 2, 4)
        made = TTMatrix([self.library.transpose(core, order) for core in self.cores])
        made.memo("transpose", lambda: self)
        made._memo["origin"] = made.version, self
        return made

    @property
    def origin(self) -> TTMatrix | None:
        """The operator that this one was made the transpose of."""
        found = self._memo.get("origin")
        return found[1] if found and found[0] == self.version else None

    @property
    def is_symmetric(self) -> bool:
        """Whether it equals its transpose, to rounding: as a whole, not core by core."""
        return bool(self.memo("symmetric", self._is_symmetric))

    def _is_symmetric(self) -> bool:
        """By random vectors: u'Av and v'Au are polynomials that differ almost everywhere, or nowhere."""
        if any(rows != columns for rows, columns in self.sizes) or self.batch is not None:
            return False
        generator = np.random.default_rng(0)
        there = back = np.ones((PROBES, 1))
        for core in map(self.library.host, self.cores):
            u, v = generator.choice([-1.0, 1.0], (2, PROBES, core.shape[1]))
            columns = np.tensordot(v, core, (1, 2)), np.tensordot(u, core, (1, 2))
            there = np.einsum("sa,saib,si->sb", there, columns[0], u)
            back = np.einsum("sa,saib,si->sb", back, columns[1], v)
            size = max(float(np.abs(there).max()), float(np.abs(back).max())) or 1.0
            there, back = there / size, back / size
        limit = 1024 * float(np.finfo(self.library.host(self.cores[0]).dtype).eps)
        return bool((np.abs(there - back) <= limit * (np.abs(there) + np.abs(back))).all())

    def __matmul__(self, other: Any) -> Any:
        if hasattr(other, "__array__"):
            raise ArgumentError("A @ x multiplies trains: take tt.from_dense(x) for an array x")
        if not isinstance(other, TensorTrain | TTMatrix):
            return NotImplemented
        same_place("a product A @ X", self, other)
        columns = tuple(size[1] for size in self.sizes)
        rows = tuple(size[0] for size in other.sizes)
        if columns != rows:
            raise ShapeError(f"A @ X: A has columns {columns}, but X has the shape {rows}")
        pattern = "...aijb,...cjd->...acibd" if other.inner == 1 else "...aijb,...cjkd->...acikbd"
        return type(other)(
            [
                _merged_bonds(other.library.einsum(pattern, a, x), other.inner)
                for a, x in zip(self.cores, other.cores, strict=True)
            ]
        )

    def dense(self) -> Array:
        """The matrix itself: rows of all positions merged, and columns."""
        flat = as_vector(self).dense()
        flat = flat.reshape([size for pair in self.sizes for size in pair])
        count = len(self)
        order = (*range(0, 2 * count, 2), *range(1, 2 * count, 2))
        rows, columns = (math.prod(size[k] for size in self.sizes) for k in (0, 1))
        return self.library.transpose(flat, order).reshape((rows, columns))

    def norm(self) -> Array:
        """The root of the sum of the squares of all entries."""
        return as_vector(self).norm()


def as_vector(matrix: TTMatrix) -> TensorTrain:
    """The entries of an operator as a train."""
    return TensorTrain(
        [
            core.reshape((*core.shape[:-3], core.shape[-3] * core.shape[-2], core.shape[-1]))
            for core in matrix.cores
        ]
    )


def dot(left: Any, right: Any) -> Any:
    """The sum of the products of entries of two trains.

    >>> from hesse import tt
    >>> print(tt.dot(tt.ones((2, 3)), tt.ones((2, 3))))
    6.0
    """
    if hasattr(left, "recorder") or hasattr(right, "recorder"):
        return (left if hasattr(left, "recorder") else right).dot(left, right)
    for name, value in (("first", left), ("second", right)):
        if not isinstance(value, TensorTrain):
            raise ArgumentError(
                f"the {name} argument of tt.dot must be a train, not a {type(value).__name__}"
            )
    _same_sizes("tt.dot", left, right)
    if is_short(left.library, left.cores) and is_short(right.library, right.cores):
        return _short_dot(left, right)
    einsum = left.library.einsum
    result = einsum("...xia,...xib->...ab", left.cores[0], right.cores[0])
    for x, y in zip(left.cores[1:], right.cores[1:], strict=True):
        result = einsum("...bic,...bid->...cd", einsum("...ab,...aic->...bic", result, x), y)
    return result[..., 0, 0]


def _short_dot(left: TensorTrain, right: TensorTrain) -> Array:
    library = left.library
    einsum = library.einsum
    with widely(library, left.cores):
        result, log_scale = einsum("xia,xib->ab", left.cores[0], right.cores[0]), 0.0
        for x, y in zip(left.cores[1:], right.cores[1:], strict=True):
            size = measured(library, abs(result).max())
            result, log_scale = result / size, log_scale + logarithm(size)
            result = einsum("bic,bid->cd", einsum("ab,aic->bic", result, x), y)
        return library.like(library.wide(result[0, 0]) * exponential(log_scale), result)[()]


def gather(train: Any, indices: Any) -> Any:
    """The entries of a train at some positions: an array with a row for each, or one array for each axis.

    >>> import numpy as np
    >>> from hesse import tt
    >>> tt.gather(tt.from_dense(np.arange(6.0).reshape(2, 3)), [[0, 1], [1, 2]]).round(12)
    array([1., 5.])

    Those of a batch are in an array with a row for each train.
    """
    if hasattr(train, "recorder"):
        return train.gather(indices)
    if not isinstance(train, TensorTrain):
        raise ArgumentError(f"tt.gather reads entries of a train, not of a {type(train).__name__}")
    columns = checked_indices(indices, train.shape)
    size = max(1, CHUNK // max(1, train.batch or 1))
    parts = [
        _gathered(train, [column[start : start + size] for column in columns])
        for start in range(0, max(1, len(columns[0])), size)
    ]
    return parts[0] if len(parts) == 1 else train.library.concatenate(parts, -1)


def _gathered(train: TensorTrain, columns: Sequence[np.ndarray]) -> Array:
    rows = train.cores[0][..., 0, :, :][..., columns[0], :]
    for core, column in zip(train.cores[1:], columns[1:], strict=True):
        rows = train.library.einsum("...sa,...asb->...sb", rows, core[..., column, :])
    return rows[..., 0]


def _same_sizes(what: str, left: Chain, right: Chain) -> None:
    same_place(what, left, right)
    if left.sizes != right.sizes:
        raise ShapeError(f"{what} of trains of the shapes {left.shape} and {right.shape}")


def _merged_bonds(core: Array, inner: int) -> Array:
    """A core with two bonds on each side, merged."""
    shape = core.shape
    batch = tuple(shape[: -inner - 4])
    left, middle, right = shape[-inner - 4 : -inner - 2], shape[-inner - 2 : -2], shape[-2:]
    return sealed(core.reshape((*batch, left[0] * left[1], *middle, right[0] * right[1])))


def _joined(left: Chain, right: Chain) -> Iterator[Array]:
    """The cores of a sum: blocks side by side, above each other, and on the diagonal."""
    library, axis, last = left.library, -left.inner - 2, len(left) - 1
    for k, (x, y) in enumerate(zip(*_one_batch(left, right), strict=True)):
        if last == 0:
            yield sealed(x + y)
        elif k == 0:
            yield sealed(library.concatenate([x, y], -1))
        elif k == last:
            yield sealed(library.concatenate([x, y], axis))
        else:
            above = library.zeros((*x.shape[:-1], y.shape[-1]), x)
            below = library.zeros((*y.shape[:-1], x.shape[-1]), y)
            rows = [library.concatenate([x, above], -1), library.concatenate([below, y], -1)]
            yield sealed(library.concatenate(rows, axis))


def _one_batch(left: Chain, right: Chain) -> tuple[list[Array], list[Array]]:
    """The cores of two chains, both with a batch axis if one of them has one."""
    batch = left.batch if left.batch is not None else right.batch
    found = []
    for chain in (left, right):
        if batch is None or chain.batch is not None:
            found.append(list(chain.cores))
        else:
            found.append([core + chain.library.zeros((batch, *core.shape), core) for core in chain.cores])
    return found[0], found[1]
