"""Products of overlapping windows with a kernel, as XLA's convolutions: no window is copied.

On a processor that takes half of the time, to compile and to run, if the kernel has few features: for many of
them a product of matrices is faster.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain, islice
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from hesse.plan.program import Contract, Program, Ref, View, sources

Labels = tuple[int, ...]
Read = tuple[int, tuple[tuple[int, int], ...]]
"""Where the entries of an axis begin, and labels with strides: one, none, or those of rows and of windows."""

MOST_AXES = 3
"""Axes with windows that XLA's convolutions are fast for."""


class Convolution(NamedTuple):
    """A product of a value, read through windows, with a kernel; all labels are those of the product."""

    value: Ref
    kernel: Ref
    reads: tuple[Read, ...]
    kernel_labels: Labels
    labels: Labels

    def arguments(self, shape: tuple[int, ...]) -> str:
        """Those of `convolved` besides the arrays, for a result of a shape."""
        return ", ".join(map(str, (self.reads, self.kernel_labels, self.labels, shape)))


def convolutions(program: Program, most_features: int, most_pieces: int) -> dict[Ref, Convolution]:
    """The products of a program that are convolutions with a small kernel, by the numbers of the products."""
    found = {}
    for k, item in enumerate(program.instructions):
        if not isinstance(item, Contract):
            continue
        sides = [(item.left, item.left_labels), (item.right, item.right_labels)]
        for (view, labels), (kernel, kernel_labels) in (sides, sides[::-1]):
            made = _convolution(program, (view, labels), (kernel, kernel_labels), item.labels)
            if made is not None and _is_small(program, made, most_features, most_pieces):
                found[k] = made
                break
    return found


def unread(program: Program, found: dict[Ref, Convolution]) -> set[Ref]:
    """The windows that nothing but convolutions reads."""
    readers: dict[Ref, list[Ref]] = {ref: [len(program.instructions)] for ref in program.results}
    for k, item in enumerate(program.instructions):
        for source in sources(item):
            readers.setdefault(source, []).append(k)

    def is_skipped(ref: Ref, k: Ref) -> bool:
        return k in found and ref != found[k].kernel

    views = {ref for k in found for ref in sources(program.instructions[k]) if ref != found[k].kernel}
    return {ref for ref in views if all(is_skipped(ref, k) for k in readers[ref])}


def _convolution(
    program: Program, windows: tuple[Ref, Labels], kernel: tuple[Ref, Labels], labels: Labels
) -> Convolution | None:
    view = program.instructions[windows[0]]
    if not isinstance(view, View) or windows[0] == kernel[0]:
        return None
    named = dict(zip(view.labels, windows[1], strict=True))
    all_terms = [[(named[label], stride) for label, stride in axis.terms] for axis in view.axes]
    used = [label for terms in all_terms for label, _ in terms]
    kept, inside = set(labels), set(kernel[1])
    alone = (set(used) ^ inside) - kept  # summed in one of the two only
    if sorted(used) != sorted(windows[1]) or alone or kept & inside & set(used):
        return None
    reads: list[Read] = []
    for axis, terms in zip(view.axes, all_terms, strict=True):
        if len(terms) == 2:
            terms.sort(key=lambda term: term[0] in inside)
            if terms[0][0] in inside or terms[1][0] not in inside:
                return None
        if len(terms) > 2 or any(stride < 0 for _, stride in terms):
            return None
        reads.append((axis.offset, tuple(terms)))
    return Convolution(view.source, kernel[0], tuple(reads), kernel[1], labels)


def _is_small(program: Program, made: Convolution, most_features: int, most_pieces: int) -> bool:
    sizes = dict(zip(made.kernel_labels, program.shapes[made.kernel], strict=True))
    windows = [terms[1][0] for _, terms in made.reads if len(terms) == 2]
    features = math.prod(sizes[label] for label in made.kernel_labels if label in made.labels)
    pieces = math.prod(sizes[label] for label in windows)
    return 1 <= len(windows) <= MOST_AXES and features <= most_features and pieces <= most_pieces


def convolved(
    value: Array,
    kernel: Array,
    reads: Sequence[Read],
    kernel_labels: Labels,
    labels: Labels,
    shape: tuple[int, ...],
) -> Array:
    """The product of windows of a value with a kernel: see `Convolution`; `shape` is that of the result."""
    sizes = dict(zip(kernel_labels, kernel.shape, strict=True)) | dict(zip(labels, shape, strict=True))
    windowed = [terms for _, terms in reads if len(terms) == 2]
    rows, windows = ([terms[k][0] for terms in windowed] for k in (0, 1))
    strides, dilation = ([terms[k][1] for terms in windowed] for k in (0, 1))
    features = [label for label in kernel_labels if label in labels]
    summed = [label for label in kernel_labels if label not in labels and label not in windows]
    batch = [label for label in labels if label not in features and label not in rows]

    value, order = _cut(value, reads, sizes)
    value = _merged(value, order, [batch, summed], rows)
    kernel = _merged(kernel, kernel_labels, [features, summed], windows)
    dtype = jnp.result_type(value, kernel)
    value, kernel = (lax.convert_element_type(array, dtype) for array in (value, kernel))
    product = lax.conv_general_dilated(value, kernel, strides, "VALID", rhs_dilation=dilation)
    order = [*batch, *features, *rows]
    product = lax.reshape(product, [sizes[label] for label in order])
    return lax.transpose(product, [order.index(label) for label in labels])


def _cut(value: Array, reads: Sequence[Read], sizes: Mapping[int, int]) -> tuple[Array, list[int]]:
    """What is read of a value, and the labels of its axes: those of rows where there are windows."""
    starts = [offset for offset, _ in reads]
    reach = [sum(stride * (sizes[label] - 1) for label, stride in terms) for _, terms in reads]
    stops = [start + last + 1 for start, last in zip(starts, reach, strict=True)]
    steps = [terms[0][1] if len(terms) == 1 else 1 for _, terms in reads]
    whole = lax.slice(value, starts, stops, steps)
    fixed = [axis for axis, (_, terms) in enumerate(reads) if not terms]
    return lax.squeeze(whole, fixed), [terms[0][0] for _, terms in reads if terms]


def _merged(
    array: Array, labels: Sequence[int], groups: Sequence[Sequence[int]], rest: Sequence[int]
) -> Array:
    """An array with one axis for each group of labels, and the others after them."""
    array = lax.transpose(array, [labels.index(label) for label in (*chain(*groups), *rest)])
    sizes = iter(array.shape)
    shape = [math.prod(islice(sizes, len(group))) for group in groups]
    return lax.reshape(array, (*shape, *sizes))
