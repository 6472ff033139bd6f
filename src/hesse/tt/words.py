"""A batch of products of vectors ("words"), times a train: one number for each, linear in the train.

Each position is multiplied by its vectors first. That gives a small matrix for each word, and nothing with
the size of the position and the number of words is formed but the derivatives themselves. The products are
stacks of such that are too small for the threads of BLAS, which take longer to wake than to multiply.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from hesse.tt.arrays import Array
from hesse.tt.chain import Chain
from hesse.tt.forms import Form
from hesse.tt.functional import Deltas, FormFunctional
from hesse.tt.nets import Occurrence
from hesse.tt.point import Point, without_frame
from hesse.tt.threads import each
from hesse.tt.train import TensorTrain

CONDITION = 1e3
"""So many digits may be lost."""


def is_of_words(form: Form, point: Point) -> bool:
    """Whether a form is that of words, with arrays of NumPy that need not be scaled."""
    constants = [leaf.source for leaf in form.leaves if isinstance(leaf.source, Chain)]
    is_plain = point.library.name == "numpy" and not point.is_short and point.train.batch is None
    if not is_plain or len(form.leaves) != 2 or len(constants) != 1 or not form.slots:
        return False
    (words,) = constants
    if words.batch is None or not isinstance(words, TensorTrain) or set(words.ranks) != {1}:
        return False
    return words.batch * len(words) <= sum(words.shape)  # their matrices are smaller than the cores


class WordsFunctional(FormFunctional):
    """Numbers `c[s] = w1[s] · … · wd[s]` applied to a train."""

    @cached_property
    def _words(self) -> list[np.ndarray]:
        """For each position the vectors of all words."""
        source = next(leaf.source for leaf in self.form.leaves if leaf.source is not Occurrence.VARIABLE)
        assert isinstance(source, Chain)
        return [core[:, 0, :, 0] for core in source.cores]

    @cached_property
    def _matrices(self) -> list[np.ndarray]:
        """Those of the frames V."""
        return _all_read(self._words, self.point.right.cores)

    @cached_property
    def _behind(self) -> list[np.ndarray]:
        """For each bond what is behind it, with axes (word, bond)."""
        found = [np.ones((len(self._words[0]), 1), self.point.left.dtype)]
        for matrices in reversed(self._matrices):
            found.append(np.einsum("sab,sb->sa", matrices, found[-1]))
        return found[::-1]

    @cached_property
    def _before(self) -> list[np.ndarray]:
        """For each bond but the last what is before it, with axes (word, bond).

        As `U = C V C'⁻¹` with the links on both sides, V's matrices serve again where no digits are lost.
        """
        left, links = self.point.left.cores, self.point.links[:-1]
        inverses = [*map(_inverse, links)]
        own = [k for k, inverse in enumerate(inverses) if inverse is None]
        matrices = dict(
            zip(own, _all_read([self._words[k] for k in own], [left[k] for k in own]), strict=True)
        )
        found = [np.ones((len(self._words[0]), 1), self.point.left.dtype)]
        for k, inverse in enumerate(inverses):
            if inverse is None:
                found.append(np.einsum("sa,sab->sb", found[-1], matrices[k]))
            else:
                rows = found[-1] @ links[k - 1] if k else found[-1]
                found.append(np.einsum("sa,sab->sb", rows, self._matrices[k]) @ inverse)
        return found

    @property
    def value(self) -> np.ndarray:
        return self._behind[0][:, 0]

    def pull(self, weights: np.ndarray) -> Deltas:
        return self._spread(weights, [None] * len(self._words))

    def projected(self, weights: np.ndarray) -> Deltas:
        return self._spread(weights, [*self.point.left.cores[:-1], None])

    def _spread(self, weights: np.ndarray, frames: Sequence[np.ndarray | None]) -> Deltas:
        """The derivatives by each core, without their parts in frames: position by position, so that caches
        hold what was computed last.
        """
        before = [rows * weights[:, None] for rows in self._before]
        numbers = sum(core.size for core in self.point.left.cores)
        return each(_spread, self._words, before, self._behind[1:], frames, numbers=numbers)

    def push(self, tangent: TensorTrain) -> np.ndarray:
        moving = zip(self._before, _all_read(self._words, tangent.cores), self._behind[1:], strict=True)
        total = np.zeros_like(self.value)
        for before, matrices, behind in moving:
            total += np.einsum("sa,sab,sb->s", before, matrices, behind)
        return total


def _all_read(words: Sequence[np.ndarray], cores: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Cores times the vectors of each word, with axes (word, left bond, right bond)."""
    return each(_read, words, cores, numbers=sum(core.size for core in cores))


def _read(words: Array, core: Array) -> Array:
    """A core times vectors at its position: a stack of products for its left bond."""
    if core.shape[2] == 1:
        return (words @ core[:, :, 0].T)[:, :, None]
    return (words @ core).transpose(1, 0, 2)


def _spread(words: Array, before: Array, behind: Array, frame: Array | None) -> Array:
    """The sum over words of the products of what is before, at and behind a position."""
    delta = words.T @ (before.T[:, :, None] * behind)
    return delta if frame is None else without_frame(frame, delta)


def _inverse(link: np.ndarray) -> np.ndarray | None:
    """That of a matrix whose condition is small."""
    try:
        found = np.linalg.inv(link)
    except np.linalg.LinAlgError:
        return None
    return found if np.linalg.norm(link) * np.linalg.norm(found) <= CONDITION else None
