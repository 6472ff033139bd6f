"""Tensor trains: tensors and operators of many axes as products of small cores."""

from hesse.tt.construct import cross, eye, from_dense, ones, random, random_matrix, rank_one
from hesse.tt.train import TensorTrain, TTMatrix, dot, gather

__all__ = [
    "TTMatrix",
    "TensorTrain",
    "cross",
    "dot",
    "eye",
    "from_dense",
    "gather",
    "ones",
    "random",
    "random_matrix",
    "rank_one",
]
