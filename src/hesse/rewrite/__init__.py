"""Laws: algebra, functions, numerically stable forms."""

from hesse.rewrite.definitions import expanded
from hesse.rewrite.simplify import simplify

__all__ = ["expanded", "simplify"]
