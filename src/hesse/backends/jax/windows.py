"""Sums over windows of an array: convolutions with small kernels."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Sequence

import jax.numpy as jnp
from jax import Array, lax

from hesse.backends.jax.machine import JaxMachine
from hesse.backends.jax.runtime import Coefficients, affine_view, starting_points
from hesse.backends.text import digits_of
from hesse.plan.program import Contract, Program, Ref, View, sources

Labels = tuple[int, ...]


def summed_windows(
    windows: tuple[Array, tuple[int, ...], Coefficients, tuple[int, ...]],
    own: Labels,
    kernel: Array,
    others: Labels,
    labels: Labels,
    most_pieces: int,
) -> Array:
    """The product of windows and a kernel, by their labels, summed over those that are not in `labels`.

    The windows are given as the arguments of `affine_view`. Each position that is summed over is a slice of
    the array times an entry of the kernel: XLA adds them up in one loop, and the windows are never stored.
    """
    array, offsets, strides, shape = windows
    loop = [k for k, label in enumerate(own) if label not in labels]
    kept = [k for k in range(len(own)) if k not in loop]
    rows, widths = tuple([strides[k] for k in kept]), tuple([shape[k] for k in kept])
    terms = []
    for start, position in starting_points(offsets, strides, shape, loop):
        at = dict(zip([own[k] for k in loop], position, strict=True))
        entry = kernel[tuple([at.get(label, slice(None)) for label in others])]
        window = affine_view(array, start, rows, widths, most_pieces)
        factors = (window, [own[k] for k in kept]), (entry, [label for label in others if label not in at])
        terms.append(functools.reduce(lax.mul, jnp.broadcast_arrays(*(_along(*f, labels) for f in factors))))
    return functools.reduce(lax.add, terms)


def _along(array: Array, own: Sequence[int], labels: Labels) -> Array:
    """An array with its axes in the order of some labels, with axes of one entry for those it lacks."""
    order = [own.index(label) for label in labels if label in own]
    missing = [k for k, label in enumerate(labels) if label not in own]
    return lax.expand_dims(lax.transpose(array, order), missing)


def windows_of(program: Program, machine: JaxMachine) -> dict[Ref, Ref]:
    """For products that are summed over a few positions of windows: the view, which nothing else reads."""
    reads = Counter(ref for item in program.instructions for ref in sources(item))
    reads.update(program.results)
    found = {}
    for k, item in enumerate(program.instructions):
        if isinstance(item, Contract):
            for ref, own, others in (
                (item.left, item.left_labels, item.right_labels),
                (item.right, item.right_labels, item.left_labels),
            ):
                if reads[ref] == 1 and _is_summed(program, ref, own, others, item, machine):
                    found[k] = ref
    return found


def _is_summed(
    program: Program, ref: Ref, own: Labels, others: Labels, item: Contract, machine: JaxMachine
) -> bool:
    view = program.instructions[ref]
    if not isinstance(view, View) or not _has_windows(view, program.shapes[view.source]):
        return False
    sizes = dict(zip(own, program.shapes[ref], strict=True))
    other = item.left if ref == item.right else item.right
    kernel = dict(zip(others, program.shapes[other], strict=True))
    kept = {view.labels[k] for k, label in enumerate(own) if label in item.labels}
    return (
        all(label in own or label in item.labels for label in others)
        and all(sum(label in kept for label, _ in axis.terms) < 2 for axis in view.axes)
        and math.prod(sizes[label] for label in own if label not in item.labels) <= machine.most_pieces
        and math.prod(kernel[label] for label in others if label not in own) <= machine.small_matrix
    )


def _has_windows(view: View, shape: tuple[int, ...]) -> bool:
    """Whether labels overlap: those that are digits of a position, as heads inside of channels, do not."""
    return any(
        digits_of(axis, view.ranges, size) is None for axis, size in zip(view.axes, shape, strict=True)
    )
