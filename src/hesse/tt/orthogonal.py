"""Sweeps of QR decompositions through rows of cores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hesse.tt.arrays import Array, Library, factored_qr


def left_orthogonal(library: Library, core: Array) -> tuple[Array, Array]:
    """A core as `Q @ C`, with columns of Q that are orthonormal."""
    *batch, left, size, right = core.shape
    q, c = library.qr(core.reshape((*batch, left * size, right)))
    return q.reshape((*batch, left, size, q.shape[-1])), c


def right_orthogonal(library: Library, core: Array) -> tuple[Array, Array]:
    """A core as `C @ Q`, with rows of Q that are orthonormal: (C, Q)."""
    *batch, left, size, right = core.shape
    q, c = library.qr(core.reshape((*batch, left, size * right)).mT)
    return c.mT, q.mT.reshape((*batch, q.shape[-1], size, right))


class Factored(NamedTuple):
    """An orthogonal core, perhaps still to be multiplied by matrices (None: not), at each of its bonds."""

    core: Array
    left: Array | None = None
    right: Array | None = None

    @property
    def waits(self) -> bool:
        """Whether there is anything to multiply by."""
        return self.left is not None or self.right is not None

    def multiplied(self) -> Array:
        """The core itself."""
        core = self.core if self.right is None else times_right(self.core, self.right)
        return core if self.left is None else times_left(self.left, core)


class Turn(NamedTuple):
    """The matrix by which a train and a frame of it differ at a bond."""

    matrix: np.ndarray
    inverse: np.ndarray | None
    """None: too many digits would be lost."""


def left_factored(core: Array, gram: Array | None = None) -> tuple[Factored, Turn]:
    """Like `left_orthogonal`, for NumPy: the core is to be multiplied at its right bond.

    The Gram matrix of its columns may be known.
    """
    left, size, right = core.shape
    q, matrix, c, inverse = factored_qr(core.reshape((left * size, right)), gram)
    return Factored(q.reshape((left, size, q.shape[-1])), None, matrix), Turn(c, inverse)


def right_factored(core: Array, gram: Array | None = None) -> tuple[Turn, Factored]:
    """Like `right_orthogonal`, for NumPy: the core is to be multiplied at its left bond.

    The Gram matrix of its rows may be known.
    """
    left, size, right = core.shape
    q, matrix, c, inverse = factored_qr(core.reshape((left, size * right)).T, gram)
    frame = Factored(q.T.reshape((q.shape[-1], size, right)), None if matrix is None else matrix.T)
    return Turn(c.T, None if inverse is None else inverse.T), frame


def times_left(matrix: Array, core: Array) -> Array:
    """A matrix times a core, along its left bond."""
    *batch, left, size, right = core.shape
    product = matrix @ core.reshape((*batch, left, size * right))
    return product.reshape((*product.shape[:-1], size, right))


def times_right(core: Array, matrix: Array) -> Array:
    """A core times a matrix, along its right bond."""
    *batch, left, size, right = core.shape
    product = core.reshape((*batch, left * size, right)) @ matrix
    return product.reshape((*product.shape[:-2], left, size, product.shape[-1]))


def centred(library: Library, cores: Sequence[Array], mu: int) -> list[Array]:
    """Cores of the same tensor, orthogonal from the left before a position and from the right behind it."""
    made = list(cores)
    for k in range(mu):
        made[k], c = left_orthogonal(library, made[k])
        made[k + 1] = times_left(c, made[k + 1])
    for k in range(len(made) - 1, mu, -1):
        c, made[k] = right_orthogonal(library, made[k])
        made[k - 1] = times_right(made[k - 1], c)
    return made


def gram(core: Array, behind: Array) -> Array:
    """The Gram matrix before a core, from that behind it."""
    rows = core.reshape((core.shape[0], -1))
    return rows @ times_right(core, behind).reshape(rows.shape).mT
