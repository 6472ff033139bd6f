"""Functions of torch tensors whose graphs are walked: by name, the shapes of the leaves, and the order."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

S, M, V = (2, 3), (3, 3), (3,)
SCALAR: tuple[int, ...] = ()


class Case(NamedTuple):
    """A function and the shapes of its arguments; another one of the same values where torch is wrong."""

    function: Callable[..., Tensor]
    shapes: tuple[tuple[int, ...], ...]
    order: int = 3
    reference: Callable[..., Tensor] | None = None


def _data(*shape: int) -> Tensor:
    count = int(torch.Size(shape).numel())
    return (torch.linspace(0.3, 2.0, count, dtype=torch.float64) * 7.0).sin().reshape(shape)


C, K, MASK = _data(2, 3), _data(3, 3), _data(2, 3) > 0.1
POSITIVE, SIGNS, V_BIAS, ONES = C.abs() + 0.5, C.sign(), _data(3), torch.ones(3, dtype=torch.float64)
TARGETS = torch.tensor([0, 2, 1])
SHIFT = 2.0 * torch.eye(3, dtype=torch.float64)


BAGS, OFFSETS, SAMPLES = (
    torch.tensor([0, 1, 1, 2]),
    torch.tensor([0, 2, 2]),
    torch.full((1, 1, 2), 0.4).double(),
)


def _bags(w: Tensor, mode: str) -> Tensor:
    bags = F.embedding_bag(BAGS, w, torch.tensor([0, 2, 2, 4]), mode=mode, include_last_offset=True)
    return bags + F.embedding_bag(BAGS, w, OFFSETS, mode=mode, padding_idx=0)


def _bags_by_hand(w: Tensor, mode: str) -> Tensor:
    combine: Callable[[Tensor], Tensor] = {
        "sum": lambda rows: rows.sum(0),
        "mean": lambda rows: rows.mean(0),
        "max": lambda rows: rows.amax(0),
    }[mode]
    rows = combine(w[[0, 1]]) + combine(w[[1]])
    return torch.stack([rows, 0.0 * w[0], 2.0 * combine(w[[1, 2]])])


def _process(covariance: Tensor) -> Tensor:
    """The likelihood of a Gaussian process."""
    factor = torch.linalg.cholesky(covariance)
    fit = torch.linalg.solve_triangular(factor, V_BIAS[:, None], upper=False).square().sum()
    return fit + factor.diagonal().log().sum() + V_BIAS @ torch.linalg.solve(covariance, V_BIAS)


def _attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    weights = torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, -1)
    return weights @ v


def _masked_attention(x: Tensor) -> Tensor:
    scores = x @ x.mT / x.shape[-1] ** 0.5
    allowed = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    return torch.softmax(torch.where(allowed, scores, -torch.inf), -1) @ x


def _layer_norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    mean = x.mean(-1, keepdim=True)
    return (x - mean) / torch.sqrt(((x - mean) ** 2).mean(-1, keepdim=True) + 1e-5) * w + b


def _tanh_gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)))


def _mlp(x: Tensor, w: Tensor, b: Tensor, v: Tensor) -> Tensor:
    return torch.tanh(F.linear(x, w, b)) @ v


def _diamonds(x: Tensor) -> Tensor:
    for _ in range(14):
        x = torch.sin(x) + torch.cos(x)
    return x.sum()


def _recurrence(x: Tensor, w: Tensor) -> Tensor:
    state = x[0] * 0.0
    for row in x:
        state = torch.tanh(state @ w + row)
    return state


def _split_and_join(x: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return torch.cat([first * second.tanh(), second, C[:, :1]], -1) ** 2


CASES: dict[str, Case] = {
    # right-hand sides that follow from solutions
    "solve for a constant": Case(lambda x: torch.linalg.solve(x @ x.mT + SHIFT, V_BIAS), (M,), 2),
    "solve for constant columns": Case(lambda x: torch.linalg.solve(x @ x.mT + SHIFT, K), (M,), 2),
    "solve from the right for a constant": Case(
        lambda x: torch.linalg.solve(x @ x.mT + SHIFT, C, left=False), (M,), 2
    ),
    "solve for a batch of constants": Case(
        lambda x: torch.linalg.solve(x @ x.mT + SHIFT, C), ((2, 3, 3),), 2
    ),
    "Cayley transform": Case(lambda x: torch.linalg.solve(SHIFT + x @ x.mT, SHIFT - x), (M,), 2),
    "lower triangle and a constant": Case(
        lambda x: torch.linalg.solve_triangular(x + SHIFT, K, upper=False), (M,), 2
    ),
    "unit triangle from the right": Case(
        lambda x: torch.linalg.solve_triangular(x, C + x[:2], upper=True, left=False, unitriangular=True),
        (M,),
        2,
    ),
    "cholesky_solve for a constant": Case(
        lambda x: torch.cholesky_solve(K, torch.linalg.cholesky(x @ x.mT + SHIFT)), (M,), 2
    ),
    "Gaussian process": Case(
        lambda a, b: _process(torch.exp(-((K[:, None] - K).square().sum(-1)) * a**2) + (1 + b**2) * SHIFT),
        (SCALAR, SCALAR),
    ),
    # what is kept of other operations
    "round to decimals": Case(lambda x: torch.sin(torch.round(x, decimals=1) + x), (S,)),
    "scatter_reduce": Case(lambda x, y: x.scatter_reduce(0, TARGETS, y, "prod") ** 2, (V, V)),
    "index_reduce": Case(lambda x, y: x.index_reduce(0, TARGETS[:2] // 2, y, "amax") ** 2, (M, S), 2),
    "incomplete gamma function": Case(lambda x: torch.special.gammainc(ONES[0], x**2 + 1), (S,)),
    "median of all": Case(lambda x: torch.nanmedian(x) ** 3, (S,)),
    # what the reference package gets wrong
    "x * x": Case(lambda x: x * x, (S,)),
    "x @ x": Case(lambda x: x @ x, (M,)),
    "softmax": Case(lambda x: torch.softmax(x, -1), (S,)),
    "softmax along the first axis": Case(lambda x: torch.softmax(x, 0), (S,)),
    "log_softmax": Case(lambda x: torch.log_softmax(x, -1), ((1, 3),), 4),
    "prod": Case(lambda x: x.prod(), (S,)),
    "prod along an axis": Case(lambda x: x.prod(1), (S,)),
    "repeat": Case(lambda x: x.repeat(2, 2) ** 3, ((2, 2),)),
    "3-cycle": Case(lambda x: x.permute(1, 2, 0) * x, ((2, 2, 2),)),
    "addmm": Case(lambda a, x, w: torch.addmm(a, x, w, beta=0.5, alpha=2.0).sin(), (V, S, M), 2),
    "tanh gelu": Case(lambda x: F.gelu(x, approximate="tanh"), (S,), 3, _tanh_gelu),
    "selu": Case(F.selu, (S,)),
    "x + sigmoid(x @ w)": Case(lambda x, w: x + torch.sigmoid(x @ w), (S, M)),
    "square attention": Case(_attention, (M, M, M), 2),
    "attention": Case(_attention, (S, (4, 3), (4, 2)), 2),
    "self-attention": Case(lambda x: _attention(x, x, x), (S,)),
    "batched attention": Case(lambda x, k: _attention(x, k, k), ((2, 2, 2), (2, 3, 2)), 2),
    "layer norm by hand": Case(_layer_norm, (S, V, V)),
    "x[-1]": Case(lambda x: x[-1] ** 3, (S,)),
    "0-dim leaves": Case(lambda x, a, b: torch.tanh(a * x + b) / a, (S, SCALAR, SCALAR)),
    "0-dim leaf alone": Case(lambda a: torch.stack([a.sin(), a * a, a.exp()]), (SCALAR,), 4),
    "diamonds": Case(_diamonds, (V,), 2),
    # constants that autograd does not keep
    "sin(x - c)": Case(lambda x: torch.sin(x - C), (S,)),
    "tanh(1 - x)": Case(lambda x: torch.tanh(1 - x), (S,)),
    "exp of a shifted mean": Case(lambda x: torch.exp(2.0 - (x + C).mean(-1)), (S,)),
    "softmax of shifted": Case(lambda x: torch.softmax(x @ K + C, -1), (S,)),
    "log_softmax of shifted": Case(lambda x: torch.log_softmax(x - C, 0), (S,)),
    "relu of shifted": Case(lambda x: torch.relu(x + C) ** 3, (S,)),
    "sigmoid of shifted twice": Case(lambda x: torch.sigmoid(x + C) * torch.cos(x + C + 1.0), (S,)),
    "sqrt of shifted": Case(lambda x: torch.sqrt(x * x + 1.0) + torch.rsqrt(x**2 + POSITIVE), (S,)),
    "reciprocal of shifted": Case(lambda x: 1 / (x**2 + 3.0), (S,)),
    "masked_scatter": Case(lambda x, y: x.masked_scatter(MASK, y * y) ** 2, (S, M), 2),
    "masked_scatter of a row": Case(lambda x, y: x.masked_scatter(MASK, y.sin()) * y[:2], (V, M), 2),
    "masked_scatter of a constant": Case(lambda x: x.sin().masked_scatter(MASK, K) ** 3, (S,), 2),
    "masked_scatter into a constant": Case(lambda x: C.masked_scatter(MASK, x.sin()) ** 3, (M,), 2),
    "affine_grid": Case(lambda x: F.affine_grid(x, [1, 1, 2, 3], align_corners=False) ** 3, ((1, 2, 3),), 2),
    "max_unpool2d": Case(
        lambda x: F.max_unpool2d(*F.max_pool2d(x**2, 2, return_indices=True), 2) ** 2, ((1, 1, 4, 4),), 2
    ),
    "pdist": Case(
        lambda x: torch.pdist(x) ** -2, (M,), 2, lambda x: (x[[0, 0, 1]] - x[[1, 2, 2]]).square().sum(1) ** -1
    ),
    "masked_fill": Case(lambda x: torch.sin(x.masked_fill(MASK, 0.7)) * x, (S,)),
    "where with a constant": Case(lambda x: torch.exp(torch.where(MASK, x, C)), (S,)),
    "cat with a constant": Case(lambda x: torch.cos(torch.cat([x, C, K], 0)), (S,)),
    "stack with a constant": Case(lambda x: torch.stack([x, C]).exp(), (S,)),
    "constant bias": Case(lambda x, w: torch.tanh(F.linear(x, w, V_BIAS)), (S, M)),
    "constant broadcast": Case(lambda x: torch.exp(x[0] * 0.3 + C), (S,)),
    "chain of shifts": Case(lambda x: torch.sin(torch.sin(torch.sin(x + 1) + 2) + 3), (S,)),
    "tan of shifted": Case(lambda x: torch.tan(0.3 * x + 0.1), (S,)),
    "expm1, exp2 of shifted": Case(lambda x: torch.expm1(x + 0.5) * torch.exp2(x - 0.5), (S,)),
    "x % c": Case(lambda x: torch.sin(torch.remainder(x, 0.7)) + torch.fmod(x, 0.9) ** 2, (S,)),
    "frac": Case(lambda x: x.frac() ** 3, (S,)),
    # element-wise
    "polynomial": Case(lambda x: 3 * x**3 - x**2 / 2 + x, (S,)),
    "x ** y": Case(lambda x, y: (x.abs() + 0.5) ** y, (S, S)),
    "2 ** x": Case(lambda x: 2**x, (S,)),
    "x / y": Case(lambda x, y: x / (y.exp() + 1), (S, V)),
    "exp, log": Case(lambda x: torch.log(torch.exp(x) + 1), (S,)),
    "log1p, expm1": Case(lambda x: torch.log1p(x**2) * torch.expm1(x), (S,)),
    "log2, log10": Case(lambda x: torch.log2(x**2 + 1) + torch.log10(x**2 + 2), (S,)),
    "trigonometric": Case(lambda x: x.sin() * x.cos() + x.tan(), (S,)),
    "hyperbolic": Case(lambda x: x.sinh() * x.cosh() + x.tanh(), (S,)),
    "inverse trigonometric": Case(lambda x: (0.4 * x).asin() + (0.4 * x).acos() ** 2 + x.atan() ** 2, (S,)),
    "inverse hyperbolic": Case(lambda x: x.asinh() * (x**2 + 1.5).acosh() + (0.3 * x).atanh() ** 2, (S,)),
    "atan2": Case(torch.atan2, (S, S)),
    "hypot": Case(torch.hypot, (S, S)),
    "logaddexp": Case(torch.logaddexp, (S, S)),
    "xlogy": Case(lambda x, y: torch.xlogy(x, y.exp()), (S, S)),
    "erf, erfc": Case(lambda x: x.erf() * x.erfc(), (S,)),
    "lgamma": Case(lambda x: torch.lgamma(x.exp()), (S,)),
    "digamma": Case(lambda x: torch.digamma(x.exp()), (S,), 2),
    "abs": Case(lambda x: x.abs() * x, (S,)),
    "maximum, minimum": Case(lambda x, y: torch.maximum(x, y) * torch.minimum(x, y) ** 2, (S, S)),
    "clamp": Case(lambda x: x.clamp(-0.5, 0.6) ** 3 * x, (S,)),
    "clamp_min": Case(lambda x: x.clamp(min=0.1) ** 2 + x.clamp(max=0.2) ** 3, (S,)),
    "sign, floor": Case(lambda x: x.sign() * x**2 + x.floor() * x, (S,)),
    "reciprocal": Case(lambda x: torch.reciprocal(x**2 + 1), (S,)),
    "addcmul, addcdiv": Case(
        lambda x, y, z: torch.addcmul(x, y, z, value=2.0) ** 2 + torch.addcdiv(x, y, z.exp(), value=0.5),
        (V, V, V),
    ),
    "lerp": Case(lambda x, y, t: torch.lerp(x, y, t) ** 2 + torch.lerp(x, y, 0.3), (V, V, V)),
    "rsub": Case(lambda x, y: torch.rsub(x, y, alpha=2) ** 3, (S, V)),
    "sub with alpha": Case(
        lambda x, y: torch.sub(x, y, alpha=3) ** 2 + torch.add(x, y, alpha=2) ** 3, (S, S)
    ),
    # activations
    "relu": Case(lambda x: torch.relu(x) * x**2, (S,)),
    "leaky_relu": Case(lambda x: F.leaky_relu(x, 0.1) * x, (S,)),
    "elu": Case(lambda x: F.elu(x, 0.7), (S,)),
    "celu": Case(lambda x: F.celu(x, 0.75), (S,)),
    "silu": Case(F.silu, (S,)),
    "gelu": Case(F.gelu, (S,)),
    "softplus": Case(lambda x: F.softplus(x, 2.0), (S,)),
    "mish": Case(F.mish, (S,)),
    "softsign": Case(F.softsign, (S,)),
    "logsigmoid": Case(F.logsigmoid, (S,)),
    "hardtanh": Case(lambda x: F.hardtanh(x) * x**2, (S,)),
    "prelu": Case(lambda x, a: F.prelu(x, a) ** 2, (S, V)),
    "glu": Case(F.glu, ((2, 4),)),
    "threshold": Case(lambda x: F.threshold(x, 0.1, 0.3) ** 3, (S,)),
    # products and sums
    "linear": Case(lambda x, w, b: F.linear(x, w, b).sin(), (S, M, V), 2),
    "linear on a batch": Case(lambda x, w, b: F.linear(x, w, b).sin(), ((2, 1, 3), (2, 3), (2,)), 2),
    "two layers": Case(_mlp, (S, M, V, V), 2),
    "mv": Case(lambda x, v: torch.tanh(x @ v), (S, V)),
    "dot": Case(lambda x, y: torch.dot(x, y) ** 3, (V, V)),
    "outer": Case(lambda x, y: torch.outer(x, y).sin(), (V, (2,))),
    "bmm": Case(lambda x, y: torch.bmm(x, y) ** 2, ((2, 1, 2), (2, 2, 1))),
    "baddbmm": Case(
        lambda a, x, y: torch.baddbmm(a, x, y, alpha=2.0).exp(), ((2, 1, 1), (2, 1, 2), (2, 2, 1)), 2
    ),
    "einsum": Case(lambda x, w: torch.einsum("ij,jk,ik->i", x, w, x), (S, M)),
    "matmul with a constant": Case(lambda x: (x @ K) ** 3, (S,)),
    "tensordot, kron": Case(
        lambda x, y: torch.kron(x, y) * torch.tensordot(x, y, 1).sum(), ((2, 2), (2, 2)), 2
    ),
    "sum along axes": Case(lambda x: x.sum(-1, keepdim=True) ** 2 * x + x.sum(0) ** 3, (S,)),
    "mean, var": Case(lambda x: x.mean() ** 2 * x.mean(-1) + x.var(-1) ** 2, (S,)),
    "std": Case(lambda x: x.std(-1) * x.std(), (S,), 2),
    "var_mean": Case(lambda x: torch.mul(*torch.var_mean(x, 1)), (S,)),
    "norm": Case(lambda x: x.norm() * x.norm(dim=-1), (S,)),
    "logsumexp": Case(lambda x: x.logsumexp(-1) ** 2, (S,)),
    "cumsum, cumprod": Case(lambda x: x.cumsum(1) ** 2 * x.cumprod(1), (S,)),
    "trace": Case(lambda x: (x @ x).trace() ** 2, ((2, 2),)),
    "cosine_similarity": Case(F.cosine_similarity, (S, S), 2),
    "normalize": Case(lambda x: F.normalize(x, dim=-1), (S,)),
    # moving entries
    "reshape": Case(lambda x: x.reshape(3, 2) @ x.view(2, 3) ** 2, (S,)),
    "transposes": Case(lambda x: x.t() @ x.transpose(0, 1).mT.sin(), (S,)),
    "slices": Case(lambda x: x[:, 1:] * x[:, :-1] ** 2 + x[0, ::2], (S,)),
    "unsqueeze, squeeze": Case(lambda x: (x[None] * x.unsqueeze(1)).squeeze() ** 2, ((1, 3),)),
    "expand": Case(lambda x: x[0].expand(2, 3) * x**2, (S,)),
    "split, unbind": Case(lambda x: torch.mul(*x.split(1, 0)) + x.unbind(0)[1] ** 3, (S,)),
    "chunk, cat": Case(_split_and_join, ((2, 2),)),
    "stack": Case(lambda x, y: torch.stack([x, y, x * y], 1) ** 2, (V, V)),
    "flip, roll": Case(lambda x: x.flip(0) * x.roll(1, -1) ** 2, (S,)),
    "tril, triu": Case(lambda x: x.tril() @ x.triu(1), (M,), 2),
    "diagonals": Case(lambda x: torch.diag(x.diagonal() ** 2) @ x + torch.diag_embed(x), ((2, 2),)),
    "repeat_interleave": Case(lambda x: x.repeat_interleave(2, 0) ** 3, (S,)),
    "movedim": Case(lambda x: x.movedim(0, 2) ** 2 @ x.sin(), ((2, 2, 2),)),
    # losses and models
    "mse_loss": Case(lambda x, y: F.mse_loss(x.sin(), y), (S, S)),
    "l1_loss": Case(lambda x: F.l1_loss(x**2, C), (S,)),
    "huber_loss": Case(lambda x, y: F.huber_loss(x**2, y, delta=0.4), (S, S)),
    "smooth_l1_loss": Case(lambda x: F.smooth_l1_loss(x**2, C, beta=0.3), (S,)),
    "kl_div": Case(lambda x: F.kl_div(x.log_softmax(-1), POSITIVE, reduction="batchmean"), (S,)),
    "logistic loss": Case(lambda x: F.binary_cross_entropy_with_logits(x, MASK.double()), (S,)),
    "binary cross entropy": Case(lambda x: F.binary_cross_entropy(x.sigmoid(), MASK.double()), (S,)),
    "residual": Case(lambda x, w: x + torch.relu(x + torch.tanh(x @ w)) ** 2, (S, M), 2),
    "recurrence": Case(_recurrence, (S, M), 2),
    "pair potential": Case(lambda x: (1 / ((x[:, None] - x[None, :]).square().sum(-1) + 0.5)).sum(), (S,)),
    "rosenbrock": Case(lambda x: (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum(), ((4,),), 4),
    "shared in two places": Case(lambda x, y: (x * y).sin() + (x * y).cos() * x, (S, S)),
    "unused output of a node": Case(lambda x: torch.var_mean(x, 1)[1] ** 2, (S,)),
    "dropout": Case(lambda x: F.dropout(x, 0.5, training=False).sin(), (S,)),
    "layer_norm": Case(
        lambda x, w, b: F.layer_norm(x, (3,), w, b),
        (S, V, V),
        2,
        _layer_norm,
    ),
    # layers, indexing and linear algebra
    "conv1d": Case(lambda x, w: F.conv1d(x, w, padding=1).sin(), ((1, 2, 3), (2, 2, 2)), 2),
    "conv2d": Case(lambda x, w, b: F.conv2d(x, w, b, stride=2).exp(), ((1, 1, 3, 3), (2, 1, 2, 2), (2,)), 2),
    "conv with a constant bias": Case(
        lambda x, w: torch.tanh(F.conv1d(x, w, V_BIAS)), ((1, 2, 3), (3, 2, 2)), 2
    ),
    "conv_transpose1d": Case(lambda x, w: F.conv_transpose1d(x, w) ** 2, ((1, 2, 3), (2, 1, 2)), 2),
    "avg_pool2d": Case(lambda x: F.avg_pool2d(x**2, 2) ** 2, ((1, 1, 3, 4),), 2),
    "max_pool2d": Case(lambda x: F.max_pool2d(x**2, 2) ** 2, ((1, 1, 2, 4),), 2),
    "adaptive_avg_pool2d": Case(lambda x: F.adaptive_avg_pool2d(x, (1, 2)) ** 3, ((1, 1, 3, 4),), 2),
    "pad": Case(lambda x: F.pad(x, (1, 2), value=0.5).sin() ** 2, (S,)),
    "reflection padding": Case(lambda x: F.pad(x[None], (1, 1), mode="reflect").sin(), (S,)),
    "upsampling": Case(lambda x: F.interpolate(x[None], scale_factor=2.0, mode="linear") ** 2, (S,), 2),
    "batch_norm": Case(
        lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
        ((3, 2), (2,), (2,)),
        2,
        lambda x, w, b: _layer_norm(x.mT, w[:, None], b[:, None]).mT,
    ),
    "batch_norm in evaluation": Case(
        lambda x, w: F.batch_norm(x, V_BIAS, V_BIAS.exp(), w, V_BIAS).sin(), (S, V), 2
    ),
    "group_norm": Case(lambda x, w: F.group_norm(x, 2, w) ** 2, ((1, 4, 2), (4,)), 2),
    "rms_norm": Case(lambda x, w: F.rms_norm(x, (3,), w), (S, V), 2),
    "layer_norm of shifted": Case(
        lambda x: F.layer_norm(x + C, (3,)), (S,), 2, lambda x: _layer_norm(x + C, ONES, 0.0 * ONES)
    ),
    "scaled_dot_product_attention": Case(
        F.scaled_dot_product_attention, ((1, 1, 2, 3), (1, 1, 3, 3), (1, 1, 3, 2)), 2, _attention
    ),
    "mvlgamma": Case(lambda x: torch.mvlgamma(x.exp() + 2, 2), (S,)),
    "zeta": Case(
        lambda x: torch.special.zeta(torch.tensor(2.5), x.exp()) ** 2,
        (S,),
        2,
    ),
    "nan_to_num": Case(lambda x: torch.nan_to_num(x + 1) ** 3, (S,)),
    "renorm": Case(lambda x: torch.renorm(x + 1, 2, 0, 0.5), (S,), 2),
    "put": Case(lambda x, y: x.put(torch.tensor([1, 4]), y, accumulate=True) ** 3, (S, (2,))),
    "householder_product": Case(
        lambda x: torch.linalg.householder_product(x, torch.tensor([1.2, 0.7])), ((3, 2),), 2
    ),
    "heads that share keys": Case(
        lambda q, k: F.scaled_dot_product_attention(q, k, k, enable_gqa=True),
        ((1, 4, 2, 2), (1, 2, 3, 2)),
        2,
        lambda q, k: _attention(q, *[k.repeat_interleave(2, 1)] * 2),
    ),
    "causal attention": Case(
        lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
        ((1, 1, 3, 2),),
        2,
        _masked_attention,
    ),
    "cross_entropy": Case(lambda x: F.cross_entropy(x, TARGETS), ((3, 3),)),
    "cross_entropy with weights": Case(
        lambda x: F.cross_entropy(x, TARGETS, weight=V_BIAS.exp(), ignore_index=1, reduction="sum"), ((3, 3),)
    ),
    "nll_loss": Case(lambda x: F.nll_loss(torch.sin(x), TARGETS), ((3, 3),)),
    "soft_margin_loss": Case(lambda x: F.soft_margin_loss(x, SIGNS), (S,)),
    "embedding": Case(lambda w: F.embedding(TARGETS, w) ** 3, (M,)),
    "x[[0, 2]]": Case(lambda x: x[[0, 2]] * x[:, [1, 1, 0]][:2] ** 2, (M,)),
    "x[mask]": Case(lambda x: x[MASK].sin() * 2, (S,)),
    "masked_select": Case(lambda x: torch.masked_select(x, MASK) ** 3, (S,)),
    "gather": Case(lambda x: x.gather(1, TARGETS[:, None]).exp(), (M,)),
    "take_along_dim": Case(lambda x: torch.take_along_dim(x, TARGETS[:, None], 1) ** 3, (M,)),
    "index_select": Case(lambda x: x.index_select(0, TARGETS) * x, (M,)),
    "index_add": Case(lambda x, y: x.index_add(0, TARGETS[:2], y, alpha=2.0) ** 2, (M, S), 2),
    "scatter_add": Case(lambda x, y: x.scatter_add(1, TARGETS[:, None], y) ** 2, (M, (3, 1)), 2),
    "scatter": Case(lambda x, y: x.scatter(1, TARGETS[:, None], y) ** 3, (M, (3, 1)), 2),
    "index_put": Case(lambda x, y: x.index_put((TARGETS[:2],), y) ** 3, (M, S), 2),
    "amax, amin": Case(lambda x: x.amax(-1) ** 2 * x.amin(0).sum(), (S,)),
    "max along an axis": Case(lambda x: x.max(-1).values ** 3 + x.min(1)[0].sin(), (S,)),
    "max": Case(lambda x: x.max() ** 3 * x.min(), (S,)),
    "max of shifted": Case(lambda x: (x + C).max(0, keepdim=True)[0].exp(), (S,)),
    "sort, topk": Case(lambda x: x.sort(-1)[0] ** 3 + x.topk(1)[0].exp(), (S,)),
    "median": Case(lambda x: x.median(-1)[0] ** 3, (S,)),
    "cummax": Case(lambda x: x.cummax(1)[0] ** 3, (S,)),
    "logcumsumexp": Case(lambda x: x.logcumsumexp(1), (S,), 2),
    "unfold": Case(lambda x: x.unfold(1, 2, 1).prod(-1), (S,)),
    "inv": Case(lambda x: torch.linalg.inv(x + 3 * torch.eye(2)), ((2, 2),)),
    "det": Case(torch.linalg.det, (M,), 3, lambda x: x[0] @ torch.linalg.cross(x[1], x[2])),
    "slogdet": Case(lambda x: torch.linalg.slogdet(x)[1], ((2, 2),)),
    "solve": Case(lambda x, y: torch.linalg.solve(x + 3 * torch.eye(2), y), ((2, 2), (2, 1)), 2),
    "cholesky": Case(lambda x: torch.linalg.cholesky(x @ x.mT + torch.eye(2)), ((2, 2),), 2),
    "matrix_exp": Case(torch.linalg.matrix_exp, ((2, 2),), 2),
    "eigvalsh": Case(lambda x: torch.linalg.eigh(x + x.mT)[0], ((2, 2),), 2),
    "eigvalsh of the upper triangle": Case(
        lambda x: torch.linalg.eigvalsh(x.sin(), UPLO="U").exp().sum() + 1.0, ((3, 3),), 2
    ),
    "transforms": Case(
        lambda x: torch.fft.irfft(torch.fft.rfft(x + 1) * torch.exp(1j * V_BIAS[:2]), n=3).sin(), (S,), 2
    ),
    "imaginary part": Case(lambda x: torch.fft.ifft(x.sin()).imag ** 2, (V,), 2),
    "polar": Case(lambda x: torch.polar(ONES, x).real * torch.polar(x.exp(), V_BIAS).imag, (V,)),
    "exp of complex numbers": Case(lambda x: (torch.exp(1j * x + 0.5) * (1j * x + 0.5)).imag, (V,), 2),
    "embedding_bag": Case(
        lambda w: torch.cat([_bags(w + 1.0, mode) for mode in ("sum", "mean", "max")]).sin(),
        (M,),
        2,
        lambda w: torch.cat([_bags_by_hand(w + 1.0, mode) for mode in ("sum", "mean", "max")]).sin(),
    ),
    "embedding_bag with weights": Case(
        lambda w, s: F.embedding_bag(BAGS, w + 1, OFFSETS[[0, 2]], mode="sum", per_sample_weights=s).sin(),
        (M, (4,)),
        2,
        lambda w, s: ((w + 1)[BAGS] * s[:, None]).reshape(2, 2, 3).sum(1).sin(),
    ),
    "max_unpool3d": Case(
        lambda x: F.max_unpool3d(*F.max_pool3d(x + 1, 2, return_indices=True), 2) ** 2, ((1, 1, 2, 2, 4),), 2
    ),
    "fractional_max_pool2d": Case(
        lambda x: F.fractional_max_pool2d(x + 1, 2, output_size=2, _random_samples=SAMPLES) ** 2,
        ((1, 1, 4, 4),),
        2,
    ),
    "zeta of a number": Case(lambda x: torch.special.zeta(2.5, x.exp()) ** 2, (S,), 2),
    "vector norms": Case(lambda x: torch.linalg.vector_norm(x, 3, dim=-1), (S,), 2),
    "cdist": Case(
        torch.cdist,
        (S, (1, 3)),
        2,
        lambda x, y: ((x[:, None] - y[None]) ** 2).sum(-1).sqrt(),
    ),
    "cross": Case(lambda x, y: torch.linalg.cross(x, y) ** 2, (S, S), 2),
    "bilinear": Case(F.bilinear, (S, S, (2, 3, 3)), 2),
    "hardswish, softshrink": Case(lambda x: F.hardswish(x) * x + F.softshrink(x, 0.2) ** 2, (S,)),
    "erfinv, logit": Case(lambda x: torch.erfinv(0.3 * x) + torch.logit(torch.sigmoid(x) * 0.9), (S,), 2),
    "special functions": Case(
        lambda x: torch.special.log_ndtr(x) * torch.special.i0e(x) + torch.sinc(x), (S,), 2
    ),
}
"""By name."""
