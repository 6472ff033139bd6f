"""Pure JAX source for a program: XLA fuses what NumPy is told line by line."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np

from hesse.backends.jax import elementwise, records
from hesse.backends.jax.runtime import affine_view, place
from hesse.backends.kernels import Kernel
from hesse.backends.text import Dialect, affine_text, placed_labels, tuple_text
from hesse.backends.writer import FunctionalWriter
from hesse.plan.program import Combine, Contract, Placed, Program, Ref, View

SMALL_MATRIX = 16
"""Many products that are matrices of at most so many entries are multiplied and summed, which XLA fuses."""
JAX = Dialect("jnp", permute="transpose", total="jnp.sum", has_negative_steps=False)


class JaxWriter(FunctionalWriter):
    """Writes a program over `jax.numpy`."""

    dialect = JAX

    def __init__(self, program: Program, dtype: np.dtype[Any]) -> None:
        super().__init__(program)
        self.dtype = dtype
        self.namespace |= {"jnp": jnp, "dtype": dtype, "affine_view": affine_view, "place": place}

    def literal(self, value: np.ndarray) -> Any:
        return value if value.dtype.kind in "iu" else np.asarray(value, self.dtype)

    def view(self, item: View, name: str, shape: tuple[int, ...]) -> str:
        text = JAX.indexed(item, name, shape)
        return text or f"affine_view({name}, {affine_text(item.axes, item.labels, item.ranges)})"

    def contract(self, item: Contract, left: str, right: str) -> str:
        sizes = self.sizes(item)
        sides = set(item.left_labels) ^ set(item.right_labels)
        batch = set(item.left_labels) & set(item.right_labels) & set(item.labels)
        if batch and math.prod(sizes[label] for label in sides) <= SMALL_MATRIX:
            return JAX.multiplied_and_summed(item, left, right)
        return JAX.einsum(item, left, right)

    def combine(self, k: Ref, item: Combine) -> None:
        shape = self.program.shapes[k]
        terms = [(term, self.names[term.source]) for term in item.terms]
        dense = [(term, name) for term, name in terms if term.is_dense(shape)]
        parts = [JAX.dense_sum(dense)] if dense else []
        if dense and item.repeats(shape):
            parts = [f"jnp.broadcast_to({parts[0]}, {tuple_text(shape)})"]
        parts += [self._placed(term, name, shape) for term, name in terms if not term.is_dense(shape)]
        self.set(k, " + ".join(parts) if parts else f"jnp.zeros({tuple_text(shape)}, dtype)")

    def _placed(self, term: Placed, name: str, shape: tuple[int, ...]) -> str:
        labels = placed_labels(term)
        value = JAX.aligned(name, term.labels, labels)
        value = value if term.factor == 1 else f"{term.factor!r} * {value}"
        return f"place({value}, {affine_text(term.output, labels, term.ranges)}, {tuple_text(shape)})"

    def elementwise(self, name: str) -> Kernel:
        return elementwise.kernel(name)

    def record(self, name: str) -> Kernel:
        return records.kernel(name)
