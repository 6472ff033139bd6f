"""The manifold of matrices of fixed rank: trains with two positions."""

from __future__ import annotations

from hesse.errors import ShapeError
from hesse.manifolds.tensor_trains import TensorTrains
from hesse.tt.arrays import Array
from hesse.tt.train import TensorTrain


class FixedRankMatrices(TensorTrains):
    """Matrices `left @ right.T` of a fixed rank. Everything stays factored.

    >>> import hesse
    >>> M = hesse.manifolds.FixedRankMatrices(30, 20, rank=4)
    >>> X = M.random_point(rng=0)
    >>> X.left.shape, X.right.shape, X.dense().shape, M.dimension
    ((30, 4), (20, 4), (30, 20), 184)
    """

    def __init__(self, m: int, n: int, rank: int) -> None:
        super().__init__((m, n), rank)

    @staticmethod
    def from_factors(left: Array, right: Array) -> TensorTrain:
        """The matrix `left @ right.T`."""
        if len(left.shape) != 2 or len(right.shape) != 2 or left.shape[1] != right.shape[1]:
            raise ShapeError(
                "factors are matrices with one number of columns, not of shapes "
                f"{tuple(left.shape)} and {tuple(right.shape)}"
            )
        return TensorTrain([left[None], right.T[:, :, None]])
