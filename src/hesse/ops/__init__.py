"""Tables of operations: element-wise, linear algebra, structural. Importing this package fills them."""

from hesse.ops import elementwise, integers, linalg, normalization, reshaping, spectra, structural
from hesse.ops.registry import ELEMENTWISE, OPERATIONS, General, Linear

__all__ = [
    "ELEMENTWISE",
    "OPERATIONS",
    "General",
    "Linear",
    "elementwise",
    "integers",
    "linalg",
    "normalization",
    "reshaping",
    "spectra",
    "structural",
]
