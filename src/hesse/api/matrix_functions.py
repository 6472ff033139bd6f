"""Functions of matrices that are solutions of equations: `sqrtm` and `logm`."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from hesse.api.implicit import Residual, root
from hesse.errors import ArgumentError
from hesse.frontends.special import expm


def sqrtm(a: Any) -> Any:
    """The principal square root of a matrix, X with `X @ X = a`, differentiable to any order.

    >>> import numpy as np, hesse
    >>> print(hesse.sqrtm(np.array([[4.0, 0.0], [0.0, 9.0]])) + 0.0)
    [[2. 0.]
     [0. 3.]]
    """
    return root(lambda x, a: x @ x - a, np.eye(_size("sqrtm", a)), a, solver=_root_of)


def logm(a: Any) -> Any:
    """The principal logarithm of a matrix, X with `expm(X) = a`, differentiable to any order.

    >>> import numpy as np, hesse
    >>> a = np.array([[0.1, 0.2], [0.3, 0.4]])
    >>> bool(np.allclose(hesse.logm(hesse.expm(a)), a))
    True
    """
    return root(lambda x, a: expm(x) - a, np.zeros((_size("logm", a),) * 2), a, solver=_logarithm_of)


def _size(name: str, a: Any) -> int:
    shape = np.shape(a)
    if len(shape) != 2 or shape[0] != shape[1]:
        raise ArgumentError(f"{name} needs a square matrix, not the shape {shape}")
    return int(shape[0])


def _root_of(residual: Residual, x0: np.ndarray) -> Any:
    return _computed("sqrtm", -residual(np.zeros_like(x0)))


def _logarithm_of(residual: Residual, x0: np.ndarray) -> Any:
    return _computed("logm", np.eye(len(x0)) - residual(x0))


def _computed(name: str, a: np.ndarray) -> np.ndarray:
    found = np.asarray(getattr(importlib.import_module("scipy.linalg"), name)(a))
    if np.iscomplexobj(found) and np.abs(found.imag).max(initial=0.0) > 1e-10 * np.abs(found).max(
        initial=1.0
    ):
        raise ArgumentError(f"{name}: the matrix has no real one; its eigenvalues must not be negative")
    return found.real
