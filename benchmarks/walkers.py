"""`python -m benchmarks.walkers`: local energies of variational Monte Carlo, by hesse, folx and JAX.

The wave function is a small net with a determinant, as for an atom with six electrons. Its local energy is
`-(laplacian(log_psi) + |grad(log_psi)|^2) / 2 + potential`, for many walkers at once. All candidates must
agree in double precision; then they are timed in turns, in both precisions, on the device that JAX uses.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import folx
import jax
import jax.numpy as jnp
import numpy as np

import hesse
from benchmarks.texts import columns, ratio_text, time_text

ELECTRONS, WIDTH, FEATURES = 6, 32, 8
SECONDS, FEWEST = 2.0, 15
TOLERANCE = 1e-6

Energy = Callable[[Any, Any], Any]


def parameters() -> dict[str, Any]:
    """Random weights of the net."""
    random = np.random.default_rng(0)

    def matrix(rows: int, count: int) -> np.ndarray:
        return random.normal(size=(rows, count)) / np.sqrt(rows)

    inputs = (FEATURES, 3 * WIDTH, 3 * WIDTH)
    return {
        "layers": [(matrix(rows, WIDTH), 0.1 * random.normal(size=WIDTH)) for rows in inputs],
        "orbitals": matrix(WIDTH, ELECTRONS),
        "decay": np.ones(ELECTRONS),
        "pairs": np.array(0.5),
    }


def distances(x: Any) -> tuple[Any, Any, Any, Any]:
    """Positions, their distances to the nucleus, differences, and distances of pairs (1 on the diagonal)."""
    r = x.reshape(ELECTRONS, 3)
    apart = r[:, None] - r[None]
    pairs = jnp.sqrt(jnp.sum(apart * apart, -1) + jnp.eye(ELECTRONS))
    return r, jnp.sqrt(jnp.sum(r * r, -1)), apart, pairs


def log_psi(x: Any, p: dict[str, Any]) -> Any:
    """The logarithm of the absolute value of the wave function, of one walker."""
    r, radii, apart, pairs = distances(x)
    h = jnp.concatenate([r, radii[:, None], jnp.mean(apart, 1), jnp.mean(pairs, 1)[:, None]], 1)
    for k, (weight, bias) in enumerate(p["layers"]):
        if k:
            mean = jnp.broadcast_to(jnp.mean(h, 0), h.shape)
            h = jnp.concatenate([h, mean, jnp.tanh(-pairs) @ h / ELECTRONS], 1)
        h = jnp.tanh(h @ weight + bias)
    orbitals = (h @ p["orbitals"]) * jnp.exp(-radii[:, None] * p["decay"])
    return jnp.linalg.slogdet(orbitals)[1] - p["pairs"] * jnp.sum(jnp.triu(jnp.exp(-pairs), 1))


def energy(x: Any, laplacian: Any, gradient: Any) -> Any:
    """The local energy from the derivatives."""
    _, radii, _, pairs = distances(x)
    potential = jnp.sum(jnp.triu(1.0 / pairs, 1)) - ELECTRONS * jnp.sum(1.0 / radii)
    return potential - 0.5 * (laplacian + jnp.sum(gradient**2))


def by_hesse(x: Any, p: Any) -> Any:
    def of_walker(x: Any) -> Any:
        return log_psi(x, p)

    return energy(x, hesse.laplacian(of_walker)(x), hesse.grad(of_walker)(x))


def by_folx(x: Any, p: Any) -> Any:
    found = folx.forward_laplacian(lambda x: log_psi(x, p))(x)
    return energy(x, found.laplacian, found.jacobian.dense_array)


def forward_over_reverse(x: Any, p: Any) -> Any:
    gradient = jax.grad(log_psi)

    def step(k: Any, total: Any) -> Any:
        unit = jnp.zeros_like(x).at[k].set(1.0)
        return total + jax.jvp(lambda x: gradient(x, p), (x,), (unit,))[1][k]

    laplacian = jax.lax.fori_loop(0, x.size, step, jnp.zeros((), x.dtype))
    return energy(x, laplacian, gradient(x, p))


def trace_of_hessian(x: Any, p: Any) -> Any:
    return energy(x, jnp.trace(jax.hessian(log_psi)(x, p)), jax.grad(log_psi)(x, p))


CANDIDATES: dict[str, Energy] = {
    "hesse": by_hesse,
    "folx": by_folx,
    "forward over reverse": forward_over_reverse,
    "trace of the Hessian": trace_of_hessian,
}


def measured(walkers: int, dtype: str, expected: np.ndarray | None) -> tuple[list[str], np.ndarray]:
    """A row of the table, and the energies; an error where candidates disagree in double precision."""
    random = np.random.default_rng(1)
    x = jnp.asarray(random.normal(size=(walkers, 3 * ELECTRONS)), dtype)
    given = jax.tree.map(lambda array: jnp.asarray(array, dtype), parameters())
    calls, first = {}, {}
    for name, candidate in CANDIDATES.items():
        run = jax.jit(jax.vmap(candidate, (0, None)))
        start = time.perf_counter()
        found = np.asarray(run(x, given))
        first[name] = time.perf_counter() - start
        expected = found if expected is None else expected
        if dtype == "float64":
            error = np.median(np.abs(found - expected) / np.maximum(1.0, np.abs(expected)))
            assert error < TOLERANCE, f"{name} disagrees by {error:.1e}"
        calls[name] = lambda run=run: jax.block_until_ready(run(x, given))
    samples: dict[str, list[float]] = {name: [] for name in calls}
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end or min(map(len, samples.values())) < FEWEST:
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            samples[name].append(time.perf_counter() - start)
    median = {name: statistics.median(times) for name, times in samples.items()}
    others = min(seconds for name, seconds in median.items() if name != "hesse")
    cells = [f"{time_text(median[name])} ({time_text(first[name])})" for name in calls]
    assert expected is not None
    return [f"{walkers:,}", dtype, *cells, ratio_text(median["hesse"] / others)], expected


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.walkers", description=__doc__)
    parser.add_argument("--walkers", type=int, default=4096)
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    expected, body = None, []
    for dtype in ("float64", "float32"):
        row, expected = measured(options.walkers, dtype, expected)
        body.append(row)
    headings = ["walkers", "precision", *CANDIDATES, "hesse to the fastest other"]
    print(f"{jax.devices()[0].device_kind}, JAX {jax.__version__}; medians, first calls in parentheses")
    print(columns(headings, body))
    return 0


if __name__ == "__main__":
    sys.exit(main())
