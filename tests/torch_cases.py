"""Functions of torch tensors by family: activations, element-wise functions, reductions.

Each case names a function, the shapes of its arguments and the interval from which their entries are drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

Interval = tuple[float, float]
WIDE: Interval = (-2.0, 2.0)
POSITIVE: Interval = (0.3, 2.5)
UNIT: Interval = (0.1, 0.9)
OPEN: Interval = (-0.9, 0.9)


class Case(NamedTuple):
    """A function of real tensors, with the highest order to which its derivatives are compared.

    `reference` is the same function for PyTorch where its own derivatives of `function` are wrong or missing.
    """

    name: str
    function: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...] = ((4,),)
    intervals: tuple[Interval, ...] = (WIDE,)
    order: int = 3
    reference: Callable[..., Any] | None = None

    def points(self, seed: int = 0, dtype: torch.dtype = torch.float64) -> list[Tensor]:
        """Arguments drawn from the intervals, of which the last serves all further arguments."""
        generator = torch.Generator().manual_seed(seed)
        intervals = [*self.intervals, *[self.intervals[-1]] * len(self.shapes)]
        return [
            (torch.rand(shape, generator=generator, dtype=torch.float64) * (high - low) + low).to(dtype)
            for shape, (low, high) in zip(self.shapes, intervals, strict=False)
        ]


def _of_entries(functions: dict[str, Any], interval: Interval, order: int = 3) -> list[Case]:
    return [Case(name, function, ((4,),), (interval,), order) for name, function in functions.items()]


def _of_rows(functions: dict[str, Any], interval: Interval = WIDE, order: int = 3) -> list[Case]:
    return [Case(name, function, ((2, 3),), (interval,), order) for name, function in functions.items()]


def _of_pairs(functions: dict[str, Any], first: Interval, second: Interval, order: int = 3) -> list[Case]:
    return [
        Case(name, function, ((3,), (3,)), (first, second), order) for name, function in functions.items()
    ]


def celu_by_hand(x: Tensor, alpha: float) -> Tensor:
    """PyTorch multiplies by 1/alpha rounded to single precision."""
    return torch.where(x > 0, x, alpha * torch.expm1(torch.where(x > 0, 0.0, x) / alpha))


def hardswish_by_hand(x: Tensor) -> Tensor:
    """PyTorch has no third derivative."""
    return x * torch.clamp(x + 3, 0, 6) / 6


ACTIVATIONS = [
    *_of_entries(
        {
            "relu": F.relu,
            "relu6": lambda x: F.relu6(x * 5) * x,
            "leaky_relu": lambda x: F.leaky_relu(x) ** 2,
            "leaky_relu_slope": lambda x: F.leaky_relu(x, 0.3) ** 2,
            "elu": F.elu,
            "elu_alpha": lambda x: F.elu(x, alpha=0.7),
            "selu": F.selu,
            "celu": F.celu,
            "celu_exact": lambda x: F.celu(x, 0.75),
            "gelu": F.gelu,
            "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
            "silu": F.silu,
            "mish": F.mish,
            "softplus": F.softplus,
            "softplus_beta": lambda x: F.softplus(x, beta=2.0, threshold=3.0),
            "softsign": F.softsign,
            "tanhshrink": F.tanhshrink,
            "hardtanh": lambda x: F.hardtanh(x) ** 2,
            "hardtanh_bounds": lambda x: F.hardtanh(x, -0.3, 1.4) ** 2,
            "hardshrink": lambda x: F.hardshrink(x, 0.7) ** 2,
            "softshrink": lambda x: F.softshrink(x, 0.7) ** 2,
            "threshold": lambda x: F.threshold(x, 0.2, 5.0) ** 2,
            "logsigmoid": F.logsigmoid,
            "sigmoid": torch.sigmoid,
            "tanh": torch.tanh,
            "glu": F.glu,
            "inplace_relu": lambda x: F.relu(x.clone(), inplace=True) * x,
            "rrelu_eval": lambda x: F.rrelu(x, 0.1, 0.3, training=False) * x,
            "dropout_eval": lambda x: F.dropout(x, 0.5, training=False) ** 3,
            "alpha_dropout_eval": lambda x: F.alpha_dropout(x, 0.5, training=False) ** 3,
        },
        WIDE,
    ),
    Case("celu_inexact", lambda x: F.celu(x, 0.7), reference=lambda x: celu_by_hand(x, 0.7)),
    Case(
        "hardsigmoid",
        lambda x: F.hardsigmoid(x * 2) * x,
        reference=lambda x: torch.clamp(x * 2 + 3, 0, 6) / 6 * x,
    ),
    Case("hardswish", lambda x: F.hardswish(x * 2), reference=lambda x: hardswish_by_hand(x * 2)),
    Case("prelu", F.prelu, ((2, 3, 2), (3,)), order=2),
    Case("prelu_one", F.prelu, ((2, 3), (1,)), order=2),
    *_of_rows(
        {
            "softmax": lambda x: F.softmax(x, -1),
            "softmax_first_axis": lambda x: F.softmax(x, dim=0),
            "softmax_dtype": lambda x: torch.softmax(x, 1, dtype=torch.float64),
            "softmin": lambda x: F.softmin(x, 1),
            "log_softmax": lambda x: F.log_softmax(x, 1),
            "log_softmax_first_axis": lambda x: x.log_softmax(0),
            "softmax_2d": lambda x: torch.nn.Softmax2d()(x.reshape(1, 2, 3, 1)),
            "glu_rows": lambda x: F.glu(x, 0),
            "normalize": lambda x: F.normalize(x, dim=1),
            "normalize_p3": lambda x: F.normalize(x, p=3.0, dim=0),
        }
    ),
]

ELEMENTWISE = [
    *_of_entries(
        {
            "sin": torch.sin,
            "cos": torch.cos,
            "sinh": torch.sinh,
            "cosh": torch.cosh,
            "exp2": torch.exp2,
            "expm1": torch.expm1,
            "arctan": torch.arctan,
            "asinh": torch.asinh,
            "erf": torch.erf,
            "erfc": torch.erfc,
            "sinc": torch.sinc,
            "ndtr": torch.special.ndtr,
            "log_ndtr": torch.special.log_ndtr,
            "erfcx": torch.special.erfcx,
            "i0": torch.i0,
            "i0e": torch.special.i0e,
            "i1": torch.special.i1,
            "i1e": torch.special.i1e,
            "abs": lambda x: torch.abs(x) ** 3,
            "frac": lambda x: torch.frac(x) ** 2,
            "sign": lambda x: torch.sign(x) * x**2,
            "signbit": lambda x: torch.where(torch.signbit(x), x**2, x**3),
            "trunc": lambda x: torch.trunc(x) * x**2,
            "round": lambda x: torch.round(x * 3) * x**2,
            "round_decimals": lambda x: torch.round(x, decimals=1) * x**2,
            "deg2rad": lambda x: torch.deg2rad(x * 30) ** 3,
            "rad2deg": lambda x: torch.rad2deg(x) ** 3,
            "nan_to_num": lambda x: torch.nan_to_num(x) ** 3,
            "square": lambda x: x.square() * x,
            "two_to_x": lambda x: 2**x,
            "cube": lambda x: x**3,
            "fifth_power": lambda x: x**5,
            "power_zero": lambda x: x**0 * x**2,
            "one_minus": lambda x: (1 - x) ** 3,
            "clamp": lambda x: torch.clamp(x, -1, 1) ** 3,
            "clamp_min": lambda x: torch.clamp(x, min=0.1) ** 3,
            "clamp_max": lambda x: x.clamp_max(0.1) ** 3,
            "clamp_tensors": lambda x: torch.clamp(x, torch.zeros(4), torch.ones(4).double()) ** 3,
            "masked_fill": lambda x: x.masked_fill(x > 0, 2.0) * x**2,
            "remainder_number": lambda x: torch.remainder(x, 0.7) ** 3,
            "fmod_number": lambda x: torch.fmod(x, 0.7) ** 3,
            "division_rounded": lambda x: torch.div(x, 0.3, rounding_mode="trunc") * x**2,
            "logical": lambda x: torch.logical_and(x > 0, x < 1) * x**3 + (~(x > 0)) * x,
            "isclose": lambda x: torch.isclose(x, x) * x**3,
            "in_place": lambda x: x.clone().mul_(x).add_(1.0).sin_(),
            "float_method": lambda x: (x > 0).double() * x**3,
            "softplus_of_list": lambda x: torch.stack([F.softplus(e) for e in x]),
        },
        WIDE,
    ),
    *_of_entries(
        {
            "log": torch.log,
            "log2": torch.log2,
            "log10": torch.log10,
            "log1p": torch.log1p,
            "sqrt": torch.sqrt,
            "rsqrt": torch.rsqrt,
            "reciprocal": torch.reciprocal,
            "one_over": lambda x: 1 / x,
            "root_power": lambda x: x**0.5,
            "negative_power": lambda x: x**-1.5,
            "acosh": lambda x: torch.acosh(x + 1),
            "lgamma": torch.lgamma,
            "gammaln": torch.special.gammaln,
            "digamma": torch.digamma,
            "polygamma": lambda x: torch.polygamma(1, x),
            "polygamma_method": lambda x: x.polygamma(2),
            "psi": torch.special.psi,
            "mvlgamma": lambda x: torch.mvlgamma(x + 1, 3),
            "multigammaln": lambda x: torch.special.multigammaln(x + 2, 2),
            "entr": torch.special.entr,
            "float_power": lambda x: torch.float_power(x, 1.7),
            "power_self": lambda x: x**x,
        },
        POSITIVE,
    ),
    *_of_entries(
        {
            "arcsin": torch.arcsin,
            "acos": torch.acos,
            "atanh": torch.atanh,
            "tan": torch.tan,
            "erfinv": torch.erfinv,
        },
        OPEN,
    ),
    *_of_entries(
        {
            "logit": torch.logit,
            "logit_eps": lambda x: torch.logit(x, eps=1e-3),
            "ndtri": torch.special.ndtri,
        },
        UNIT,
    ),
    *_of_pairs(
        {
            "atan2": torch.atan2,
            "hypot": torch.hypot,
            "logaddexp": torch.logaddexp,
            "logaddexp2": torch.logaddexp2,
            "maximum": lambda x, y: torch.maximum(x, y) ** 3,
            "minimum": lambda x, y: torch.minimum(x, y) ** 3,
            "fmax": lambda x, y: torch.fmax(x, y) ** 3,
            "fmin": lambda x, y: torch.fmin(x, y) ** 3,
            "where": lambda x, y: torch.where(x > y, x * y, y**2),
            "copysign": lambda x, y: torch.copysign(x, y) ** 3,
            "ldexp": torch.ldexp,
            "dist": torch.dist,
            "xlog1py": lambda x, y: torch.special.xlog1py(x, y + 3),
        },
        WIDE,
        WIDE,
    ),
    *_of_pairs(
        {
            "power": torch.pow,
            "xlogy": torch.xlogy,
            "division": torch.div,
            "zeta": lambda x, y: y * torch.special.zeta(torch.tensor(2.5, dtype=x.dtype), x),
            "remainder": lambda x, y: torch.remainder(x, y) ** 2,
            "fmod": lambda x, y: torch.fmod(x, y) ** 2,
            "true_divide": torch.true_divide,
        },
        POSITIVE,
        POSITIVE,
    ),
    Case("lerp", torch.lerp, ((2, 3), (3,), (2, 1)), order=3),
    Case("lerp_number", lambda x, y: torch.lerp(x, y, 0.3) ** 3, ((3,), (3,))),
    Case("addcmul", lambda x, y, z: torch.addcmul(x, y, z, value=0.5), ((2, 3), (3,), (2, 1))),
    Case(
        "addcdiv",
        lambda x, y, z: torch.addcdiv(x, y, z, value=0.5),
        ((2, 3), (3,), (2, 1)),
        (WIDE, WIDE, POSITIVE),
    ),
    Case("broadcast_power", lambda x, y: (x**y).sum(0), ((2, 3), (3,)), (POSITIVE, WIDE)),
    Case("scalar_argument", lambda x: torch.sin(x) * x**2, ((),), order=4),
    Case("add_alpha", lambda x, y: torch.add(x, y, alpha=2) * torch.sub(x, y, alpha=3), ((3,), (3,))),
    Case("rsub", lambda x: torch.rsub(x, 2.0, alpha=3) ** 3),
    Case(
        "floor_divide",
        lambda x: torch.floor_divide(x, 0.3) * x**2,
        reference=lambda x: torch.floor(x / 0.3) * x**2,
    ),
    Case(
        "heaviside",
        lambda x: torch.heaviside(x, x * 0 + 0.5) * x**2,
        reference=lambda x: torch.where(x > 0, x**2, 0.0),
    ),
    Case("order_4", lambda x: torch.tanh(x) * torch.exp(-(x**2)), order=4),
]

REDUCTIONS = [
    *_of_rows(
        {
            "sum_all": lambda x: torch.sum(x**3),
            "sum_empty_dims": lambda x: (x**3).sum(dim=[]),
            "sum_keepdim": lambda x: (x**3).sum(-1, keepdim=True) * x,
            "sum_dims": lambda x: (x**3).sum((0, -1)),
            "sum_dtype": lambda x: torch.sum(x**3, 1, dtype=torch.float64),
            "sum_of_truths": lambda x: (x > 0).sum() * (x**3).sum(0),
            "nansum": lambda x: torch.nansum(x**3, 1),
            "nanmean": lambda x: torch.nanmean(x**3, 1),
            "mean": lambda x: (x**3).mean(),
            "mean_dims": lambda x: (x**3).mean((0, 1), keepdim=True),
            "mean_dtype": lambda x: torch.mean(x**3, dim=0, dtype=torch.float64),
            "prod": torch.prod,
            "prod_dim": lambda x: torch.prod(x, -1),
            "prod_keepdim": lambda x: x.prod(0, keepdim=True) * x,
            "var": torch.var,
            "var_dim": lambda x: torch.var(x, 1),
            "var_biased": lambda x: torch.var(x, 1, unbiased=False),
            "var_correction": lambda x: torch.var(x, dim=(0, 1), correction=2, keepdim=True),
            "std": torch.std,
            "std_dim": lambda x: torch.std(x, -1, keepdim=True),
            "std_correction": lambda x: x.std(dim=0, correction=0),
            "var_mean": lambda x: torch.var_mean(x, 1),
            "std_mean": lambda x: torch.std_mean(x, dim=1, correction=0),
            "amax": lambda x: torch.amax(x, 1) ** 3,
            "amax_dims": lambda x: torch.amax(x, (0, 1), keepdim=True) ** 3,
            "amin": lambda x: torch.amin(x, 0) ** 3,
            "aminmax": lambda x: torch.aminmax(x, dim=1).max ** 3 * torch.aminmax(x).min,
            "max_all": lambda x: torch.max(x) ** 3,
            "min_all": lambda x: x.min() ** 3,
            "max_dim": lambda x: torch.max(x, 1).values ** 3,
            "max_dim_keepdim": lambda x: x.max(0, keepdim=True)[0] * x**2,
            "max_indices": lambda x: torch.gather(x**3, 1, x.max(1, keepdim=True).indices),
            "min_dim": lambda x: torch.min(x, -1)[0] ** 3,
            "median_all": lambda x: torch.median(x) ** 3,
            "median_dim": lambda x: torch.median(x, 1).values ** 3,
            "nanmedian": lambda x: torch.nanmedian(x, 1).values ** 3,
            "mode": lambda x: torch.mode(x, 1).values ** 3,
            "sort": lambda x: torch.sort(x, 1).values ** 3 * torch.arange(3),
            "sort_descending": lambda x: torch.sort(x, 0, descending=True)[0] ** 3 * torch.arange(3),
            "argsort": lambda x: torch.gather(x**3, 1, torch.argsort(x, 1)),
            "topk": lambda x: torch.topk(x, 2, dim=1).values ** 3,
            "topk_smallest": lambda x: torch.topk(x, 2, dim=1, largest=False)[0] ** 3,
            "topk_indices": lambda x: torch.gather(x**3, 1, torch.topk(x, 2).indices),
            "kthvalue": lambda x: torch.kthvalue(x, 2, dim=1).values ** 3,
            "quantile": lambda x: torch.quantile(x, 0.3, dim=1) ** 3,
            "quantile_all": lambda x: torch.quantile(x, 0.4) ** 3,
            "nanquantile": lambda x: torch.nanquantile(x, 0.3, dim=1) ** 3,
            "quantiles": lambda x: torch.quantile(x, torch.tensor([0.2, 0.7]).double(), 1, True) ** 3,
            "quantile_nearest": lambda x: torch.quantile(x, 0.3, 0, interpolation="nearest") ** 3,
            "quantile_midpoint": lambda x: x.quantile(0.3, 1, interpolation="midpoint") ** 3,
            "cummax": lambda x: torch.cummax(x, 1).values ** 3,
            "cummin": lambda x: torch.cummin(x, 0)[0] ** 3,
            "cumsum": lambda x: torch.cumsum(x, 1) ** 3,
            "cumsum_negative_dim": lambda x: torch.cumsum(x, -2) ** 3,
            "cumprod": lambda x: torch.cumprod(x, 1),
            "cumulative_trapezoid": lambda x: torch.cumulative_trapezoid(x**3, dim=1),
            "trapezoid": lambda x: torch.trapezoid(x**3, dx=0.5),
            "diff": lambda x: torch.diff(x) ** 3,
            "logsumexp": lambda x: torch.logsumexp(x, 1),
            "logsumexp_dims": lambda x: torch.logsumexp(x, (0, 1), keepdim=True),
            "logsumexp_first_axis": lambda x: x.logsumexp(0),
            "norm": torch.norm,
            "norm_dim": lambda x: torch.norm(x, dim=1),
            "norm_p1": lambda x: torch.norm(x, p=1, dim=1) ** 2,
            "norm_p3": lambda x: torch.norm(x, p=3),
            "norm_fro": lambda x: torch.norm(x, p="fro", dim=(0, 1)),
            "norm_half": lambda x: torch.norm(x, p=0.5, dim=0),
            "norm_negative": lambda x: torch.norm(x, p=-2, dim=0),
            "norm_inf": lambda x: torch.norm(x, p=math.inf, dim=1) ** 3,
            "norm_minus_inf": lambda x: torch.norm(x, p=-math.inf, dim=1) ** 3,
            "norm_p0": lambda x: torch.norm(x, p=0) * (x**3).sum(),
            "vector_norm": torch.linalg.vector_norm,
            "vector_norm_p4": lambda x: torch.linalg.vector_norm(x, 4, dim=-1, keepdim=True),
            "vector_norm_p1": lambda x: torch.linalg.vector_norm(x, 1, dim=(0, 1)) ** 2,
            "linalg_norm": lambda x: torch.linalg.norm(x, dim=0),
            "matrix_norm": torch.linalg.matrix_norm,
            "matrix_norm_1": lambda x: torch.linalg.matrix_norm(x, 1) ** 3,
            "matrix_norm_inf": lambda x: torch.linalg.matrix_norm(x, math.inf) ** 3,
            "renorm": lambda x: torch.renorm(x, 2, 0, 1.5),
            "any": lambda x: torch.any(x > 0, 1) * (x**3).sum(1),
            "all": lambda x: torch.all(x < 5) * x**3,
            "any_of_numbers": lambda x: torch.any(x) * x**3,
            "argmax": lambda x: torch.gather(x**3, 1, torch.argmax(x, 1, keepdim=True)),
            "argmin_all": lambda x: (x**3).reshape(-1) * (torch.arange(6) == torch.argmin(x)),
            "count_nonzero": lambda x: torch.count_nonzero(x, 1) * (x**3).sum(1),
        }
    ),
    *[
        Case(f"{name}_without_axes", function, ((),), (POSITIVE,))
        for name, function in {
            "sum": lambda x: (x**3).sum(),
            "sum_dim": lambda x: (x**3).sum(0),
            "mean": lambda x: (x**3).mean(-1),
            "softmax": lambda x: torch.softmax(x, 0) * x**3,
            "log_softmax": lambda x: torch.log_softmax(x, 0) + x**3,
            "logsumexp": lambda x: torch.logsumexp(x, 0) * x**2,
            "cumsum": lambda x: torch.cumsum(x, 0) * x**2,
            "max": lambda x: torch.max(x, 0).values ** 3,
            "amax": lambda x: torch.amax(x, ()) ** 3,
            "prod": lambda x: torch.prod(x, 0) ** 3,
            "norm": lambda x: torch.linalg.vector_norm(x) * x**2,
            "sort": lambda x: torch.sort(x).values ** 3,
            "median": lambda x: torch.median(x) ** 3,
        }.items()
    ],
    Case(
        "logcumsumexp",
        lambda x: torch.logcumsumexp(x, 1),
        ((2, 3),),
        reference=lambda x: torch.log(torch.cumsum(torch.exp(x), 1)),
    ),
    Case("logsumexp_order_4", lambda x: torch.logsumexp(x, 0), order=4),
]
