"""Derivatives where there are none: each library's own, run here, against the formulas for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import hesse
from hesse.calculus import reverse
from hesse.ir import Node, total, variable
from hesse.ops.conventions import CONVENTIONS, KINKS, convention
from libraries import LIBRARIES, NUMPY, plain, values_of

FUNCTIONS: dict[str, dict[str, Callable[..., Any]]] = {
    "numpy": {
        "abs": np.abs,
        "clip": lambda x: np.clip(x, -1.0, 1.0),
        "hard_tanh": hesse.hard_tanh,
        "leaky_relu": hesse.leaky_relu,
        "max": np.max,
        "maximum": np.maximum,
        "minimum": np.minimum,
        "norm": np.linalg.norm,
        "relu": hesse.relu,
    },
    "jax": {
        "abs": jnp.abs,
        "clip": lambda x: jnp.clip(x, -1.0, 1.0),
        "hard_tanh": jax.nn.hard_tanh,
        "leaky_relu": jax.nn.leaky_relu,
        "max": jnp.max,
        "maximum": jnp.maximum,
        "minimum": jnp.minimum,
        "norm": jnp.linalg.norm,
        "relu": jax.nn.relu,
    },
    "torch": {
        "abs": torch.abs,
        "clip": lambda x: torch.clamp(x, -1.0, 1.0),
        "hard_tanh": torch.nn.functional.hardtanh,
        "leaky_relu": torch.nn.functional.leaky_relu,
        "max": torch.amax,
        "maximum": torch.maximum,
        "minimum": torch.minimum,
        "norm": torch.linalg.vector_norm,
        "relu": torch.relu,
    },
}
"""The functions as users call them; those of NumPy are traced by hesse."""
by_library = pytest.mark.parametrize("library", FUNCTIONS)
by_name = pytest.mark.parametrize("name", KINKS)
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # 0/0 at the kink of a norm


def library_gradients(
    library: str, function: Callable[..., Any], points: list[np.ndarray]
) -> list[np.ndarray]:
    """The gradients of the sum of a function, by the library itself."""
    positions = tuple(range(len(points)))
    if library == "torch":
        tensors = [torch.tensor(point, requires_grad=True) for point in points]
        return [plain(g) for g in torch.autograd.grad(function(*tensors).sum(), tensors)]
    if library == "jax":
        return [
            plain(g) for g in jax.grad(lambda *x: jnp.sum(function(*x)), positions)(*map(jnp.array, points))
        ]
    return list(hesse.grad(lambda *x: np.sum(function(*x)), positions)(*points))


def own_gradients(
    function: Callable[..., Node], points: list[np.ndarray], back_end: str = "numpy"
) -> list[np.ndarray]:
    """The gradients of the formula, by hesse."""
    operands = [variable(f"x{k}", point.shape) for k, point in enumerate(points)]
    node = function(*operands)
    values = {f"x{k}": point for k, point in enumerate(points)}
    gradients = reverse(total(node, range(node.rank)), operands)
    return [plain(value) for value in values_of(gradients, values, LIBRARIES[back_end], "float64")]


@by_name
@by_library
def test_derivatives_at_kinks_are_those_of_the_library(library: str, name: str) -> None:
    points = list(map(np.array, KINKS[name]))
    expected = library_gradients(library, FUNCTIONS[library][name], points)
    for back_end in LIBRARIES:
        found = own_gradients(convention(library, name), points, back_end)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)


@by_name
@by_library
def test_beside_their_kinks_all_are_equal(library: str, name: str) -> None:
    generator = np.random.default_rng(0)
    points = [point + generator.uniform(0.1, 0.4, len(point)) for point in KINKS[name]]
    expected = library_gradients(library, FUNCTIONS[library][name], points)
    for one, other in zip(own_gradients(convention(library, name), points), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_only_what_differs_is_named() -> None:
    """A column holds nothing that NumPy's has already."""
    for library in ("jax", "torch"):
        for name, function in CONVENTIONS[library].items():
            points = list(map(np.array, KINKS[name]))
            pairs = zip(
                own_gradients(function, points), own_gradients(convention("numpy", name), points), strict=True
            )
            assert not all(np.array_equal(one, other, equal_nan=True) for one, other in pairs), name


def test_bounds_of_clamp_have_torch_derivatives() -> None:
    """By the bounds, too, also where the lower one is above the upper one."""
    x, low, high = (
        np.array(v) for v in ([-2.0, -1.0, 0.0, 1.0, 2.0, 0.0], [-1.0] * 5 + [1.0], [1.0] * 5 + [-1.0])
    )
    expected = library_gradients("torch", torch.clamp, [x, low, high])
    for one, other in zip(own_gradients(_clamp, [x, low, high]), expected, strict=True):
        np.testing.assert_array_equal(one, other)


def _clamp(x: Node, low: Node, high: Node) -> Node:
    return hesse.ops.elementwise.clamp(x, low, high)


def test_distances_of_equal_points() -> None:
    """A pair potential over all pairs, i = i included: `safe_norm` gives what `torch.cdist` gives."""
    x = np.random.default_rng(1).normal(size=(4, 3))

    def energy(x: Any) -> Any:
        distances = hesse.safe_norm(x[:, None] - x[None, :], axis=-1)
        return np.sum(np.exp(-distances) + distances**3)

    points = torch.tensor(x, requires_grad=True)
    distances = torch.cdist(points, points, compute_mode="donot_use_mm_for_euclid_dist")
    (expected,) = torch.autograd.grad((torch.exp(-distances) + distances**3).sum(), points)
    np.testing.assert_allclose(hesse.grad(energy)(x), plain(expected), rtol=1e-12)
    hessian = hesse.hessian(energy)(x)
    assert np.isfinite(hessian).all()
    step = 1e-6
    for row in np.ndindex(x.shape):
        moved = np.zeros_like(x)
        moved[row] = step
        difference = (hesse.grad(energy)(x + moved) - hesse.grad(energy)(x - moved)) / (2 * step)
        np.testing.assert_allclose(hessian[row], difference, rtol=1e-5, atol=1e-6)
    with np.errstate(all="ignore"):
        plainly = hesse.grad(lambda x: np.sum(np.linalg.norm(x[:, None] - x[None, :], axis=-1)))(x)
    assert np.isnan(plainly).all(), "np.linalg.norm has no derivative at 0, and says so"


def test_shared_maximum_of_special_values() -> None:
    shared = convention("jax", "max")
    x = variable("x", (4, 3))
    points = np.array([[1.0, -np.inf, 1.0], [np.inf, 0.0, 2.0], [np.nan, 1.0, 2.0], [-1.0, -2.0, -3.0]])
    (found,) = values_of([shared(x)], {"x": points}, NUMPY, "float64")
    np.testing.assert_array_equal(found, points.max(axis=1))
