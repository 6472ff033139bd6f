"""Expressions as code: a complete function in NumPy, PyTorch, JAX, MATLAB, Julia or C++ (Eigen)."""

from hesse.export.code import export
from hesse.export.languages import LANGUAGES

__all__ = ["LANGUAGES", "export"]
