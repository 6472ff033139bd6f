"""A picture of the structure: which entries of the matrix view each term touches.

The picture is a raster of at most `PIXELS` squared cells, computed from the patterns alone: every label is
sampled finely enough that no cell between two samples is missed, and nothing of the matrix' size is made.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from hesse.backends.optional import optional
from hesse.ir import Axis, Node, Product, labels_of, number
from hesse.structured.patterns import count, matrix_axes, products, written
from hesse.structured.terms import core_shape, pattern_text

if TYPE_CHECKING:
    from hesse.structured.tensor import Structured

PIXELS = 400
"""Largest number of cells on a side."""

COLOURS = ("#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7", "#a463f2", "#97bbf5", "#9c6b4e")
"""One for each term, then again from the first."""

MOST_BLOCKS = 40
"""Lines between the blocks of the first axis are drawn up to this many blocks."""

LEGEND_ENTRIES = 12
"""Terms beyond these are only counted in the legend."""


def raster(node: Node, rank: int, pixels: int = PIXELS) -> np.ndarray:
    """For each cell of the matrix view the term that is drawn there, or -1: small terms lie on large ones."""
    rows, columns = count(node.shape[: node.rank - rank]), count(node.shape[node.rank - rank :])
    cells = np.full((min(rows, pixels), min(columns, pixels)), -1)
    terms = products(node)
    for k in sorted(range(len(terms)), key=lambda k: -written(terms[k])):
        row, column = matrix_axes(terms[k], node.shape, rank)
        scales = (len(cells) / rows, cells.shape[1] / columns)
        cells[_cells(terms[k], row, column, scales)] = k
    return cells


def _cells(
    term: Product, row: Axis, column: Axis, scales: tuple[float, float]
) -> tuple[np.ndarray, np.ndarray]:
    """The cells that a term touches, some of them repeatedly."""
    labels = sorted(labels_of((row, column)))
    positions = [np.full((1,) * len(labels), axis.offset) for axis in (row, column)]
    strides = dict(row.terms), dict(column.terms)
    for k, label in enumerate(labels):
        size = number(term.ranges[label])
        step = max(abs(s.get(label, 0)) * scale for s, scale in zip(strides, scales, strict=True))
        samples = min(size, math.ceil(2 * size * step) + 2)
        values = np.unique(np.linspace(0, size - 1, samples).round().astype(np.int64))
        values = values.reshape([-1 if m == k else 1 for m in range(len(labels))])
        positions = [old + s.get(label, 0) * values for old, s in zip(positions, strides, strict=True)]
    down, across = (
        (position * scale + 1e-9).astype(int) for position, scale in zip(positions, scales, strict=True)
    )
    down, across = np.broadcast_arrays(down, across)
    return down.ravel(), across.ravel()


def plot(tensor: Structured, ax: Any = None) -> Any:
    """Draw the raster with a legend of patterns, on new axes where none are given."""
    colors = optional("matplotlib.colors", "plot")
    rank, node = tensor.groups[-1], tensor.node
    if ax is None:
        height = 6.7 + 0.12 * min(len(products(node)), LEGEND_ENTRIES)
        _, ax = optional("matplotlib.pyplot", "plot").subplots(figsize=(6.0, height), layout="constrained")
    rows, columns = count(node.shape[: node.rank - rank]), count(node.shape[node.rank - rank :])
    cells, terms = raster(node, rank), products(node)
    palette = ["white", *(COLOURS[k % len(COLOURS)] for k in range(len(terms)))]
    ax.imshow(
        cells + 1,
        cmap=colors.ListedColormap(palette),
        vmin=-0.5,
        vmax=len(palette) - 0.5,
        extent=(0, columns, rows, 0),
        interpolation="nearest",
        aspect="equal" if max(rows, columns) <= 4 * min(rows, columns) else "auto",
    )
    _lines(tensor.shape[: node.rank - rank], rows, ax.axhline)
    _lines(tensor.shape[node.rank - rank :], columns, ax.axvline)
    ax.locator_params(nbins=6, integer=True)
    ax.set_title(f"{rows} × {columns}" + (f", axes {tensor.shape}" if tensor.ndim > 2 else ""))
    ax.xaxis.tick_top()
    _legend(ax, terms, palette)
    return ax


def _lines(shape: tuple[int, ...], size: int, line: Any) -> None:
    """Lines between the blocks of the first axis, where there are few."""
    if len(shape) > 1 and 1 < shape[0] <= MOST_BLOCKS:
        for k in range(1, shape[0]):
            line(k * size / shape[0], color="0.8", linewidth=0.5, zorder=1.5)


def _legend(ax: Any, terms: tuple[Product, ...], palette: list[str]) -> None:
    patches = optional("matplotlib.patches", "plot")
    handles = [
        patches.Patch(color=palette[k + 1], label=_description(term))
        for k, term in enumerate(terms[:LEGEND_ENTRIES])
    ]
    if len(terms) > LEGEND_ENTRIES:
        handles.append(patches.Patch(color="white", label=f"and {len(terms) - LEGEND_ENTRIES} more"))
    if handles:
        place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.02)}
        ax.legend(handles=handles, ncols=1 if len(handles) < 4 else 2, frameon=False, **place)


def _description(term: Product) -> str:
    """The pattern, the core and how often it is repeated."""
    core = core_shape(term.axes, term.output, term.ranges)
    copies = written(term) // math.prod(core)
    kept = f"{len(term.operands)} factors, core" if len(term.operands) > 1 else "core"
    what = f"{kept} {core}" if term.operands else f"constant {term.scale:g}"
    return f"{pattern_text(term.output)}: {what}" + (f", {copies} times" if copies > 1 else "")
