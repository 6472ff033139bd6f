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

from hesse.tt import rows_kernel
from hesse.tt.arrays import Array
from hesse.tt.chain import Chain
from hesse.tt.forms import Form
from hesse.tt.functional import Deltas, FormFunctional
from hesse.tt.nets import Occurrence
from hesse.tt.orthogonal import Factored, Turn
from hesse.tt.point import Point
from hesse.tt.scales import exponential
from hesse.tt.spread_kernel import Part, spread
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
        return [core[:, 0, :, 0] for core in self._source.cores]

    @cached_property
    def _source(self) -> Chain:
        source = next(leaf.source for leaf in self.form.leaves if leaf.source is not Occurrence.VARIABLE)
        assert isinstance(source, Chain)
        return source

    @cached_property
    def _columns(self) -> list[np.ndarray]:
        """The same in the order in memory in which large cores are read: kept, since all points read them."""
        if not self.point.is_large:
            return self._words
        found: list[np.ndarray] = self._source.memo(
            "columns", lambda: [np.asarray(rows, order="F") for rows in self._words]
        )
        return found

    @cached_property
    def _given(self) -> list[np.ndarray]:
        """The matrices of the cores of the train, if they are large; else those of the frames V."""
        point = self.point
        return point.read(_read, self._columns, point.given if point.is_large else point.unit.cores)

    @cached_property
    def _products(self) -> list[np.ndarray]:
        """For each bond what is behind it of these, with axes (word, bond)."""
        found = [np.ones((len(self._words[0]), 1))]
        for own in reversed(self._given):
            found.append(np.einsum("sab,sb->sa", own, found[-1]))
        return found[::-1]

    @cached_property
    def _behind(self) -> list[np.ndarray]:
        """For each bond but the first what the frames V are behind it: what the train is, turned.

        No large core is read again, but those where too many digits would be lost; before these, products of
        what was read may have lost them, too.
        """
        if not self.point.is_large:
            return self._products[1:]
        turns = self._wide(self.point.turns.right)
        own = self._read_again("unit", [k for k, turn in enumerate(turns, 1) if turn.inverse is None])
        found = [self._products[-1]]
        for k in range(len(turns), 0, -1):
            inverse = turns[k - 1].inverse
            if inverse is None:
                found.append(np.einsum("sab,sb->sa", own[k], found[-1]))
            elif any(place > k for place in own):
                rows = np.einsum("sab,sb->sa", self._given[k], found[-1] @ turns[k].matrix.T)
                found.append(rows @ inverse.T)
            else:
                found.append(self._products[k] @ inverse.T)
        return found[::-1]

    @cached_property
    def _before(self) -> list[np.ndarray]:
        """For each bond but the last what the frames U are before it, with axes (word, bond).

        Those of small cores are `C V C'⁻¹` with the links on both sides.
        """
        point = self.point
        turns = self._wide(point.turns.left) if point.is_large else _inverted(point.unit_links[:-1])
        own = self._read_again("left", [k for k, turn in enumerate(turns) if turn.inverse is None])
        found = [np.ones((len(self._words[0]), 1))]
        rows = found[0]
        for k, turn in enumerate(turns):
            if turn.inverse is None:
                found.append(np.einsum("sa,sab->sb", found[-1], own[k]))
                rows = found[-1] @ turn.matrix
            else:
                rows = np.einsum("sa,sab->sb", rows, self._given[k])
                found.append(rows @ turn.inverse)
        return found

    def _wide(self, turns: Sequence[Turn]) -> Sequence[Turn]:
        """In double precision."""
        if not self.point.is_short:
            return turns
        return [
            Turn(matrix.astype(np.float64), None if inverse is None else inverse.astype(np.float64))
            for matrix, inverse in turns
        ]

    def _read_again(self, frame: str, places: Sequence[int]) -> dict[int, np.ndarray]:
        """The matrices of some cores of a frame, which are multiplied out for it."""
        cores = getattr(self.point, frame).cores if places else ()
        found = _all_read([self._columns[k] for k in places], [cores[k] for k in places])
        return dict(zip(places, found, strict=True))

    @property
    def value(self) -> np.ndarray:
        half = float(exponential(self.point.log_scale / 2.0))
        return self._products[0][:, 0] * half * half

    def pull(self, weights: np.ndarray) -> Deltas:
        return self._spread(weights, [None] * len(self._words))

    def projected(self, weights: np.ndarray) -> Deltas:
        return self._spread(weights, [*self.point.factors.left[:-1], None])

    def _spread(self, weights: np.ndarray, frames: Sequence[Factored | None]) -> Deltas:
        """The derivatives by each core, without their parts in frames: position by position, so that caches
        hold what was computed last.

        The part in a frame is what words and frames are before the next bond times what is behind it.
        """
        before, behind = [rows * weights[:, None] for rows in self._before], self._behind
        inside = [rows.T @ after for rows, after in zip(before[1:], behind, strict=False)]
        numbers = sum(factored.core.size for factored in self.point.factors.left)
        return each(_spread, self._words, before, behind, frames, [*inside, None], numbers=numbers)

    def push(self, tangent: TensorTrain) -> np.ndarray:
        moving = zip(self._before, _all_read(self._columns, tangent.cores), self._behind, strict=True)
        total = np.zeros(len(self._words[0]))
        for before, matrices, behind in moving:
            total += np.einsum("sa,sab,sb->s", before, matrices, behind)
        return total


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
    size = 1.0
    if words.dtype != before.dtype:
        # of a word that is tiny before a position and huge behind it, only the product fits the short type
        sizes = abs(before).max(axis=1, keepdims=True)
        sizes[sizes == 0.0] = 1.0
        before = (before / sizes).astype(words.dtype)
        behind, size = _of_type(words.dtype, behind * sizes)
    part = Part(words, before, behind, None, None)
    if frame is not None and inside is not None:
        core, _, matrix = frame
        inside = ((inside if matrix is None else matrix @ inside) / size).astype(core.dtype, copy=False)
        part = part._replace(frame=core, inside=inside)
    delta = spread(part) if part.is_served else _combined(part)
    return delta if size == 1.0 else (delta.astype(np.float64) * size).astype(delta.dtype)


def _combined(part: Part) -> Array:
    """The same without a kernel."""
    delta: Array = part.words.T @ (part.before.T[:, :, None] * part.behind)
    if part.frame is not None:
        delta -= part.frame @ part.inside
    return delta


def _of_type(dtype: Any, numbers: np.ndarray) -> tuple[np.ndarray, float]:
    """Numbers in a short type, and by what they were divided for that."""
    size = float(abs(numbers).max()) or 1.0
    if abs(math.log(size)) < MODEST:
        return numbers.astype(dtype), 1.0
    return (numbers / size).astype(dtype), size


def _inverted(links: Sequence[np.ndarray]) -> list[Turn]:
    """Links with their inverses; those of equal shapes are inverted at once."""
    wide = [link.astype(np.float64, copy=False) for link in links]
    same = (np.stack([*group]) for _, group in itertools.groupby(wide, np.shape))
    return [*map(Turn, wide, itertools.chain.from_iterable(map(_inverses, same)))]


def _inverses(links: np.ndarray) -> list[np.ndarray | None]:
    """Those of matrices whose condition is small."""
    try:
        found = np.linalg.inv(links)
    except np.linalg.LinAlgError:  # one of them has none
        return [None] if len(links) == 1 else [*itertools.chain.from_iterable(map(_inverses, links[:, None]))]
    conditions = np.linalg.norm(links, axis=(1, 2)) * np.linalg.norm(found, axis=(1, 2))
    return [own if fits else None for own, fits in zip(found, conditions <= CONDITION, strict=True)]
