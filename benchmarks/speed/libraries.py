"""JAX and torch as those who write closed forms in them know them: arrays, placements, waiting."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

import numpy as np


class Library(Protocol):
    """An array library: its namespace, and what each library has its own best way for."""

    name: str
    xp: Any

    def array(self, array: np.ndarray) -> Any:
        """The array in this library."""

    def wait(self, result: Any) -> Any:
        """The result, when it is there."""

    def check(self, result: Any) -> None:
        """Raise if `wait` would not wait for a result."""

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function as this library runs what somebody wrote in it."""

    def padded(self, array: Any, *widths: tuple[int, int]) -> Any:
        """Zeros before and after the entries, for each axis."""

    def block_diagonal(self, blocks: Any, count: int) -> Any:
        """`[i, :, i, :] = blocks[i]`, or the same block everywhere."""

    def banded(self, bands: Mapping[int, Any]) -> Any:
        """A matrix with bands at some offsets from its diagonal, which is one of them."""

    def block_banded(self, bands: Mapping[int, Any]) -> Any:
        """`[i, :, i + offset, :] = bands[offset][i or i + offset]`; one offset is 0."""

    def convolved(self, x: Any, kernel: Any, margin: int) -> Any:
        """A convolution of channels, with a margin of zeros, with kernels, as nets have them."""

    def toeplitz(self, slope: Any, kernel: Any, size: int, margin: int) -> Any:
        """The matrix of a convolution of an image of a size, its rows scaled: `[o, y, x, c, Y, X]`."""


@dataclass(frozen=True)
class Jax:
    """JAX: everything is jitted, and placed by comparing positions, which XLA fuses."""

    jax: Any
    name: str = "jax"

    @property
    def xp(self) -> Any:
        """The namespace."""
        return self.jax.numpy

    def array(self, array: np.ndarray) -> Any:
        """The array in this library."""
        return self.xp.asarray(array)

    def wait(self, result: Any) -> Any:
        """The result, when it is there."""
        return self.jax.block_until_ready(result)

    def check(self, result: Any) -> None:
        """Raise if a result holds something else than arrays: `wait` would not wait for it."""
        strange = [leaf for leaf in self.jax.tree.leaves(result) if not isinstance(leaf, self.jax.Array)]
        if strange:
            raise TypeError(f"a result of JAX holds {type(strange[0]).__name__}")

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The jitted function."""
        jitted: Callable[..., Any] = self.jax.jit(function)
        return jitted

    def padded(self, array: Any, *widths: tuple[int, int]) -> Any:
        """Zeros before and after the entries, for each axis."""
        return self.xp.pad(array, (*widths, *(((0, 0),) * (array.ndim - len(widths)))))

    def block_diagonal(self, blocks: Any, count: int) -> Any:
        """`[i, :, i, :] = blocks[i]`, or the same block everywhere."""
        at = self.xp.arange(count)
        blocks = blocks[..., :, None, :]
        return self.xp.where(at[:, None, None, None] == at[:, None], blocks, 0)

    def banded(self, bands: Mapping[int, Any]) -> Any:
        """A matrix with bands at some offsets from its diagonal."""
        return self.block_banded({k: band[:, None, None] for k, band in bands.items()})[:, 0, :, 0]

    def block_banded(self, bands: Mapping[int, Any]) -> Any:
        """`[i, :, i + offset, :] = bands[offset][i or i + offset]`."""
        at = self.xp.arange(len(bands[0]))
        distance = at[:, None] - at[:, None, None, None]
        result: Any = 0
        for offset, band in bands.items():
            rows = self.padded(band, (max(-offset, 0), max(offset, 0)))[:, :, None, :]
            result = self.xp.where(distance == offset, rows, result)
        return result

    def convolved(self, x: Any, kernel: Any, margin: int) -> Any:
        """A convolution of channels with kernels."""
        return self.jax.lax.conv_general_dilated(x[None], kernel, (1, 1), [(margin, margin)] * 2)[0]

    def toeplitz(self, slope: Any, kernel: Any, size: int, margin: int) -> Any:
        """The matrix of a convolution, first along the columns, then along the rows."""
        n, width = slope.shape[1], kernel.shape[-1]
        shift = self.xp.arange(size) - self.xp.arange(n)[:, None] + margin
        along: Any = 0
        for b in range(width):  # [o, c, a, x, X]
            along = self.xp.where(shift == b, kernel[:, :, :, b, None, None], along)
        result: Any = 0
        for a in range(width):  # [o, y, x, c, Y, X]
            rows = self.xp.swapaxes(along[:, :, a], 1, 2)[:, None, :, :, None, :]
            result = self.xp.where((shift == a)[:, None, None, :, None], rows, result)
        return slope[:, :, :, None, None, None] * result


@dataclass(frozen=True)
class Torch:
    """torch: everything is run as it is written, and placed by copying into strided views."""

    xp: Any
    device: str = "cpu"
    name: str = "torch"

    def array(self, array: np.ndarray) -> Any:
        """The array in this library."""
        return self.xp.from_numpy(np.array(array, order="C")).to(self.device)

    def wait(self, result: Any) -> Any:
        """The result, when it is there."""
        if self.device != "cpu":
            self.xp.cuda.synchronize()
        return result

    def check(self, result: Any) -> None:
        """`wait` waits for everything."""

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function itself."""
        return function

    def padded(self, array: Any, *widths: tuple[int, int]) -> Any:
        """Zeros before and after the entries, for each axis."""
        pairs = [(0, 0)] * (array.ndim - len(widths)) + list(widths[::-1])
        return self.xp.nn.functional.pad(array, [width for pair in pairs for width in pair])

    def block_diagonal(self, blocks: Any, count: int) -> Any:
        """`[i, :, i, :] = blocks[i]`, or the same block everywhere."""
        k, m = blocks.shape[-2:]
        dense = blocks.new_zeros((count, k, count, m))
        dense.diagonal(dim1=0, dim2=2).copy_(blocks.expand(count, k, m).permute(1, 2, 0))
        return dense

    def banded(self, bands: Mapping[int, Any]) -> Any:
        """A matrix with bands at some offsets from its diagonal."""
        dense = bands[0].new_zeros((len(bands[0]), len(bands[0])))
        for offset, band in bands.items():
            dense.diagonal(offset).copy_(band)
        return dense

    def block_banded(self, bands: Mapping[int, Any]) -> Any:
        """`[i, :, i + offset, :] = bands[offset][i or i + offset]`."""
        count, k, m = bands[0].shape
        dense = bands[0].new_zeros((count, k, count, m))
        for offset, band in bands.items():
            dense.diagonal(offset, dim1=0, dim2=2).copy_(band.permute(1, 2, 0))
        return dense

    def convolved(self, x: Any, kernel: Any, margin: int) -> Any:
        """A convolution of channels with kernels."""
        return self.xp.nn.functional.conv2d(x[None], kernel, padding=margin)[0]

    def toeplitz(self, slope: Any, kernel: Any, size: int, margin: int) -> Any:
        """The matrix of a convolution: each entry of the kernels is a band."""
        outputs, n, _ = slope.shape
        inputs, width = kernel.shape[1:3]
        dense = slope.new_zeros((outputs, n, n, inputs, size, size))
        o, y, x, c, Y, X = dense.stride()
        values = slope[:, :, :, None, None, None] * kernel[:, None, None]
        rows = [range(max(0, margin - a), min(n, size + margin - a)) for a in range(width)]
        for a, ys in enumerate(rows):
            for b, xs in enumerate(rows):
                shape = outputs, len(ys), len(xs), inputs
                first = ys[0] * y + xs[0] * x + (ys[0] + a - margin) * Y + (xs[0] + b - margin) * X
                band = dense.as_strided(shape, (o, y + Y, x + X, c), first)
                band.copy_(values[:, ys[0] : ys[-1] + 1, xs[0] : xs[-1] + 1, :, a, b])
        return dense


def jax_library() -> Jax:
    """JAX in double precision; on a processor, it computes in the thread that asks it to.

    Else it hands programs of more than a thousand operations over to another one, which takes 5 to 25 µs,
    whatever they do. All calls are waited for here, and nothing else is done meanwhile.
    """
    jax = import_module("jax")
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    return Jax(jax)


def torch_library(device: str = "cpu") -> Torch:
    """torch on a device."""
    return Torch(import_module("torch"), device)


def as_numpy(result: Any) -> Any:
    """An array of any library, or a tuple of them, as NumPy arrays."""
    if isinstance(result, Sequence):
        return tuple(map(as_numpy, result))
    return result.cpu().numpy() if hasattr(result, "cpu") else np.asarray(result)
