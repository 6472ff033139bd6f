"""Test functions of optimisation, as they are written: values, gradients, Hessians and Jacobians."""

from __future__ import annotations

import numpy as np
import pytest

import hesse
from objectives import GLOBAL, LEAST_SQUARES
from test_numpy_meaning import agrees


@pytest.mark.parametrize("name", GLOBAL)
def test_functions_of_global_optimisation(name: str) -> None:
    function, point = GLOBAL[name]
    agrees(function, point)


@pytest.mark.parametrize("name", LEAST_SQUARES)
def test_residuals_that_fill_arrays(name: str) -> None:
    function, point = LEAST_SQUARES[name]
    value, jacobian = hesse.compile(function), hesse.jacobian(function)
    for x in (point, 0.9 * point):
        np.testing.assert_allclose(value(x), function(x), rtol=1e-11, atol=1e-13)
        expected = [(function(x + e) - function(x - e)) / 2e-5 for e in 1e-5 * np.eye(len(x))]
        np.testing.assert_allclose(jacobian(x), np.transpose(expected), rtol=1e-6, atol=1e-8)
    if len(function(point)) <= 6:  # the Hessians of the others take seconds
        agrees(lambda x: np.sum(np.sin(function(x) / 9)), point)
