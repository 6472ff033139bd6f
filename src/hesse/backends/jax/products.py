"""Products for XLA by its primitive: `jax.numpy.einsum` takes many times as long to trace."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
from jax import Array, lax

Labels = Sequence[int]


def contracted(left: Array, left_labels: Labels, right: Array, right_labels: Labels, labels: Labels) -> Array:
    """The product of two arrays by the labels of their axes, summed over labels that the result lacks."""
    both = [label for label in left_labels if label in right_labels]
    summed = sorted(label for label in both if label not in labels)
    batch = [label for label in labels if label in both]
    own = [[label for label in side if label not in both] for side in (left_labels, right_labels)]
    is_plain = left.dtype == right.dtype and len(labels) == len(batch) + len(own[0]) + len(own[1])
    if not is_plain:
        return jnp.einsum(left, left_labels, right, right_labels, labels)
    sides = [(left, left_labels), (right, right_labels)]
    if [*batch, *own[0], *own[1]] != [*labels]:
        sides.reverse()
        own.reverse()
    numbers = [[[axes.index(label) for label in group] for _, axes in sides] for group in (summed, batch)]
    product = lax.dot_general(sides[0][0], sides[1][0], tuple(numbers), preferred_element_type=left.dtype)
    made = [*batch, *own[0], *own[1]]
    return lax.transpose(product, [made.index(label) for label in labels])
