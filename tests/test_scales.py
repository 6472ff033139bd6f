"""Factors wait until multiplying by them costs least; values stay the same."""

import numpy as np
import pytest

import hesse
from hesse.backends.numpy.factors import common_factors
from hesse.backends.numpy.machine import NUMPY_MACHINE
from hesse.backends.numpy.scales import _Waiting, with_few_scales
from hesse.plan import make_plan
from hesse.plan.program import Contract, Load, Program, Scale

RANDOM = np.random.default_rng(0)
POINTS, WIDTH = 60, 12
ARGUMENTS = (
    RANDOM.normal(size=(WIDTH, WIDTH)) / WIDTH**0.5,
    RANDOM.normal(size=(POINTS, 1)),
    RANDOM.normal(size=WIDTH),
)


def loss(weight, x, first):
    """The square of the fourth derivative of a net, summed over points."""

    def net(x):
        return np.sum(np.tanh(np.tanh(np.tanh(x * first) @ weight.T) @ weight))

    return np.mean((hesse.diagonal(net, order=4)(x) - np.sin(x)) ** 2)


def plan_of(function, *arguments):
    return make_plan(function.explain(*arguments).roots, NUMPY_MACHINE)


def scaled_entries(program):
    found = [k for k, item in enumerate(program.instructions) if isinstance(item, Scale)]
    return sum(np.prod(program.shapes[k]) for k in found)


def test_half_of_the_multiplications_by_numbers_are_left():
    plan = plan_of(hesse.value_and_grad(loss, argnums=(0, 2)), *ARGUMENTS)
    found = with_few_scales(plan)
    assert scaled_entries(found) < 0.6 * scaled_entries(plan)
    assert found.total_flops < plan.total_flops
    assert [found.shapes[k] for k in found.results] == [plan.shapes[k] for k in plan.results]


@pytest.mark.parametrize("points", [57, 60, 71])
def test_no_multiples_close_to_one_are_left(points):
    """The mean divides by the number of points, so factors are numbers of many digits."""
    given = ARGUMENTS[0], np.linspace(0.0, 1.0, points)[:, None], ARGUMENTS[2]
    found = with_few_scales(plan_of(hesse.value_and_grad(loss, argnums=(0, 2)), *given))
    factors = [item.factor for item in found.instructions if isinstance(item, Scale)]
    assert not [factor for factor in factors if abs(abs(factor) - 1) < 1e-9]
    assert len(factors) < 40  # 50 of 57 points if sums do not follow each other


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_values_stay_the_same(dtype):
    derivative = hesse.value_and_grad(loss, argnums=(0, 2))
    reference = hesse.value_and_grad(loss, argnums=(0, 2), backend="jax")  # which has no such pass
    expected_value, expected_gradients = reference(*ARGUMENTS)
    value, gradients = derivative.compile(backend="numpy")(*(a.astype(dtype) for a in ARGUMENTS))
    tolerance = 1e-11 if dtype == "float64" else 2e-4
    for one, other in zip((value, *gradients), (expected_value, *expected_gradients), strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance * np.abs(other).max())


def test_large_factors_do_not_wait():
    """Products of large multiples are multiplied by their factor before numbers leave their range."""
    shape, own = (4,), ((0,), (0,), (0,))
    items = [Load("x"), Load("y"), Scale(0, 1e5), Scale(1, -1e-5)]
    for k in range(6):
        items += [Contract(len(items) - 2, len(items) - 2 - k % 2, *own), Scale(len(items), 1e5)]
    program = Program(tuple(items), (shape,) * len(items), (0.0,) * len(items), (len(items) - 1,), 0)
    for factors in common_factors(program):
        found = _Waiting(program, factors).run()
        assert all(1e-13 < abs(item.factor) < 1e13 for item in found.instructions if isinstance(item, Scale))


def test_factors_meet_functions_and_results():
    def function(x, y):
        tripled = 3.0 * x * y
        total = 2.0 * np.outer(x, y) + 2.0 * np.outer(y, x)
        return np.tanh(tripled), total, -total, total @ tripled, np.sum(total * total), 0.5 * total[1:3]

    x, y = RANDOM.normal(size=4), RANDOM.normal(size=4)
    compiled = hesse.compile(function)
    for _ in range(2):
        for one, other in zip(compiled(x, y), function(x, y), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12)


def test_programs_that_would_not_gain_stay_as_they_are():
    plan = plan_of(hesse.grad(lambda x, y: np.sum((x - 2.0 * y) ** 2)), ARGUMENTS[2], ARGUMENTS[2])
    assert with_few_scales(plan) is plan


@pytest.mark.parametrize("count", [50, 5])
def test_factors_of_picked_rows_are_factors_of_what_is_smaller(count):
    """Rows of the multiple, or multiples of the rows; a value that is used elsewhere stays as it is."""
    x, index = RANDOM.normal(size=(20, 3)), RANDOM.integers(0, 20, size=count)
    rows = hesse.compile(lambda x: -3.0 * np.exp(x)[index])
    np.testing.assert_allclose(rows(x), -3.0 * np.exp(x[index]), rtol=1e-14)
    program = rows.explain(x).program
    assert scaled_entries(program) == 3 * min(count, 20)
    both = hesse.compile(lambda x: (np.exp(x)[index], -np.exp(x)[index]))
    for found, sign in zip(both(x), (1.0, -1.0), strict=True):
        np.testing.assert_allclose(found, sign * np.exp(x[index]), rtol=1e-14)


@pytest.mark.parametrize("factor", [1.5, 3.0, 0.75, 0.1])
def test_factors_are_quotients_of_whole_numbers(factor):
    """Taken out as 0.666666666666667, a factor would move values below the whole number that they are."""

    def rest(x):
        return (x + 1.0) * factor - np.floor((x + 1.0) * factor)

    x = np.array([1.0, 3.0, 5.0])
    np.testing.assert_allclose(hesse.compile(rest)(x), rest(x), rtol=0, atol=1e-15)
    gradient = hesse.grad(lambda x: np.sum(rest(x) ** 2))(x)
    np.testing.assert_allclose(gradient, 2.0 * factor * rest(x), rtol=0, atol=1e-14)
