"""Expressions as code: a complete function in NumPy, PyTorch, JAX, MATLAB, Julia or C++ (Eigen)."""

from hesse.export.code import LANGUAGES, export

__all__ = ["LANGUAGES", "export"]
