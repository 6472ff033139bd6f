"""The closed forms of the problems in JAX and torch, as an expert writes them there.

What is the same in every library is the form in NumPy with another namespace; here is what is placed or
padded, which each library has its own way for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from benchmarks.speed import problems_algebra as algebra
from benchmarks.speed import problems_chains as chains
from benchmarks.speed import problems_nested as nested
from benchmarks.speed import problems_papers as papers
from benchmarks.speed import problems_structure as structure
from benchmarks.speed.libraries import Library

Form = Callable[..., Any]


class Forms(NamedTuple):
    """The dense derivative, and what is kept of it; None: there is nothing to keep."""

    dense: Form
    kept: Form | None = None


def _in_blocks(library: Library, blocks: Form) -> Forms:
    """A block for each row of the variable."""

    def dense(*arguments: Any) -> Any:
        return library.block_diagonal(blocks(*arguments), len(arguments[0]))

    return Forms(dense, blocks)


def _pairs(library: Library) -> Forms:
    xp = library.xp

    def dense(x: Any) -> Any:
        n, d = x.shape
        difference = x[:, None, :] - x[None, :, :]
        w = 2 * xp.exp(-0.5 * xp.sum(difference * difference, axis=-1))
        columns = xp.swapaxes(difference, 1, 2)  # [i, a, j]
        unit = xp.eye(d, dtype=x.dtype)[:, None, :]
        parts = w[:, None, :, None] * (columns[:, :, :, None] * difference[:, None, :, :] - unit)
        return library.block_diagonal(xp.sum(parts, axis=2), n) - parts

    return Forms(dense, partial(structure.pairs_kept, xp=xp))


def _heads(library: Library) -> Forms:
    blocks = partial(structure.heads_blocks, xp=library.xp)

    def dense(Q: Any, K: Any, V: Any) -> Any:
        size = structure.HEAD_SIZE
        rows = library.xp.swapaxes(blocks(Q, K, V), 1, 2).reshape(-1, size, size)
        return library.block_diagonal(rows, len(rows)).reshape(*Q.shape, *Q.shape)

    return Forms(dense, blocks)


def _convolution(library: Library, margin: int = 0) -> Forms:
    def kept(x: Any, K: Any) -> Any:
        y = library.xp.tanh(library.convolved(x, K, margin))
        return 1 - y * y, K

    return Forms(lambda x, K: library.toeplitz(kept(x, K)[0], K, x.shape[1], margin), kept)


def _tridiagonal(library: Library, bands: Form) -> Forms:
    def dense(x: Any) -> Any:
        diagonal, off = bands(x)
        return library.banded({0: diagonal, 1: off, -1: off})

    return Forms(dense, bands)


def _rosenbrock(library: Library) -> Forms:
    def bands(x: Any) -> Any:
        rows = 1200.0 * x[:-1] ** 2 - 400.0 * x[1:] + 2
        beside = 200.0 * library.xp.ones_like(rows)
        return library.padded(rows, (0, 1)) + library.padded(beside, (1, 0)), -400.0 * x[:-1]

    return _tridiagonal(library, bands)


def _rod(library: Library) -> Forms:
    xp = library.xp

    def bands(u: Any) -> Any:
        n = len(u)
        strain = (u[1:] - u[:-1]) * (n + 1)
        root = 1 + strain * strain
        curvature = (n + 1) / (root * xp.sqrt(root))
        coupled = library.padded(curvature, (1, 0)) + library.padded(curvature, (0, 1))
        return coupled - xp.exp(u) / (n + 1), -curvature

    return _tridiagonal(library, bands)


def _surface(library: Library) -> Forms:
    def kept(u: Any) -> Any:
        n = len(u)
        a = (u[1:, :-1] - u[:-1, :-1]) * n
        b = (u[:-1, 1:] - u[:-1, :-1]) * n
        root = 1 + a * a + b * b
        cube = 1 / (root * library.xp.sqrt(root))
        aa, bb, ab = (1 + b * b) * cube, (1 + a * a) * cube, -a * b * cube
        down, right = aa + ab, bb + ab
        before, after = (1, 0), (0, 1)
        diagonal = u * u * (12 / n**2) + library.padded(down + right, after, after)
        diagonal = diagonal + library.padded(aa, before, after) + library.padded(bb, after, before)
        return diagonal, -down, -right, ab

    def dense(u: Any) -> Any:
        n = len(u)
        diagonal, down, right, across = kept(u)
        bands = {
            1: library.padded(right, (0, 1), (0, 1)).reshape(-1)[: n * n - 1],
            n: library.padded(down, (0, 0), (0, 1)).reshape(-1),
            n - 1: library.padded(across, (0, 1), (1, 0)).reshape(-1)[: n * n - n + 1],
        }
        mirrored = {-offset: band for offset, band in bands.items()}
        return library.banded({0: diagonal.reshape(-1), **bands, **mirrored}).reshape(n, n, n, n)

    return Forms(dense, kept)


def _control(library: Library) -> Forms:
    xp, states, controls, step = library.xp, chains.STATES, chains.CONTROLS, chains.STEP

    def kept(Z: Any, A: Any, B: Any) -> Any:
        x, u = Z[:, :states], Z[:, states:]
        y = xp.tanh(x[:-1])
        slope = 1 - y * y
        defect = x[1:] - x[:-1] - step * (y @ A.T + u[:-1] @ B.T)
        by_state = -step * A * slope[:, None, :] - xp.eye(states, dtype=Z.dtype)
        by_control = xp.broadcast_to(-step * B, (len(Z) - 1, states, controls))
        jacobian = xp.concatenate([by_state, by_control], axis=2)
        above = chains.PENALTY * xp.swapaxes(jacobian, 1, 2)
        curved = (2 * chains.PENALTY * step) * (defect @ A) * y * slope
        moved = library.padded(xp.ones_like(x[1:]), (1, 0)) * chains.PENALTY
        on_states = library.padded(curved, (0, 1)) + moved + 1
        entries = xp.concatenate([on_states, 0.1 * xp.ones_like(u)], axis=1)
        own = xp.where(xp.eye(states + controls, dtype=bool), entries[:, :, None], 0)
        return library.padded(above @ jacobian, (0, 1)) + own, above

    def dense(Z: Any, A: Any, B: Any) -> Any:
        diagonal, above = kept(Z, A, B)
        whole = library.padded(above, (0, 0), (0, 0), (0, controls))
        return library.block_banded({0: diagonal, 1: whole, -1: xp.swapaxes(whole, 1, 2)})

    return Forms(dense, kept)


def _newton(library: Library) -> Forms:
    def dense(U: Any, V: Any, T: Any) -> Any:
        matrix = library.block_diagonal(papers.factorisation_core(U, V, T), len(U))
        gradient = -2 * ((T - U @ V.T) @ V)
        size = gradient.size
        return library.xp.linalg.solve(matrix.reshape(size, size), gradient.reshape(-1)).reshape(U.shape)

    return Forms(dense, partial(algebra.newton_kept, xp=library.xp))


def forms(library: Library) -> dict[str, Forms]:
    """By the name of the problem."""
    xp = library.xp
    found: dict[str, Forms] = {
        "quadratic": Forms(papers.quadratic_hessian, papers.quadratic_hessian),
        "logistic regression": Forms(*[partial(papers.logistic_hessian, xp=xp)] * 2),
        "ten-layer ReLU net, first layer": Forms(
            partial(papers.network_hessian, xp=xp), partial(papers.network_factors, xp=xp)
        ),
        "pair potential": _pairs(library),
        "attention by Q": _in_blocks(library, partial(structure.attention_blocks, xp=xp)),
        "multi-head attention by Q": _heads(library),
        "convolution and tanh": _convolution(library),
        "padded convolution and tanh": _convolution(library, structure.MARGIN),
        "batch as a sum": _in_blocks(library, partial(structure.batch_blocks, xp=xp)),
        "log-determinant": Forms(
            partial(algebra.log_determinant_hessian, xp=xp), partial(algebra.log_determinant_kept, xp=xp)
        ),
        "third derivative of a Poisson model": Forms(
            partial(algebra.poisson_third, xp=xp), partial(algebra.poisson_kept, xp=xp)
        ),
        "PARAFAC by A": _in_blocks(library, algebra.parafac_core),
        "B g(h(A x))": Forms(*[partial(algebra.composed_jacobian, xp=xp)] * 2),
        "Newton step of a factorisation, k = 10": _newton(library),
        "Rosenbrock chain": _rosenbrock(library),
        "rod energy (1-d)": _rod(library),
        "surface energy (2-d)": _surface(library),
        "optimal control": _control(library),
        "tiny Rosenbrock": Forms(_rosenbrock(library).dense),
    }
    for k in (5, 20):
        found[f"factorisation, k = {k}"] = _in_blocks(library, papers.factorisation_core)
        found[f"masked factorisation, k = {k}"] = _in_blocks(library, papers.masked_core)
    plain = {
        "quadratic, value and gradient": papers.quadratic_gradient,
        "logistic regression, value and gradient": papers.logistic_gradient,
        "factorisation, k = 20, value and gradient": papers.factorisation_gradient,
        "masked factorisation, k = 20, value and gradient": papers.masked_gradient,
        "ten-layer ReLU net, value and gradient": papers.network_gradient,
        "Gaussian-process likelihood": algebra.gaussian_process_hessian,
        "Hessian-vector product of a perceptron": nested.perceptron_product,
        "Laplacian of a perceptron": nested.field_laplacian,
        "dense third derivative": nested.log_sum_exp_third,
    }
    return found | {name: Forms(partial(form, xp=xp)) for name, form in plain.items()}
