"""Systems of linear equations with a structured matrix: each method where the structure that it needs is."""

from hesse.structured.solvers.methods import solve, solver

__all__ = ["solve", "solver"]
