"""Many products that are small matrices, such as the blocks of pairs of points: each is a few long sums.

A dot would copy its operands for matrices of a few entries. As sums one after the other, each would read
anew what is multiplied, and each addition would wait for the one before. So all entries of a matrix are
summed in one loop, which XLA fuses with what computes the operands.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping

import jax
import jax.numpy as jnp
from jax import Array, lax

from hesse.backends.jax.machine import JaxMachine
from hesse.backends.jax.processor import is_processor
from hesse.backends.jax.products import Labels, contracted, part, positions
from hesse.plan.program import Contract


def is_small(item: Contract, sizes: Mapping[int, int], machine: JaxMachine) -> bool:
    """Whether a product is many matrices of few entries."""
    both = set(item.left_labels) & set(item.right_labels)
    entries = math.prod(sizes[label] for label in set(item.labels) - both)
    return bool(both & set(item.labels)) and entries <= machine.small_matrix


def summed_in_one_loop(item: Contract, sizes: Mapping[int, int], machine: JaxMachine) -> int:
    """How many products are summed for all entries of such matrices in one loop; 0: it is not done so."""
    both = set(item.left_labels) & set(item.right_labels)
    is_product = both.union(item.labels) == {*item.left_labels, *item.right_labels}
    is_long = math.prod(sizes[label] for label in both - set(item.labels)) > machine.short_sum
    if not (is_product and is_long and is_small(item, sizes, machine) and is_processor()):
        return 0
    products = math.prod(sizes.values())
    is_matrix = any(sizes[label] > 1 for label in set(item.labels) - both)
    return products if is_matrix and products >= machine.long_loop else 0


@functools.partial(jax.custom_jvp, nondiff_argnums=(2, 3, 4))
def small_products(
    left: Array, right: Array, left_labels: Labels, right_labels: Labels, labels: Labels
) -> Array:
    """The products, whose own labels are entries of small matrices; operands may be of the same array."""
    sizes = dict(zip(left_labels, left.shape, strict=True)) | dict(
        zip(right_labels, right.shape, strict=True)
    )
    own = [label for label in labels if label not in left_labels or label not in right_labels]
    batch = [label for label in labels if label not in own]
    over = [label for label in left_labels if label in right_labels and label not in labels]
    factors = [
        tuple(part(*side, [*batch, *over], at) for side in ((left, left_labels), (right, right_labels)))
        for at in positions(own, sizes)
    ]
    axes, zero = range(len(batch), len(batch) + len(over)), jnp.zeros((), left.dtype)
    operands, starts = [lax.mul(*pair) for pair in factors], [zero] * len(factors)
    entries = lax.reduce(operands, starts, lambda x, y: [a + b for a, b in zip(x, y, strict=True)], axes)
    stacked = jnp.stack(entries, -1).reshape([sizes[label] for label in (*batch, *own)])
    return lax.transpose(stacked, [[*batch, *own].index(label) for label in labels])


@small_products.defjvp  # type: ignore[untyped-decorator]
def _small_products_jvp(
    left_labels: Labels,
    right_labels: Labels,
    labels: Labels,
    values: tuple[Array, Array],
    tangents: tuple[Array, Array],
) -> tuple[Array, Array]:
    """Its derivatives are products as JAX knows them, which it transposes."""

    def product(left: Array, right: Array) -> Array:
        return contracted(left, left_labels, right, right_labels, labels)

    (left, right), (by_left, by_right) = values, tangents
    result = small_products(left, right, left_labels, right_labels, labels)
    return result, product(by_left, right) + product(left, by_right)
