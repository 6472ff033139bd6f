"""Integer tensors that serve as indices.

An `Index` keeps an integer node and, for each entry of a view of it, its position in the node, so that the
view is applied to what was gathered. Where integers are computed with, the view becomes a node.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hesse.ir import Constant, Node, Shape
from hesse.ops import integers


@dataclass(frozen=True)
class Index:
    """The entries `positions` of the flattened integer `node` (None: the node as it is)."""

    node: Node
    positions: np.ndarray | None = None

    @property
    def shape(self) -> Shape:
        """The shape of the view."""
        return self.node.shape if self.positions is None else self.positions.shape

    @property
    def is_whole(self) -> bool:
        """Whether the view is all of the node in its order, perhaps in another shape."""
        return self.positions is None or np.array_equal(self.positions.ravel(), self._all().ravel())

    @property
    def known(self) -> np.ndarray | None:
        """The entries, where they are known now."""
        if not isinstance(self.node, Constant):
            return None
        return self.node.value if self.positions is None else self.node.value.ravel()[self.positions]

    def restructured(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Index | None:
        """The view after a NumPy function that moves entries; None where sizes are symbols."""
        if any(isinstance(size, str) for size in self.node.shape):
            return None
        # Counted from 1, so that a 0 is an entry that the function has put there (np.diag, np.tril).
        moved = np.asarray(function(self.explicit_positions() + 1, *arguments, **options)) - 1
        if (moved >= 0).all():
            return Index(self.node, moved)
        chosen = integers.entries(self.node, integers.integers(np.maximum(moved, 0)))
        return Index(integers.times(integers.integers(moved >= 0), chosen))

    def as_node(self) -> Node:
        """The view as an integer node."""
        if self.positions is None:
            return self.node
        return integers.entries(self.node, integers.integers(self.positions))

    def broadcast(self, shape: Shape) -> Index:
        """The view repeated into a shape."""
        if shape == self.shape:
            return self
        return Index(self.node, np.broadcast_to(self.explicit_positions(), shape))  # type: ignore[arg-type]

    def explicit_positions(self) -> np.ndarray:
        """`positions`, also for the node as it is."""
        return self._all() if self.positions is None else self.positions

    @property
    def count(self) -> int:
        """Number of entries of the node."""
        return math.prod(self.node.shape)  # type: ignore[arg-type]

    def _all(self) -> np.ndarray:
        return np.arange(self.count).reshape(self.node.shape)  # type: ignore[arg-type]
