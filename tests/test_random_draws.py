"""Random numbers inside a function are refused, never drawn once for all calls."""

from __future__ import annotations

import os
import random
import secrets
from collections.abc import Callable
from os import urandom as noise_of_the_system
from random import gauss
from secrets import randbits as bits
from typing import Any

import numpy as np
import pytest
import torch
from numpy.random import default_rng, normal

import hesse
from hesse.errors import TracingError

GENERATOR = np.random.default_rng(3)
X = np.array([1.0, 2.0, 3.0])


class Model:
    def __init__(self) -> None:
        self.rng = np.random.default_rng(1)

    def loss(self, x: Any) -> Any:
        return np.sum(x**2 * self.rng.normal(size=3))


def noise() -> Any:
    return np.random.normal(size=3)


DRAWING: list[Callable[[Any], Any]] = [
    lambda x: np.sum(x**2 * np.random.normal(size=3)),
    lambda x: np.sum(x**2 * noise()),
    lambda x: np.sum(x**2 * normal(size=3)),
    lambda x: np.sum(x**2 * GENERATOR.normal(size=3)),
    lambda x: np.sum(x**2 * default_rng().normal(size=3)),
    lambda x: np.sum(x**2 * np.random.default_rng().normal(size=3)),
    lambda x: np.sum(x**2) * random.random(),
    lambda x: np.sum(x**2) * gauss(0.0, 1.0),
    lambda x: np.sum(x[np.random.permutation(3)[:2]] ** 2),
    lambda x: np.sum(x**2) * np.random.choice([-1.0, 1.0]),
    Model().loss,
    lambda x: np.sum(x**2) * secrets.randbelow(1000),
    lambda x: np.sum(x**2) * secrets.token_bytes(4)[0],
    lambda x: np.sum(x**2) * os.urandom(4)[0],
    lambda x: np.sum(x**2) * bits(30),
    lambda x: np.sum(x**2) * noise_of_the_system(4)[1],
]


@pytest.mark.parametrize("function", DRAWING, ids=map(str, range(len(DRAWING))))
def test_draws_are_refused(function: Callable[[Any], Any]) -> None:
    for derivative in (hesse.grad(function), hesse.compile(function)):
        with pytest.raises(TracingError, match=r"draws random numbers.*default_rng\(0\)"):
            derivative(X)


def test_a_generator_that_is_an_argument() -> None:
    def function(x: Any, rng: Any) -> Any:
        return np.sum(x**2 * rng.normal(size=3))

    with pytest.raises(TracingError, match="function draws random numbers"):
        hesse.grad(function)(X, np.random.default_rng(0))


def test_a_result_that_is_drawn() -> None:
    with pytest.raises(TracingError, match="draws random numbers"):
        hesse.compile(lambda x: (x, np.random.normal()))(X)


def test_seeds_inside_of_a_function_are_its_own() -> None:
    def function(x: Any) -> Any:
        return np.sum(x**2 * np.random.default_rng(0).normal(size=3))

    gradient = hesse.grad(function)
    expected = 2 * X * np.random.default_rng(0).normal(size=3)
    np.testing.assert_allclose(gradient(X), expected)
    np.testing.assert_allclose(gradient(X), expected)


def test_draws_that_do_not_matter() -> None:
    def function(x: Any) -> Any:
        np.random.normal()
        return np.sum(x**2)

    np.testing.assert_allclose(hesse.grad(function)(X), 2 * X)


def test_noise_as_an_argument() -> None:
    gradient = hesse.grad(lambda x, noise: np.sum(x**2 * noise))
    for _ in range(2):
        drawn = np.random.normal(size=3)
        np.testing.assert_allclose(gradient(X, drawn), 2 * X * drawn)


DRAWS: list[Callable[[], Any]] = [
    lambda: np.random.default_rng(0).normal(size=3),
    lambda: np.random.default_rng(0).permutation(3),
    lambda: np.random.RandomState(0).rand(3),
]


@pytest.mark.parametrize("draw", DRAWS, ids=map(str, range(len(DRAWS))))
def test_draws_beside_arrays_that_are_filled(draw: Callable[[], Any]) -> None:
    def function(x: Any) -> Any:
        out = np.zeros(3)
        out[0] = x[0]
        return np.sum(out * draw())

    np.testing.assert_allclose(hesse.grad(function)(X), [draw()[0], 0.0, 0.0])
    import numpy.random.mtrand as compiled  # noqa: PLC0415

    assert compiled.np is np


def test_draws_of_pytorch() -> None:
    with pytest.raises(TracingError, match="draws random numbers"):
        hesse.grad(lambda x: np.sum(x**2) * torch.rand(()).item())(X)


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")  # of torch.func
@pytest.mark.parametrize("transformed", [torch.func.jacrev, torch.func.jacfwd])
def test_first_calls_inside_of_transformations_of_torch(transformed: Callable[..., Any]) -> None:
    """What generators will do next is looked at there, too."""
    x = torch.tensor([1.0, 2.0])
    torch.testing.assert_close(transformed(hesse.grad(lambda x: (x**3).sum()))(x), torch.diag(6 * x))
    with pytest.raises(TracingError, match="draws random numbers"):
        transformed(hesse.grad(lambda x: (x**3 * torch.rand(2).tolist()[0]).sum()))(x)
