"""Programs that look away from poles: what is not chosen is infinite or nan, and what is chosen is smooth.

Each is written once, over an array library, and is a number for a vector.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

NAN, INFINITY = float("nan"), float("inf")


class Case(NamedTuple):
    """`function(xp, x)` of an array `x` of the library `xp`, and a point at which something is masked out."""

    name: str
    function: Callable[[Any, Any], Any]
    point: tuple[float, ...]


MIXED = (1.0, 2.0, -1.0, 0.5)
WITH_ZERO = (1.5, 0.0, 2.0, -0.7)
ZERO_SUM = (0.5, -0.5, 2.0, -2.7)
LARGE = (1.0, -2.0, 1000.0, 0.3)
PLANE = (0.1, 0.7, 1.3, -0.4, 0.9, 2.1)
"""Three points in the plane."""
WEIGHTS = np.array([[0.3, -0.7, 0.2], [0.5, 0.1, -0.4], [-0.6, 0.8, 0.9], [0.2, 0.3, -0.5]])
MASK = np.array([True, False, True, True])
MISSING = np.array([0.7, NAN, -0.2, 1.1])
OTHERS = ~np.eye(3, dtype=bool)


def _array(xp: Any, values: np.ndarray) -> Any:
    return xp.asarray(values)


def _squares(xp: Any, x: Any) -> Any:
    """Squared distances of three points in the plane: zeros on the diagonal."""
    points = x.reshape(3, 2)
    differences = points[:, None, :] - points[None, :, :]
    return xp.sum(differences * differences, -1)


def _others(xp: Any) -> Any:
    return _array(xp, OTHERS)


def double_where_log(xp: Any, x: Any) -> Any:
    m = x > 0.2
    return xp.sum(xp.where(m, xp.log(xp.where(m, x, 0.0)), 0.0))


def single_where_log(xp: Any, x: Any) -> Any:
    return xp.sum(xp.where(x > 0.2, x * xp.log(x), 0.0))


def inner_where_sqrt(xp: Any, x: Any) -> Any:
    m = x > 0.2
    return xp.sum(xp.sqrt(xp.where(m, x, 0.0)) * xp.where(m, xp.sin(x), 0.0))


def sqrt_at_zero(xp: Any, x: Any) -> Any:
    m = x > 0.2
    return xp.sum(xp.where(m, xp.sqrt(xp.where(m, x, 0.0)), x * x))


def masked_quotient(xp: Any, x: Any) -> Any:
    b = xp.where(x > 0.2, x, 0.0)
    return xp.sum(xp.where(b > 0, xp.exp(-x) / b, 0.0))


def masked_quotient_of_squares(xp: Any, x: Any) -> Any:
    return xp.sum(xp.where(x > 0.2, xp.sin(x) / (x * x), 3.0 * x))


def negative_power(xp: Any, x: Any) -> Any:
    m = x > 0.2
    return xp.sum(xp.where(m, xp.where(m, x, 0.0) ** -3, 0.0))


def fractional_power(xp: Any, x: Any) -> Any:
    m = x > 0.2
    return xp.sum(xp.where(m, xp.where(m, x, 0.0) ** 0.3, x))


def arccos_outside(xp: Any, x: Any) -> Any:
    m = xp.abs(x) < 0.9
    return xp.sum(xp.where(m, xp.arccos(xp.where(m, x, 1.0)), 0.0))


def arctanh_outside(xp: Any, x: Any) -> Any:
    m = xp.abs(x) < 0.9
    return xp.sum(xp.where(m, xp.arctanh(xp.where(m, x, 1.0)), x * x))


def large_exponential(xp: Any, x: Any) -> Any:
    m = x > 50.0
    return xp.sum(xp.where(m, x, xp.log1p(xp.exp(x))))


def large_exponential_twice(xp: Any, x: Any) -> Any:
    m = x > 50.0
    return xp.sum(xp.where(m, x, xp.exp(xp.where(m, 1000.0, x)) ** 2))


def stable_sigmoid(xp: Any, x: Any) -> Any:
    return xp.sum(xp.where(x > 0, 1.0 / (1.0 + xp.exp(-x)), xp.exp(x) / (1.0 + xp.exp(x))) ** 2)


def nested_choices(xp: Any, x: Any) -> Any:
    m, n = x > 0.2, x > 1.2
    inner = xp.where(n, xp.log(xp.where(n, x, 0.0)), xp.sqrt(xp.where(m, x, 0.0)))
    return xp.sum(xp.where(m, inner, x**3))


def two_masks_one_pole(xp: Any, x: Any) -> Any:
    m, n = x > 0.2, x > 1.2
    pole = 1.0 / xp.where(m, x, 0.0)
    return xp.sum(xp.where(m, x * pole, 0.0) + xp.where(n, xp.sin(x) * pole, 0.0))


def both_conditions(xp: Any, x: Any) -> Any:
    m = (x > 0.2) & (x < 1.8)
    return xp.sum(xp.where(m, xp.log(xp.where(m, x, 0.0)), xp.cos(x)))


def not_the_pole(xp: Any, x: Any) -> Any:
    return xp.sum(xp.where(~(x > 0.2), x * x, xp.log(xp.where(x > 0.2, x, 0.0))))


def constant_mask(xp: Any, x: Any) -> Any:
    m = _array(xp, MASK)
    return xp.sum(xp.where(m, xp.log(xp.where(m, x, 0.0)), 0.0))


def constant_mask_matrix(xp: Any, x: Any) -> Any:
    m = _array(xp, MASK)
    y = xp.where(m, xp.log(xp.where(m, x, 0.0)), 0.0)
    return xp.sum((_array(xp, WEIGHTS).T @ y) ** 2)


def mixed_rows(xp: Any, x: Any) -> Any:
    y = _array(xp, WEIGHTS) @ x
    m = y > 0
    return xp.sum(xp.where(m, xp.log(xp.where(m, y, 0.0)), 0.0))


def mixed_rows_squared(xp: Any, x: Any) -> Any:
    y = _array(xp, WEIGHTS) @ x
    m = y > 0
    z = xp.where(m, xp.sqrt(xp.where(m, y, 0.0)), 0.0)
    return xp.sum((_array(xp, WEIGHTS).T @ z) ** 2)


def whole_choice(xp: Any, x: Any) -> Any:
    return xp.where(xp.sum(x) > 100.0, xp.sum(xp.log(xp.where(x > 0.2, x, 0.0))), xp.sum(x * x))


def missing_data(xp: Any, x: Any) -> Any:
    data = _array(xp, MISSING)
    return xp.sum(xp.where(xp.isnan(data), 0.0, (data - x) ** 2))


def missing_data_by_mask(xp: Any, x: Any) -> Any:
    return xp.sum(xp.where(_array(xp, MASK), (_array(xp, MISSING) - x) ** 3, 0.0))


def missing_data_before(xp: Any, x: Any) -> Any:
    data = _array(xp, MISSING)
    return xp.sum(xp.where(xp.isnan(data), 0.0, data - x) ** 3)


def nansum_of_logs(xp: Any, x: Any) -> Any:
    return xp.nansum(xp.log(xp.where(x > 0.2, x, NAN)) * x)


def entropy(xp: Any, x: Any) -> Any:
    p = xp.where(x > 0.2, x, 0.0)
    return -xp.sum(xp.where(p > 0, p * xp.log(xp.where(p > 0, p, 1.0)), 0.0))


def entropy_without_care(xp: Any, x: Any) -> Any:
    p = xp.where(x > 0.2, x, 0.0)
    return -xp.sum(xp.where(p > 0, p * xp.log(p), 0.0))


def clipped_log(xp: Any, x: Any) -> Any:
    return xp.sum(xp.log(xp.clip(x, 0.25, 10.0)) * x)


def maximum_of_logs(xp: Any, x: Any) -> Any:
    safe = xp.log(xp.where(x > 0.2, x, 1.0))
    return xp.sum(xp.where(x > 0.2, xp.maximum(safe, 0.1 * x), 0.0))


def relu_before_log(xp: Any, x: Any) -> Any:
    y = xp.maximum(x, xp.zeros_like(x))
    return xp.sum(xp.where(y > 0.2, xp.log(y), 0.0))


def huber_of_ratio(xp: Any, x: Any) -> Any:
    m = x > 0.2
    r = xp.where(m, 1.0 / xp.where(m, x, 0.0), 0.0)
    return xp.sum(xp.where(r < 1.0, 0.5 * r * r, r - 0.5))


def norm_or_zero(xp: Any, x: Any) -> Any:
    s = xp.sum(xp.where(x > 100.0, x, 0.0) ** 2)
    return xp.where(s > 0, xp.sqrt(s), 0.0) + xp.sum(x**3)


def sinc(xp: Any, x: Any) -> Any:
    m = xp.abs(x) > 1e-3
    return xp.sum(xp.where(m, xp.sin(x) / xp.where(m, x, 0.0), 1.0 - x * x / 6.0))


def pair_potential(xp: Any, x: Any) -> Any:
    r = xp.sqrt(xp.where(_others(xp), _squares(xp, x), 0.0))
    return xp.sum(xp.where(_others(xp), 1.0 / r, 0.0))


def pair_potential_without_care(xp: Any, x: Any) -> Any:
    return xp.sum(xp.where(_others(xp), _squares(xp, x) ** -0.5, 0.0))


def safe_pair_potential(xp: Any, x: Any) -> Any:
    r2 = xp.where(_others(xp), _squares(xp, x), 1.0)
    return xp.sum(xp.where(_others(xp), r2**-6 - r2**-3, 0.0))


def pairs_within_reach(xp: Any, x: Any) -> Any:
    r2 = _squares(xp, x)
    m = (r2 > 0.01) & (r2 < 2.0)
    r = xp.sqrt(xp.where(m, r2, 0.0))
    return xp.sum(xp.where(m, xp.exp(-r) / r, 0.0))


def log_distances(xp: Any, x: Any) -> Any:
    r2 = _squares(xp, x)
    return xp.sum(xp.where(_others(xp), xp.log(xp.where(_others(xp), r2, 0.0)), 0.0)) ** 2


def masked_attention(xp: Any, x: Any) -> Any:
    scores = xp.where(_others(xp), _squares(xp, x), -INFINITY)
    largest = xp.amax(scores, -1)[:, None]
    weights = xp.exp(scores - largest)
    return xp.sum((weights / xp.sum(weights, -1)[:, None]) ** 2)


def _entropies_of_sums(xp: Any, x: Any) -> Any:
    u = xp.cumsum(x, 0)
    return xp.where(u > 0.2, u * xp.log(u), 0.0)


def sliced(xp: Any, x: Any) -> Any:
    return xp.sum(_entropies_of_sums(xp, x)[:2] ** 2 + x[2:])


def sliced_in_steps(xp: Any, x: Any) -> Any:
    return xp.sum(xp.sin(_entropies_of_sums(xp, x)[1::2]) * x[:2])


def rolled_before(xp: Any, x: Any) -> Any:
    r = xp.concatenate([x[1:], x[:1]])
    return xp.sum(xp.where(r > 0.2, r * xp.sqrt(r), 0.0))


def rolled_after(xp: Any, x: Any) -> Any:
    y = _entropies_of_sums(xp, x)
    return xp.sum(xp.concatenate([y[1:], y[:1]]) * x * y)


def one_entry(xp: Any, x: Any) -> Any:
    y = _entropies_of_sums(xp, x)
    return y[1] * xp.sum(xp.sin(x)) + y[3] ** 2


def sum_chosen_by_none(xp: Any, x: Any) -> Any:
    return xp.sum(xp.where(x > 100.0, xp.sum(xp.log(x)), x * x))


def sum_chosen_by_some(xp: Any, x: Any) -> Any:
    return xp.sum(xp.where(x > 0.2, xp.sum(xp.log(xp.abs(x))), x * x))


def sum_of_pairs_chosen_by_none(xp: Any, x: Any) -> Any:
    r2 = _squares(xp, x)
    return xp.sum(xp.where(r2 > 100.0, xp.sum(xp.sqrt(r2)), r2 * r2))


def lower_triangle_of_roots(xp: Any, x: Any) -> Any:
    return xp.sum(xp.tril(xp.sqrt(x[:, None] - x + _array(xp, np.eye(4)))) ** 3)


def upper_triangle_of_logs(xp: Any, x: Any) -> Any:
    return xp.sum(xp.triu(xp.log(x - x[:, None] + _array(xp, WEIGHTS[0, 0] * np.eye(4)))) ** 2)


CASES = [
    Case("double where, log", double_where_log, MIXED),
    Case("double where, log at zero", double_where_log, (1.0, 0.0, 2.0, 0.5)),
    Case("single where, log", single_where_log, WITH_ZERO),
    Case("inner where, sqrt", inner_where_sqrt, WITH_ZERO),
    Case("sqrt at zero", sqrt_at_zero, WITH_ZERO),
    Case("quotient", masked_quotient, WITH_ZERO),
    Case("quotient of squares", masked_quotient_of_squares, WITH_ZERO),
    Case("negative power", negative_power, WITH_ZERO),
    Case("fractional power", fractional_power, WITH_ZERO),
    Case("arccos", arccos_outside, MIXED),
    Case("arctanh", arctanh_outside, MIXED),
    Case("large exponential", large_exponential, LARGE),
    Case("large exponential twice", large_exponential_twice, LARGE),
    Case("stable sigmoid", stable_sigmoid, LARGE),
    Case("nested choices", nested_choices, WITH_ZERO),
    Case("two masks, one pole", two_masks_one_pole, WITH_ZERO),
    Case("both conditions", both_conditions, WITH_ZERO),
    Case("not the pole", not_the_pole, WITH_ZERO),
    Case("constant mask", constant_mask, (1.0, 0.0, 2.0, 0.5)),
    Case("constant mask, matrix", constant_mask_matrix, (1.0, -0.3, 2.0, 0.5)),
    Case("rows of a matrix", mixed_rows, (1.0, 0.4, -0.5)),
    Case("rows of a matrix, squared", mixed_rows_squared, (1.0, 0.4, -0.5)),
    Case("whole choice", whole_choice, WITH_ZERO),
    Case("missing data", missing_data, MIXED),
    Case("missing data by mask", missing_data_by_mask, MIXED),
    Case("missing data before", missing_data_before, MIXED),
    Case("nansum of logs", nansum_of_logs, WITH_ZERO),
    Case("entropy", entropy, WITH_ZERO),
    Case("entropy without care", entropy_without_care, WITH_ZERO),
    Case("clipped log", clipped_log, WITH_ZERO),
    Case("maximum of logs", maximum_of_logs, WITH_ZERO),
    Case("relu before log", relu_before_log, (1.5, -0.3, 2.0, -0.7)),
    Case("huber of ratio", huber_of_ratio, WITH_ZERO),
    Case("norm or zero", norm_or_zero, WITH_ZERO),
    Case("sinc", sinc, WITH_ZERO),
    Case("lower triangle of roots", lower_triangle_of_roots, (-1.0, 0.4, 2.0, 2.5)),
    Case("upper triangle of logs", upper_triangle_of_logs, (-1.0, 0.4, 2.0, 2.5)),
    Case("pair potential", pair_potential, PLANE),
    Case("pair potential without care", pair_potential_without_care, PLANE),
    Case("safe pair potential", safe_pair_potential, PLANE),
    Case("pairs within reach", pairs_within_reach, PLANE),
    Case("log distances", log_distances, PLANE),
    Case("masked attention", masked_attention, PLANE),
    Case("sliced", sliced, ZERO_SUM),
    Case("sliced in steps", sliced_in_steps, ZERO_SUM),
    Case("rolled before", rolled_before, WITH_ZERO),
    Case("rolled after", rolled_after, ZERO_SUM),
    Case("one entry", one_entry, ZERO_SUM),
    Case("sum chosen by none", sum_chosen_by_none, WITH_ZERO),
    Case("sum chosen by some", sum_chosen_by_some, MIXED),
    Case("sum of pairs chosen by none", sum_of_pairs_chosen_by_none, PLANE),
]
