"""Problems whose derivative has a structure: interactions, attention, convolution, batches."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.speed.problem import STRUCTURE, Arrays, Problem, Sizes, generator

HEADS, HEAD_SIZE, BATCH = 4, 8, 2
WIDTH = 16
CHANNELS, KERNEL = 3, 3
MARGIN = KERNEL // 2
"""Zeros around an image whose convolution has as many entries as it has."""
CLASSES = 20


def pairs(xp: Any) -> Any:
    def f(x: Any) -> Any:
        d = x[:, None, :] - x[None, :, :]
        return xp.sum(xp.exp(-0.5 * xp.sum(d * d, axis=-1)))

    return f


def pairs_data(n: int) -> Arrays:
    return (generator(n).normal(size=(n, 3)) * 2,)


def pairs_hessian(x: np.ndarray) -> np.ndarray:
    n, d = x.shape
    w, x, diagonal = pairs_kept(x)
    difference = x[:, None, :] - x[None, :, :]
    weighted = (2 * w)[:, :, None] * difference
    dense = np.empty((n, d, n, d))
    for a in range(d):
        for b in range(d):
            np.multiply(weighted[:, :, a], difference[:, :, b], out=dense[:, a, :, b])
            if a == b:
                dense[:, a, :, a] -= 2 * w
    np.negative(dense, out=dense)
    at = np.arange(n)
    dense[at, :, at, :] += diagonal
    return dense


def pairs_kept(x: np.ndarray, xp: Any = np) -> Arrays:
    """Weights, points, diagonal blocks: `Hv` needs no more."""
    n, d = x.shape
    square = xp.sum(x * x, axis=1)
    w = xp.exp(x @ x.T - 0.5 * (square[:, None] + square))
    total, moment = w.sum(axis=1), w @ x
    second = (w @ (x[:, :, None] * x[:, None, :]).reshape(n, d * d)).reshape(n, d, d)
    cross = x[:, :, None] * moment[:, None, :]
    blocks = total[:, None, None] * (x[:, :, None] * x[:, None, :] - xp.eye(d, dtype=x.dtype))
    blocks += second - cross - xp.swapaxes(cross, 1, 2)
    return w, x, 2 * blocks


def pairs_product(kept: Arrays, v: np.ndarray, *arguments: np.ndarray) -> np.ndarray:
    w, x, diagonal = kept
    along = x @ v.T - np.sum(x * v, axis=1)  # (x_i - x_j) . v_j
    weighted = w * along
    other = x * weighted.sum(axis=1)[:, None] - weighted @ x - w @ v
    return np.matmul(diagonal, v[:, :, None])[:, :, 0] - 2 * other


def attention(xp: Any) -> Any:
    def f(Q: Any, K: Any, V: Any) -> Any:
        e = xp.exp(Q @ K.T / WIDTH**0.5)
        return (e / xp.sum(e, axis=-1, keepdims=True)) @ V

    return f


def attention_one(xp: Any) -> Any:
    def f(q: Any, K: Any, V: Any) -> Any:
        e = xp.exp(K @ q / WIDTH**0.5)
        return (e / xp.sum(e)) @ V

    return f


def attention_data(n: int) -> Arrays:
    random = generator(n)
    return tuple(random.normal(size=(n, WIDTH)) for _ in range(3))


def attention_blocks(Q: np.ndarray, K: np.ndarray, V: np.ndarray, xp: Any = np) -> np.ndarray:
    e = xp.exp(Q @ K.T / WIDTH**0.5)
    p = e / e.sum(axis=-1, keepdims=True)
    pairs = (V[:, :, None] * K[:, None, :]).reshape(len(K), -1)
    blocks = (p @ pairs).reshape(len(Q), WIDTH, WIDTH)
    blocks -= (p @ V)[:, :, None] * (p @ K)[:, None, :]
    blocks /= WIDTH**0.5
    return blocks


def attention_jacobian(Q: np.ndarray, K: np.ndarray, V: np.ndarray) -> np.ndarray:
    n = len(Q)
    dense = np.zeros((n, WIDTH, n, WIDTH))
    at = np.arange(n)
    dense[at, :, at, :] = attention_blocks(Q, K, V)
    return dense


def blocks_product(kept: np.ndarray, v: np.ndarray, *arguments: np.ndarray) -> np.ndarray:
    return np.matmul(kept, v[..., None])[..., 0]


def heads(xp: Any) -> Any:
    def f(Q: Any, K: Any, V: Any) -> Any:
        batch, n, width = Q.shape
        q, k, v = (xp.reshape(m, (batch, n, HEADS, HEAD_SIZE)) for m in (Q, K, V))
        e = xp.exp(xp.einsum("bihd,bjhd->bhij", q, k) / HEAD_SIZE**0.5)
        p = e / xp.sum(e, axis=-1, keepdims=True)
        return xp.reshape(xp.einsum("bhij,bjhd->bihd", p, v), (batch, n, width))

    return f


def heads_data(n: int) -> Arrays:
    random = generator(n)
    return tuple(random.normal(size=(BATCH, n, HEADS * HEAD_SIZE)) for _ in range(3))


def heads_blocks(Q: np.ndarray, K: np.ndarray, V: np.ndarray, xp: Any = np) -> np.ndarray:
    """Blocks by batch, head and query."""
    batch, n, _ = Q.shape
    q, k, v = (m.reshape(batch, n, HEADS, HEAD_SIZE).transpose(0, 2, 1, 3) for m in (Q, K, V))
    e = xp.exp(q @ k.transpose(0, 1, 3, 2) / HEAD_SIZE**0.5)
    p = e / e.sum(axis=-1, keepdims=True)
    pairs = (v[..., :, None] * k[..., None, :]).reshape(batch, HEADS, n, HEAD_SIZE**2)
    blocks = (p @ pairs).reshape(batch, HEADS, n, HEAD_SIZE, HEAD_SIZE)
    blocks -= (p @ v)[..., :, None] * (p @ k)[..., None, :]
    blocks /= HEAD_SIZE**0.5
    return blocks


def heads_jacobian(Q: np.ndarray, K: np.ndarray, V: np.ndarray) -> np.ndarray:
    batch, n, width = Q.shape
    dense = np.zeros((batch, n, HEADS, HEAD_SIZE, batch, n, HEADS, HEAD_SIZE))
    b, h, t = np.ogrid[:batch, :HEADS, :n]
    dense[b, t, h, :, b, t, h, :] = heads_blocks(Q, K, V)
    return dense.reshape(batch, n, width, batch, n, width)


def heads_product(kept: np.ndarray, v: np.ndarray, *arguments: np.ndarray) -> np.ndarray:
    batch, n, width = v.shape
    split = v.reshape(batch, n, HEADS, HEAD_SIZE).transpose(0, 2, 1, 3)
    return np.matmul(kept, split[..., None])[..., 0].transpose(0, 2, 1, 3).reshape(batch, n, width)


def convolution(xp: Any, margin: int = 0) -> Any:
    """By shifted slices: every namespace has them."""

    def f(x: Any, K: Any) -> Any:
        x = _with_margin(xp, x, margin)
        n = x.shape[1] - KERNEL + 1
        parts = [
            xp.einsum("oc,cyx->oyx", K[:, :, a, b], x[:, a : a + n, b : b + n])
            for a in range(KERNEL)
            for b in range(KERNEL)
        ]
        return xp.tanh(sum(parts[1:], parts[0]))

    return f


def _with_margin(xp: Any, x: Any, margin: int) -> Any:
    """An image with zeros around it."""
    return xp.pad(x, ((0, 0), (margin, margin), (margin, margin)), "constant") if margin else x


def _windows(x: np.ndarray, margin: int) -> np.ndarray:
    padded = _with_margin(np, x, margin)
    return np.lib.stride_tricks.sliding_window_view(padded, (KERNEL, KERNEL), axis=(1, 2))


def convolution_windows(xp: Any, margin: int = 0) -> Any:
    return lambda x, K: np.tanh(np.einsum("ocab,cyxab->oyx", K, _windows(x, margin)))


def convolution_jax(xp: Any, margin: int = 0) -> Any:
    from jax import lax  # noqa: PLC0415

    padding = [(margin, margin)] * 2
    return lambda x, K: xp.tanh(lax.conv_general_dilated(x[None], K, (1, 1), padding)[0])


def convolution_torch(xp: Any, margin: int = 0) -> Any:
    return lambda x, K: xp.tanh(xp.nn.functional.conv2d(x[None], K, padding=margin)[0])


def convolution_data(n: int) -> Arrays:
    random = generator(n)
    return random.normal(size=(CHANNELS, n, n)), random.normal(size=(CHANNELS, CHANNELS, KERNEL, KERNEL)) / 5


def convolution_kept(x: np.ndarray, K: np.ndarray, margin: int = 0) -> Arrays:
    windows = _windows(x, margin)
    n = windows.shape[1]
    columns = windows.transpose(0, 3, 4, 1, 2).reshape(-1, n * n)
    y = np.tanh(K.reshape(CHANNELS, -1) @ columns).reshape(CHANNELS, n, n)
    return 1 - y * y, K


def convolution_jacobian(x: np.ndarray, K: np.ndarray, margin: int = 0) -> np.ndarray:
    slope, K = convolution_kept(x, K, margin)
    n, size = slope.shape[1], x.shape[1]
    dense = np.zeros((CHANNELS, n, n, CHANNELS, size, size))
    for a in range(KERNEL):
        for b in range(KERNEL):
            row, column = np.ix_(*(np.arange(max(0, margin - k), min(n, size + margin - k)) for k in (a, b)))
            values = slope[:, row, column].transpose(1, 2, 0)[:, :, :, None] * K[:, :, a, b]
            dense[:, row, column, :, row + a - margin, column + b - margin] = values
    return dense


def convolution_product(kept: Arrays, v: np.ndarray, *arguments: np.ndarray, margin: int = 0) -> np.ndarray:
    slope, K = kept
    columns = _windows(v, margin).transpose(0, 3, 4, 1, 2).reshape(K[0].size, -1)
    return slope * (K.reshape(CHANNELS, -1) @ columns).reshape(slope.shape)


def batch(xp: Any) -> Any:
    def f(X: Any, A: Any) -> Any:
        return xp.sum(xp.log(xp.sum(xp.exp(X @ A.T), axis=1)))

    return f


def batch_one(xp: Any) -> Any:
    return lambda x, A: xp.log(xp.sum(xp.exp(A @ x)))


def batch_data(n: int) -> Arrays:
    random = generator(n)
    return random.normal(size=(n, 10)), random.normal(size=(CLASSES, 10)) / 3


def batch_blocks(X: np.ndarray, A: np.ndarray, xp: Any = np) -> np.ndarray:
    e = xp.exp(X @ A.T)
    p = e / e.sum(axis=1, keepdims=True)
    d = A.shape[1]
    mean = p @ A
    blocks = (p @ (A[:, :, None] * A[:, None, :]).reshape(-1, d * d)).reshape(-1, d, d)
    blocks -= mean[:, :, None] * mean[:, None, :]
    return blocks


def batch_hessian(X: np.ndarray, A: np.ndarray) -> np.ndarray:
    n, d = X.shape
    dense = np.zeros((n, d, n, d))
    at = np.arange(n)
    dense[at, :, at, :] = batch_blocks(X, A)
    return dense


PROBLEMS = [
    Problem(
        "pair potential",
        STRUCTURE,
        "hessian",
        pairs,
        pairs_data,
        Sizes(5, (100, 200, 500, 2000), (100, 200, 500, 1000, 2000)),
        lambda n: 3 * n * n,
        closed=pairs_hessian,
        kept=pairs_kept,
        product=pairs_product,
    ),
    Problem(
        "attention by Q",
        STRUCTURE,
        "jacobian",
        attention,
        attention_data,
        Sizes(5, (64, 128, 256, 1024), (64, 128, 256, 512, 2048)),
        lambda n: n * n,
        closed=attention_jacobian,
        kept=attention_blocks,
        product=blocks_product,
        each=attention_one,
        each_axes=(0, None, None),
    ),
    Problem(
        "multi-head attention by Q",
        STRUCTURE,
        "jacobian",
        heads,
        heads_data,
        Sizes(5, (16, 32, 64, 256), (16, 32, 64, 128, 512)),
        lambda n: BATCH * HEADS * n * n,
        closed=heads_jacobian,
        kept=heads_blocks,
        product=heads_product,
    ),
    Problem(
        "convolution and tanh",
        STRUCTURE,
        "jacobian",
        convolution,
        convolution_data,
        Sizes(6, (12, 24, 40, 200), (12, 24, 40, 56, 256)),
        lambda n: CHANNELS * n * n,
        closed=convolution_jacobian,
        kept=convolution_kept,
        product=convolution_product,
        special={"numpy": convolution_windows, "jax": convolution_jax, "torch": convolution_torch},
    ),
    Problem(
        "padded convolution and tanh",
        STRUCTURE,
        "jacobian",
        partial(convolution, margin=MARGIN),
        convolution_data,
        Sizes(6, (12, 24, 40, 200), (12, 24, 40, 56, 256)),
        lambda n: CHANNELS * n * n,
        closed=partial(convolution_jacobian, margin=MARGIN),
        kept=partial(convolution_kept, margin=MARGIN),
        product=partial(convolution_product, margin=MARGIN),
        special={
            "numpy": partial(convolution_windows, margin=MARGIN),
            "jax": partial(convolution_jax, margin=MARGIN),
            "torch": partial(convolution_torch, margin=MARGIN),
        },
    ),
    Problem(
        "batch as a sum",
        STRUCTURE,
        "hessian",
        batch,
        batch_data,
        Sizes(5, (64, 256, 512, 4096), (64, 256, 512, 1024, 4096)),
        lambda n: CLASSES * n,
        closed=batch_hessian,
        kept=batch_blocks,
        product=blocks_product,
        each=batch_one,
        each_axes=(0, None),
    ),
]
