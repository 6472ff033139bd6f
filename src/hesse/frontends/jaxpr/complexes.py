"""Complex values between real arguments and real results, as pairs of expressions: primitive by primitive."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hesse.frontends import fourier
from hesse.frontends.complex_functions import direction, size_of
from hesse.frontends.complexes import Complex, both_parts, parts
from hesse.frontends.expression import Expression
from hesse.frontends.jaxpr.internals import JaxprEqn
from hesse.frontends.jaxpr.table import HANDLERS, traced
from hesse.frontends.jaxpr.walk import COMPLEX, COMPLEX_ADVICE, WALKED, Walk, walked
from hesse.frontends.tracing import untraceable

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": size_of,
    "add": np.add,
    "add_any": np.add,
    "complex": lambda x, y: Complex(traced(x), traced(y)),
    "conj": lambda z, **_: np.conjugate(z) if isinstance(z, Complex) else Complex(z, np.negative(z) * 0.0),
    "convert_element_type": lambda z, **_: Complex(*both_parts(z)),
    "cos": np.cos,
    "cosh": np.cosh,
    "div": np.divide,
    "exp": np.exp,
    "expm1": lambda z: np.subtract(np.exp(z), 1.0),
    "imag": np.imag,
    "integer_pow": lambda z, y: np.power(z, y),  # noqa: PLW0108  ufuncs have no names for operands
    "log": np.log,
    "log1p": lambda z: np.log(np.add(z, 1.0)),
    "logistic": lambda z: np.divide(1.0, np.add(np.exp(np.negative(z)), 1.0)),
    "mul": np.multiply,
    "pow": np.power,
    "real": np.real,
    "rsqrt": lambda z: np.divide(1.0, np.sqrt(z)),
    "sign": direction,
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "square": np.square,
    "sub": np.subtract,
    "tan": np.tan,
    "tanh": np.tanh,
}
"""Element-wise primitives by functions of NumPy."""
FIRST = """
broadcast_in_dim copy cumsum dynamic_slice expand_dims gather neg reduce_sum reduce_window_sum reshape rev
slice split squeeze stop_gradient tile transpose unstack
"""
LINEAR: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(FIRST.split(), (0,)),
    **dict.fromkeys(("dynamic_update_slice", "pad"), (0, 1)),
    **dict.fromkeys(("scatter", "scatter-add", "scatter-sub"), (0, 2)),
    **dict.fromkeys(("concatenate", "stack"), ()),
}
"""Primitives that are linear in the operands at these places, or in all: real and imaginary parts apart."""
BILINEAR = frozenset({"conv_general_dilated", "dot_general"})
TRANSFORMS: dict[str, Callable[..., Any]] = {
    "FFT": fourier.fftn,
    "IFFT": fourier.ifftn,
    "RFFT": fourier.rfftn,
}


def _evaluated(walk: Walk, equation: JaxprEqn, operands: Sequence[Any]) -> Any:
    """A primitive of real operands."""
    name = equation.primitive.name
    found = (
        WALKED[name](walk, equation, operands)
        if name in WALKED
        else HANDLERS[name](*operands, **equation.params)
    )
    return _refused(name) if found is NotImplemented else found


def _refused(name: str) -> Any:
    raise untraceable(f"the complex result of {name}, or {name} of complex values,", COMPLEX_ADVICE)


def _by_parts(walk: Walk, equation: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """A linear primitive, of the real and of the imaginary parts."""
    places = LINEAR[equation.primitive.name] or range(len(operands))
    pairs = {k: both_parts(operands[k]) for k in places}
    found = []
    for part in (0, 1):
        given = [traced(pairs[k][part]) if k in pairs else one for k, one in enumerate(operands)]
        result = _evaluated(walk, equation, given)
        found.append(result if isinstance(result, list | tuple) else [result])
    return [Complex(*pair) for pair in zip(*found, strict=True)]


def _product(walk: Walk, equation: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """A bilinear primitive: (a + ib) (c + id) = ac - bd + i (ad + bc)."""
    pairs, sums = [parts(one) for one in operands], [0.0, 0.0]
    for choice in itertools.product((0, 1), repeat=2):
        chosen = [pair[k] for pair, k in zip(pairs, choice, strict=True)]
        if any(part is None for part in chosen):
            continue
        term = _evaluated(walk, equation, [traced(part) for part in chosen])
        turns = sum(choice)
        sums[turns % 2] = sums[turns % 2] + (term if turns < 2 else -term)
    return [Complex(*(np.broadcast_to(part, equation.outvars[0].aval.shape) for part in map(traced, sums)))]


def _scaled(walk: Walk, equation: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """Entries multiplied at places, by real factors: their real and imaginary parts apart."""
    z, places, factors = operands
    real, imaginary = parts(factors)
    if imaginary is not None and (isinstance(imaginary, Expression) or np.any(imaginary)):
        _refused(equation.primitive.name)
    return [Complex(*(_evaluated(walk, equation, [traced(part), places, real]) for part in both_parts(z)))]


def _transformed(z: Any, fft_type: Any, fft_lengths: Sequence[int]) -> Any:
    """Discrete Fourier transforms along the last axes."""
    kind, rank = fft_type.name, len(fft_lengths)
    axes = range(np.ndim(parts(z)[0]) - rank, np.ndim(parts(z)[0]))
    if kind in TRANSFORMS:
        return TRANSFORMS[kind](z, fft_lengths, axes)
    rest: Any = fourier.ifftn(z, fft_lengths[:-1], axes[:-1]) if rank > 1 else z
    return fourier.irfft(rest, fft_lengths[-1], -1)


def _selected(which: Any, *cases: Any) -> Any:
    """The case with this number."""
    result = cases[0]
    for number, case in enumerate(cases[1:], 1):
        result = np.where(np.equal(which, number), case, result)
    return result


def _multiplied(z: Any, axes: Sequence[int], **_: Any) -> Any:
    """Products along axes."""
    for axis in sorted(axes, reverse=True):
        z = np.prod(z, axis)
    return z


FUNCTIONS |= {"fft": _transformed, "reduce_prod": _multiplied, "select_n": _selected}
WITH_OPTIONS = frozenset({"conj", "convert_element_type", "fft", "integer_pow", "reduce_prod"})


@walked(COMPLEX)
def complex_results(walk: Walk, equation: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """The results of a primitive with complex operands or results."""
    name = equation.primitive.name
    if name in LINEAR:
        return _by_parts(walk, equation, operands)
    if name in BILINEAR:
        return _product(walk, equation, operands)
    if name == "scatter-mul":
        return _scaled(walk, equation, operands)
    if name not in FUNCTIONS:
        _refused(name)
    return [FUNCTIONS[name](*operands, **(equation.params if name in WITH_OPTIONS else {}))]
