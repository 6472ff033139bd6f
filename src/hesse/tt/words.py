"""A batch of products of vectors ("words"), times a train: one number for each, linear in the train.

Each position is multiplied by its vectors first. That gives a small matrix for each word, and nothing with
the size of the position and the number of words is formed but the derivatives themselves. The products are
stacks of such that are too small for the threads of BLAS, which take longer to wake than to multiply.

Only what passes over cores is in their type. All else is small, and in double precision: it holds the numbers
of trains in single precision that their own type does not.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from hesse.tt import rows_kernel, spread_kernel
from hesse.tt.arrays import Array
from hesse.tt.chain import Chain
from hesse.tt.forms import Form
from hesse.tt.functional import Deltas, FormFunctional
from hesse.tt.nets import Occurrence
from hesse.tt.orthogonal import Factored
from hesse.tt.point import Point, Turn
from hesse.tt.scales import exponential
from hesse.tt.threads import each
from hesse.tt.train import TensorTrain

CONDITION = 1e3
"""So many digits may be lost."""
FITTING = 300.0
"""Doubles hold numbers whose logarithms are of this size, and their products with numbers of frames."""
MODEST = 30.0
"""Sums of such numbers as its exponential fit into a short type."""


def is_of_words(form: Form, point: Point) -> bool:
    """Whether a form is that of words, with arrays of NumPy and products that need not be scaled."""
    constants = [leaf.source for leaf in form.leaves if isinstance(leaf.source, Chain)]
    is_plain = point.library.name == "numpy" and point.train.batch is None
    if not is_plain or len(form.leaves) != 2 or len(constants) != 1 or not form.slots:
        return False
    (words,) = constants
    if words.batch is None or not isinstance(words, TensorTrain) or set(words.ranks) != {1}:
        return False
    if words.batch * len(words) > sum(words.shape):  # else their matrices are smaller than the cores
        return False
    return not point.is_short or bool(words.memo("fits", lambda: _fits(words)))


def _fits(words: TensorTrain) -> bool:
    """Whether products of all words are of such sizes that doubles hold them."""
    logs = [math.log(float(abs(core).max()) * core.shape[-2] or 1.0) for core in words.cores]
    return sum(map(abs, logs)) <= FITTING


class WordsFunctional(FormFunctional):
    """Numbers `c[s] = w1[s] · … · wd[s]` applied to a train."""

    @cached_property
    def _words(self) -> list[np.ndarray]:
        """For each position the vectors of all words."""
        source = next(leaf.source for leaf in self.form.leaves if leaf.source is not Occurrence.VARIABLE)
        assert isinstance(source, Chain)
        return [core[:, 0, :, 0] for core in source.cores]

    @cached_property
    def _given(self) -> list[np.ndarray]:
        """The matrices of the cores of the train."""
        return _all_read(self._words, self.point.given)

    @cached_property
    def _matrices(self) -> list[np.ndarray]:
        """Those of the frames V. Large cores are read as they are given, if those only have to be turned."""
        if not self.point.is_large:
            return _all_read(self._words, self.point.unit.cores)
        turns = self.point.turns
        own = [k for k, turn in enumerate(turns) if turn is None]
        unit = self.point.unit.cores if own else ()
        others = iter(_all_read([self._words[k] for k in own], [unit[k] for k in own]))
        pairs = zip(self._given, turns, strict=True)
        return [next(others) if turn is None else _turned(given, turn) for given, turn in pairs]

    @cached_property
    def _behind(self) -> list[np.ndarray]:
        """For each bond what is behind it, with axes (word, bond)."""
        return _products(self._matrices)

    @cached_property
    def _inverses(self) -> list[np.ndarray | None]:
        """Those of the links, but the last; None: digits would be lost."""
        same = (np.stack([*links]) for _, links in itertools.groupby(self._links, np.shape))
        return [*itertools.chain.from_iterable(map(_inverses, same))]

    @cached_property
    def _links(self) -> list[np.ndarray]:
        return [link.astype(np.float64, copy=False) for link in self.point.unit_links[:-1]]

    @cached_property
    def _before(self) -> list[np.ndarray]:
        """For each bond but the last what is before it, with axes (word, bond).

        As `U = C V C'⁻¹` with the links on both sides, V's matrices serve again where no digits are lost.
        """
        links = self._links
        own = [k for k, inverse in enumerate(self._inverses) if inverse is None]
        left = self.point.left.cores if own else ()
        matrices = dict(
            zip(own, _all_read([self._words[k] for k in own], [left[k] for k in own]), strict=True)
        )
        found = [np.ones((len(self._words[0]), 1))]
        for k, inverse in enumerate(self._inverses):
            if inverse is None:
                found.append(np.einsum("sa,sab->sb", found[-1], matrices[k]))
            else:
                rows = found[-1] @ links[k - 1] if k else found[-1]
                found.append(np.einsum("sa,sab->sb", rows, self._matrices[k]) @ inverse)
        return found

    @property
    def value(self) -> np.ndarray:
        half = float(exponential(self.point.log_scale / 2.0))
        rows = _products(self._given) if self.point.is_large else self._behind
        return rows[0][:, 0] * half * half

    def pull(self, weights: np.ndarray) -> Deltas:
        return self._spread(weights, [None] * len(self._words))

    def projected(self, weights: np.ndarray) -> Deltas:
        return self._spread(weights, [*self.point.factors.left[:-1], None])

    def _spread(self, weights: np.ndarray, frames: Sequence[Factored | None]) -> Deltas:
        """The derivatives by each core, without their parts in frames: position by position, so that caches
        hold what was computed last.

        The part in a frame is what words and frames are before the next bond times what is behind it.
        """
        before, behind = [rows * weights[:, None] for rows in self._before], self._behind[1:]
        inside = [rows.T @ after for rows, after in zip(before[1:], behind, strict=False)]
        numbers = sum(core.size for core, _ in self.point.factors.left)
        return each(_spread, self._words, before, behind, frames, [*inside, None], numbers=numbers)

    def push(self, tangent: TensorTrain) -> np.ndarray:
        moving = zip(self._before, _all_read(self._words, tangent.cores), self._behind[1:], strict=True)
        total = np.zeros(len(self._words[0]))
        for before, matrices, behind in moving:
            total += np.einsum("sa,sab,sb->s", before, matrices, behind)
        return total


def _turned(matrices: np.ndarray, turn: Turn) -> np.ndarray:
    """What is read from a core when that is turned."""
    if turn.right is not None:
        matrices = matrices @ turn.right
    return matrices if turn.left is None else np.matmul(turn.left, matrices)


def _products(matrices: Sequence[np.ndarray]) -> list[np.ndarray]:
    """For each bond the products of the matrices behind it, with axes (word, bond)."""
    found = [np.ones((len(matrices[0]), 1))]
    for own in reversed(matrices):
        found.append(np.einsum("sab,sb->sa", own, found[-1]))
    return found[::-1]


def _all_read(words: Sequence[np.ndarray], cores: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Cores times the vectors of each word, with axes (word, left bond, right bond)."""
    return each(_read, words, cores, numbers=sum(core.size for core in cores))


def _read(words: Array, core: Array) -> Array:
    """A core times vectors at its position: a stack of products for its left bond."""
    if core.shape[2] == 1:
        return (words @ core[:, :, 0].T)[:, :, None].astype(np.float64, copy=False)
    if rows_kernel.serves(core.dtype, core.shape[2], core.size * len(words)):
        return rows_kernel.read(words, core).transpose(2, 0, 1).astype(np.float64, copy=False)
    return (words @ core).transpose(1, 0, 2).astype(np.float64, copy=False)


def _spread(
    words: Array, before: Array, behind: Array, frame: Factored | None, inside: Array | None
) -> Array:
    """The sum over words of the products of what is before, at and behind a position.

    Without its part in a frame, which is the frame times `inside`, where that is known.
    """
    matrices, size = before.T[:, :, None] * behind, 1.0
    if words.dtype != matrices.dtype:
        matrices, size = _of_type(words.dtype, matrices)
    core = None
    if frame is not None and inside is not None:
        core, matrix = frame
        inside = ((inside if matrix is None else matrix @ inside) / size).astype(core.dtype, copy=False)
    delta = _combined(words, matrices, core, inside)
    return delta if size == 1.0 else (delta.astype(np.float64) * size).astype(delta.dtype)


def _combined(words: Array, matrices: Array, core: Array | None, inside: Array | None) -> Array:
    """Words times matrices, less a core times what is inside of it."""
    if spread_kernel.serves(words, matrices):
        return spread_kernel.spread(words, matrices, core, inside)
    delta = words.T @ matrices
    if core is not None:
        delta -= core @ inside
    return delta


def _of_type(dtype: Any, numbers: np.ndarray) -> tuple[np.ndarray, float]:
    """Numbers in a short type, and by what they were divided for that."""
    size = float(abs(numbers).max()) or 1.0
    if abs(math.log(size)) < MODEST:
        return numbers.astype(dtype), 1.0
    return (numbers / size).astype(dtype), size


def _inverses(links: np.ndarray) -> list[np.ndarray | None]:
    """Those of matrices whose condition is small."""
    try:
        found = np.linalg.inv(links)
    except np.linalg.LinAlgError:  # one of them has none
        return [None] if len(links) == 1 else [*itertools.chain.from_iterable(map(_inverses, links[:, None]))]
    conditions = np.linalg.norm(links, axis=(1, 2)) * np.linalg.norm(found, axis=(1, 2))
    return [own if fits else None for own, fits in zip(found, conditions <= CONDITION, strict=True)]
