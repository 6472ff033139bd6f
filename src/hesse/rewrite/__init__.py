"""Laws: algebra, functions, numerically stable forms."""

from hesse.rewrite.definitions import by_definitions, expanded
from hesse.rewrite.selections import selecting
from hesse.rewrite.simplify import simplify

__all__ = ["by_definitions", "expanded", "selecting", "simplify"]
