"""Dense matrices: the last resort, of tensors without structure and of methods that lose too many digits."""

from __future__ import annotations

from hesse.backends.target import Array, DType, Target
from hesse.structured.base import Patterns
from hesse.structured.formulas import whole
from hesse.structured.patterns import count
from hesse.structured.solvers.systems import Solver, solve_matrices

DENSE_INSTEAD = 5000
"""Up to this many unknowns the dense system is solved where another method loses too many digits."""


def damped(target: Target, matrices: Array, damping: float, dtype: DType) -> Array:
    """The fresh matrices with the damping on their diagonals."""
    (typed,) = target.converted([matrices], [dtype])
    return target.algebra.add_to_diagonal(typed, damping) if damping else typed


def dense(tensor: Patterns, damping: float) -> Solver:
    """The whole matrix."""
    size = count(tensor.node.shape[: tensor.groups[-1]])

    def solve(right: Array) -> Array:
        matrix = damped(tensor.target, tensor.run(whole).reshape(size, size), damping, right.dtype)
        return solve_matrices(tensor.target.algebra, matrix, right.reshape(size, -1)).reshape(right.shape)

    return Solver("dense", solve)


def else_dense(method: Solver, tensor: Patterns, damping: float) -> Solver:
    """The method, and the dense matrix where it gives nan that can be seen."""
    xp = tensor.target.algebra
    if xp.raises or count(tensor.node.shape[: tensor.groups[-1]]) > DENSE_INSTEAD:
        return method

    def solve(right: Array) -> Array:
        solution = method.solve(right)
        if xp.is_hidden(solution) or xp.isfinite(solution).all():
            return solution
        return dense(tensor, damping).solve(right)

    return method._replace(solve=solve)
