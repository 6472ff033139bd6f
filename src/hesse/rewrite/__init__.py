"""Laws: algebra, functions, numerically stable forms."""

from hesse.rewrite.simplify import simplify

__all__ = ["simplify"]
