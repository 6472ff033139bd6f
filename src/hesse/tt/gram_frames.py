"""The frames of a train from the Gram matrices of its halves, for devices on which operations start slowly.

With `G = L Lᵀ` for the Gram matrix of what is behind each bond, the cores `L⁻¹ V L'` are orthogonal. Only
Gram matrices are found one after the other, by two products each; all triangular factors are found at once.
The first ones are shifted, so that rounding does not make them indefinite; two more passes make the frames as
orthogonal as can be, unless singular values are tiny (as of single matrices: Fukaya and others, "Shifted
CholeskyQR", 2020). A sweep of QR decompositions starts several times as many operations.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from hesse.tt.arrays import Array, Library
from hesse.tt.orthogonal import gram, times_right

PASSES = 3


class Frames(NamedTuple):
    """Cores orthogonal from the left, the links between the frames, and cores orthogonal from the right."""

    left: list[Array]
    links: list[Array]
    right: list[Array]


def serves(library: Library, cores: Sequence[Array]) -> bool:
    """Whether frames are found faster this way, and ranks are such that they may be."""
    shapes = [core.shape for core in cores]
    fits = all(left <= size * right and right <= left * size for left, size, right in shapes)
    return library.name == "torch" and library.is_wide(cores[0]) and len(cores) > 1 and fits


def frames(library: Library, cores: Sequence[Array]) -> tuple[Frames, Array]:
    """The frames, and whether they are orthogonal; no number is read on the way."""
    right, _ = _orthogonal(library, _scaled(library, list(cores)))
    size = abs(right[0]).max()
    norm = size * ((right[0] / size) ** 2).sum() ** 0.5
    turned, factors = _orthogonal(library, _turned(library, [right[0] / norm, *right[1:]]))
    left = _turned(library, turned)
    links = [*at_once(library, lambda factor: factor.mT * norm, factors[::-1]), norm.reshape((1, 1))]
    errors = library.concatenate([*_errors(library, right[1:]), *_errors(library, turned)], 0)
    eps = importlib.import_module("torch").finfo(cores[0].dtype).eps
    limit = 100.0 * max(core.shape[2] for core in cores) * eps
    return Frames(left, links, right), errors.max() < limit


def _scaled(library: Library, cores: list[Array]) -> list[Array]:
    """The same train, such that what is behind each core is of norm one: nothing overflows later."""
    behind = library.zeros((1, 1), cores[-1]) + 1.0
    traces = []
    for core in reversed(cores[1:]):
        behind = gram(core, behind)
        traces.append(library.einsum("aa->", behind)[None])
        behind = behind / traces[-1]
    sizes = library.concatenate(traces[::-1], 0) ** 0.5
    return [cores[0] * sizes.prod(), *(core / size for core, size in zip(cores[1:], sizes, strict=True))]


def _turned(library: Library, cores: Sequence[Array]) -> list[Array]:
    """The train read from its other end."""
    return [library.transpose(core, (2, 1, 0)) for core in reversed(cores)]


def _orthogonal(library: Library, cores: list[Array]) -> tuple[list[Array], list[Array]]:
    """Cores orthogonal from the right but the first; for the others the factor of orthogonal rows."""
    factors: list[Array] = []
    for number in range(PASSES):
        cores, found = _pass(library, cores, is_first=number == 0)
        factors = found if number == 0 else at_once(library, lambda a, b: a @ b, factors, found)
    return cores, factors


def _pass(library: Library, cores: list[Array], is_first: bool) -> tuple[list[Array], list[Array]]:
    """Cores that are more orthogonal, and the factor that is taken from what is behind each left bond."""
    torch = importlib.import_module("torch")
    one = library.zeros((1, 1), cores[0]) + 1.0
    grams = [one]
    for core in reversed(cores[1:]):
        grams.append(gram(core, grams[-1]))
    shift = _shift(torch, cores) if is_first else 0.0

    def lower_factor(grams: Array) -> Array:
        if shift:
            eye = torch.eye(grams.shape[-1], dtype=grams.dtype, device=grams.device)
            grams = grams + shift * library.einsum("kaa->k", grams)[:, None, None] * eye
        return torch.linalg.cholesky_ex(grams)[0]

    def divided(lower: Array, core: Array, behind: Array) -> Array:
        flat = core.reshape((*core.shape[:2], -1))
        flat = torch.linalg.solve_triangular(lower, flat, upper=False)
        return times_right(flat.reshape(core.shape), behind)

    lowers = at_once(library, lower_factor, grams[:0:-1])
    made = at_once(library, divided, lowers, cores[1:], [*lowers[1:], one])
    return [times_right(cores[0], lowers[0]), *made], lowers


def _shift(torch: Any, cores: Sequence[Array]) -> float:
    """The part of the trace of a Gram matrix that rounding may be."""
    columns = max(core.shape[0] for core in cores)
    rows = max(math.prod(core.shape[1:]) for core in cores)
    return float(5.5 * (rows + columns + 1) * columns * torch.finfo(cores[0].dtype).eps)


def _errors(library: Library, cores: Sequence[Array]) -> list[Array]:
    """How far cores are from orthogonal ones."""
    torch = importlib.import_module("torch")

    def error(core: Array) -> Array:
        rows = core.reshape((core.shape[0], core.shape[1], -1))
        eye = torch.eye(core.shape[1], dtype=core.dtype, device=core.device)
        return abs(rows @ rows.mT - eye).reshape((len(core), -1)).max(-1)[0][:, None]

    return at_once(library, error, cores)


def at_once(library: Library, function: Callable[..., Array], *columns: Sequence[Array]) -> list[Array]:
    """A function of stacks of matrices, for rows of matrices: those of equal shapes at once."""
    rows = list(zip(*columns, strict=True))
    shapes = [tuple(tuple(array.shape) for array in row) for row in rows]
    found: list[Array] = [None] * len(rows)
    for shape in dict.fromkeys(shapes):
        where = [k for k, other in enumerate(shapes) if other == shape]
        stacks = [library.concatenate([rows[k][j][None] for k in where], 0) for j in range(len(columns))]
        for k, made in zip(where, function(*stacks), strict=True):
            found[k] = made
    return found
