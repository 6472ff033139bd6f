"""Riemannian geometry of matrices and tensor trains of fixed rank: derivatives and manifolds."""

from hesse.manifolds.derivatives import grad, hvp, project_residual, value_and_grad
from hesse.manifolds.fixed_rank import FixedRankMatrices
from hesse.manifolds.pymanopt import to_pymanopt
from hesse.manifolds.tangent import Tangent
from hesse.manifolds.tensor_trains import TensorTrains

__all__ = [
    "FixedRankMatrices",
    "Tangent",
    "TensorTrains",
    "grad",
    "hvp",
    "project_residual",
    "to_pymanopt",
    "value_and_grad",
]
