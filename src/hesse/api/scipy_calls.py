"""Functions of SciPy that compute with numbers: what stands in their places while a function is traced.

They take SciPy's arguments. Options that say nothing of the result (`check_finite`, `overwrite_a`) are left
out; with others that are not known here the call goes to SciPy, and the error says what to write.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from hesse.api.scipy_linalg import LINEAR_ALGEBRA, SciPyKnowsMore
from hesse.errors import ArgumentError
from hesse.frontends import special
from hesse.frontends.dispatch import NAMED
from hesse.frontends.making import joined
from hesse.frontends.standing_in import LATER, Function, Pair, is_traced, traced_instead

SILENT = {
    "overwrite_a",
    "overwrite_b",
    "overwrite_x",
    "check_finite",
    "lapack_driver",
    "lwork",
    "method",
    "workers",
}
"""Options that say nothing of the result."""
METHODS = ("logpdf", "pdf", "cdf", "sf", "logcdf", "logsf", "ppf", "isf", "logpmf", "pmf")
DEFAULTS = {"allow_singular": False, "seed": None}
"""Options of distributions that say nothing where they are what SciPy takes by itself."""


def logsumexp(a: Any, axis: Any = None, b: Any = None, keepdims: bool = False) -> Any:
    """The logarithm of a sum of exponentials, each of them `b` times."""
    if b is None:
        return special.logsumexp(a, axis, keepdims)
    shift = special.stop_gradient(np.max(a, axis=axis, keepdims=True))
    found = np.log(np.sum(np.multiply(b, np.exp(a - shift)), axis=axis, keepdims=True)) + shift
    return found if keepdims else np.squeeze(found, axis)


def log_softmax(x: Any, axis: Any = None) -> Any:
    """`x` less the logarithm of the sum of its exponentials."""
    if isinstance(axis, int):
        return special.log_softmax(x, axis)
    return x - special.logsumexp(x, axis, True)


def softmax(x: Any, axis: Any = None) -> Any:
    """Exponentials by their sum."""
    return special.softmax(x, axis) if isinstance(axis, int) else np.exp(log_softmax(x, axis))


def multigammaln(a: Any, d: int) -> Any:
    """The logarithm of the gamma function of d dimensions."""
    terms = [special.lgamma(a - 0.5 * k) for k in range(d)]
    return sum(terms[1:], terms[0]) + 0.25 * d * (d - 1) * np.log(np.pi)


def factorial(n: Any) -> Any:
    """The gamma function of one more, 0 for negative numbers."""
    return np.where(n < 0, 0.0, NAMED["gamma"](np.where(n < 0, 0.0, n) + 1.0))


def comb(N: Any, k: Any) -> Any:
    """How many ways there are to choose k of N, 0 for less than none and for more than all."""
    is_possible = np.less_equal(k, N) & np.greater_equal(N, 0.0) & np.greater_equal(k, 0.0)
    whole, part = np.where(is_possible, N, 2.0), np.where(is_possible, k, 1.0)
    return np.where(is_possible, NAMED["binom"](whole, part), 0.0)


def convolve(in1: Any, in2: Any, mode: str = "full") -> Any:
    """The sums of products of all entries at the same distance."""
    return _convolved(in1, in2, mode, 0)


def correlate(in1: Any, in2: Any, mode: str = "full") -> Any:
    """The same with the entries of the second one in the other order."""
    return _convolved(in1, np.conj(np.flip(in2)), mode, 0)


def correlate2d(in1: Any, in2: Any, mode: str = "full") -> Any:
    """The same for matrices; of a kernel of even size SciPy takes another entry for the middle."""
    return _convolved(in1, np.conj(np.flip(in2)), mode, 1)


def _convolved(in1: Any, in2: Any, mode: str, rounding: int) -> Any:
    if mode not in ("full", "same", "valid"):
        raise SciPyKnowsMore
    first, second = np.shape(in1), np.shape(in2)
    if mode == "valid" and any(a < b for a, b in zip(first, second, strict=True)):
        in1, in2, first, second = in2, in1, second, first
    kept = [(0, 0) if mode == "valid" else (size - 1, size - 1) for size in second]
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(in1, kept), second)
    found = np.tensordot(windows, np.flip(in2), len(second))
    if mode != "same":
        return found
    starts = [(whole - size + rounding) // 2 for whole, size in zip(np.shape(found), first, strict=True)]
    return found[tuple(slice(start, start + size) for start, size in zip(starts, first, strict=True))]


def cdist(XA: Any, XB: Any, metric: str = "euclidean") -> Any:
    """The distances of all points of two sets."""
    return _distances(XA[:, None] - XB, metric)


def pdist(X: Any, metric: str = "euclidean") -> Any:
    """The distances of all pairs of points, one after the other."""
    first, second = np.triu_indices(np.shape(X)[0], 1)
    return _distances(X[first] - X[second], metric)


def _distances(gaps: Any, metric: str) -> Any:
    if metric == "sqeuclidean":
        return np.sum(gaps**2, axis=-1)
    if (
        metric == "euclidean"
    ):  # equal points have no derivative; what is 0 for all points has the derivative 0
        return special.safe_norm(gaps, axis=-1)
    if metric in ("cityblock", "chebyshev"):
        return np.linalg.norm(gaps, 1 if metric == "cityblock" else np.inf, axis=-1)
    raise ArgumentError(
        f"the metric {metric!r} is not known for traced values: write its formula, or take euclidean, "
        "sqeuclidean, cityblock or chebyshev"
    )


def squareform(X: Any) -> Any:
    """The symmetric matrix of what stands above its diagonal, and the other way round."""
    if np.ndim(X) == 2:
        return X[np.triu_indices(np.shape(X)[0], 1)]
    size = round((1.0 + (1.0 + 8.0 * np.shape(X)[0]) ** 0.5) / 2.0)
    above = np.zeros((size, size), dtype=int)
    above[np.triu_indices(size, 1)] = np.arange(1, np.shape(X)[0] + 1)
    return np.concatenate([np.zeros(1), X])[above + above.T]


def _along_axis(own: Function) -> Function:
    """A transform of NumPy without the options that SciPy has not."""
    return lambda x, n=None, axis=-1, norm=None: own(x, n, axis, norm)


def _along_axes(own: Function, usual: tuple[int, ...] | None) -> Function:
    return lambda x, s=None, axes=usual, norm=None: own(x, s, axes, norm)


def _linear(module: str, name: str) -> Function:
    """A linear function of one axis of an array, by its matrix, which SciPy computes."""

    def compute(x: Any, type: int = 2, n: Any = None, axis: int = -1, norm: Any = None) -> Any:
        own = getattr(importlib.import_module(module), name)
        matrix = own(np.eye(np.shape(x)[axis]), type, n, 0, norm)
        return np.moveaxis(np.moveaxis(x, axis, -1) @ matrix.T, -1, axis)

    return compute


SPECIAL: dict[str, Function] = {
    **{function.__name__: function for function in (logsumexp, log_softmax, softmax, multigammaln)},
    **{function.__name__: function for function in (factorial, comb)},
    "polygamma": special.polygamma,
}
FOURIER: dict[str, Function] = {
    **{
        name: _along_axis(getattr(np.fft, name)) for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
    },
    **{name: _along_axes(getattr(np.fft, name), (-2, -1)) for name in ("fft2", "ifft2", "rfft2", "irfft2")},
    **{name: _along_axes(getattr(np.fft, name), None) for name in ("fftn", "ifftn", "rfftn", "irfftn")},
    **{name: getattr(np.fft, name) for name in ("fftshift", "ifftshift")},
    **{name: _linear("scipy.fft", name) for name in ("dct", "idct", "dst", "idst")},
}
SIGNALS: dict[str, Function] = {
    **{name: convolve for name in ("convolve", "convolve2d", "fftconvolve")},
    "correlate": correlate,
    "correlate2d": correlate2d,
}
DISTANCES: dict[str, Function] = {function.__name__: function for function in (cdist, pdist, squareform)}


def _of_module(name: str, functions: dict[str, Function]) -> Callable[[], dict[tuple[Any, str], Pair]]:
    def entries() -> dict[tuple[Any, str], Pair]:
        module = importlib.import_module(name)
        return {(module, key): _pair(getattr(module, key), function) for key, function in functions.items()}

    return entries


def _pair(own: Function, function: Function) -> Pair:
    signature = inspect.signature(function)

    def compute(*arguments: Any, **options: Any) -> Any:
        said = {key: value for key, value in options.items() if key not in SILENT}
        try:
            bound = _bound(signature, map(_array, arguments), said)
            return function(*bound.args, **bound.kwargs)
        except SciPyKnowsMore:
            return own(*arguments, **options)

    return traced_instead(own, compute)


def _bound(
    signature: inspect.Signature, arguments: Iterable[Any], options: dict[str, Any]
) -> inspect.BoundArguments:
    try:
        return signature.bind(*arguments, **options)
    except TypeError as error:
        raise SciPyKnowsMore from error


def _array(value: Any) -> Any:
    """Lists are arrays in SciPy, and so are arrays of traced entries."""
    return joined(value) if isinstance(value, list | np.ndarray) and is_traced(value) else value


def _numbers(value: Any) -> Any:
    """Tuples are arrays, too, where observations or parameters are asked for, and no axes."""
    return joined(value) if isinstance(value, tuple) and is_traced(value) else _array(value)


def _distributions() -> dict[tuple[Any, str], Pair]:
    """The methods of distributions, of frozen ones, too: those of their classes."""
    families, ours = importlib.import_module("scipy.stats"), importlib.import_module("hesse.stats")
    entries = {}
    for name in ours.__all__:
        kind, family = type(getattr(families, name)), getattr(ours, name)
        for method in (*METHODS, "entropy", "__call__"):
            if hasattr(kind, method) and hasattr(family, method):
                own, known = getattr(kind, method), getattr(family, method)
                entries[kind, method] = traced_instead(own, _method(own, known, name))
    for frozen, parameters in (
        (families.multivariate_normal(), ("mean", "cov", "allow_singular")),
        (families.dirichlet([1.0, 1.0]), ("alpha",)),
    ):
        family = getattr(ours, type(frozen._dist).__name__.removesuffix("_gen"))
        for method in ("logpdf", "pdf"):
            own = getattr(type(frozen), method)
            known = _of_frozen(own, getattr(family, method), parameters)
            entries[type(frozen), method] = traced_instead(own, known)
    return entries


def _of_frozen(own: Function, known: Function, parameters: tuple[str, ...]) -> Function:
    """A method of a distribution of vectors that was made of numbers."""

    def compute(self: Any, x: Any) -> Any:
        return known(_numbers(x), *(getattr(self, name) for name in parameters))

    return compute


def _method(own: Function, known: Function, name: str) -> Function:
    signature = inspect.signature(known)

    def compute(self: Any, *arguments: Any, **options: Any) -> Any:
        said = {key: value for key, value in options.items() if value is not DEFAULTS.get(key, options)}
        try:
            signature.bind(*arguments, **said)
            is_known = getattr(self, "name", name) == name  # no family that is derived from this one
        except TypeError:
            is_known = False
        if not is_known:
            return own(self, *arguments, **options)
        return known(*map(_numbers, arguments), **{key: _numbers(value) for key, value in said.items()})

    return compute


LATER.update(
    {
        "scipy.special": _of_module("scipy.special", SPECIAL),
        "scipy.linalg": _of_module("scipy.linalg", LINEAR_ALGEBRA),
        "scipy.fft": _of_module("scipy.fft", FOURIER),
        "scipy.signal": _of_module("scipy.signal", SIGNALS),
        "scipy.spatial.distance": _of_module("scipy.spatial.distance", DISTANCES),
        "scipy.stats": _distributions,
    }
)
