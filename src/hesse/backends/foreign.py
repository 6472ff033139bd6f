"""Calling foreign functions from programs: what all targets share.

The instruction `foreign` calls a rule and gives a list of its results, of which the instruction `pick` takes
one at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hesse.errors import ShapeError, TracingError
from hesse.ops.foreign import Output, Rule

KINDS = {"real": "f", "integer": "iu", "boolean": "b"}
"""By NumPy's letters what a result of each kind may hold."""


def pick(params: tuple[int], results: list[Any]) -> Any:
    """One of the results, for which the list is left without it: it is not kept alive any longer."""
    (number,) = params
    result, results[number] = results[number], None
    return result


def results_on_host(rule: Rule, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What a rule computes from NumPy arrays, in their dtype.

    It gets copies, in order in memory, and numbers for arrays without axes; its results are copied, too. So
    it may change what it is given and keep what it returns.
    """
    expected = rule.outputs(tuple(array.shape for array in arrays))
    dtype = float_dtype(arrays)
    given = [np.array(array, _computed(array.dtype), order="C")[()] for array in arrays]
    found = rule.call(*given)
    if len(found) != len(expected):
        raise ShapeError(f"{rule.name} returned {len(found)} results, {len(expected)} were expected")
    return [_checked(rule, value, output, dtype) for value, output in zip(found, expected, strict=True)]


def float_dtype(arrays: Sequence[np.ndarray]) -> np.dtype[Any]:
    """The dtype of the real results: that of the real operands."""
    real = [array.dtype for array in arrays if array.dtype.kind not in "iub"]
    return np.result_type(*real) if real else np.dtype(np.float64)


def _computed(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """What functions on the host compute in: types of fewer than 32 bits are beyond most of them."""
    return np.dtype(np.float32) if dtype.kind not in "iub" and dtype.itemsize < 4 else dtype


def _checked(rule: Rule, value: Any, expected: Output, dtype: np.dtype[Any]) -> np.ndarray:
    kind, shape = result_kind(rule.name, value), np.shape(value)
    if shape != expected.shape:
        raise ShapeError(
            f"{rule.name} returned shape {shape}, and shape {expected.shape} was expected: the shape of a "
            "result may depend on the shapes of the operands only, not on their values"
        )
    # Whole numbers may stand for real ones, as in 0 * x; nothing may stand for them.
    if expected.kind not in (kind, "real"):
        raise TracingError(
            f"{rule.name} returned {kind} values where it had returned {expected.kind} ones; "
            "the kind of a result must not depend on the values of the operands"
        )
    return np.array(value, np.intp if expected.kind == "integer" else dtype, order="C")


def result_kind(name: str, value: Any) -> str:
    """Whether a result is real, integer or boolean; anything else is refused."""
    try:
        letter = np.asarray(value).dtype.kind
    except (TypeError, ValueError):  # a traced value, lists of different lengths
        letter = "O"
    for kind, letters in KINDS.items():
        if letter in letters:
            return kind
    if letter == "c":
        raise TracingError(f"{name} returned complex values; return real and imaginary parts")
    raise TracingError(
        f"{name} returned a {type(value).__name__}, which is no array of numbers; if it uses a traced value "
        "of a function around it, pass that as an argument"
    )
