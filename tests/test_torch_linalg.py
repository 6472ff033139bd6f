"""Linear algebra of torch functions: derivatives against nested `torch.func.jacrev` and by hand."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.torch_nested import assert_agrees, assert_equal, nested
from torch import Tensor, linalg

import hesse
from hesse.errors import DifferentiationError

_generator = torch.Generator().manual_seed(7)


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=_generator)


def definite(*shape: int) -> Tensor:
    a = random(*shape)
    return a @ a.mT / shape[-1] + 1.5 * torch.eye(shape[-1], dtype=torch.float64)


SQUARE = random(3, 3) + 3 * torch.eye(3, dtype=torch.float64)
BATCH = random(2, 3, 3) + 3 * torch.eye(3, dtype=torch.float64)
DEFINITE, DEFINITE_BATCH = definite(3, 3), definite(2, 3, 3)
VECTOR, COLUMNS, ROWS, TALL, WIDE = random(3), random(3, 2), random(2, 3), random(4, 3), random(2, 3)


def summed(results: Any) -> Tensor:
    """A number that depends on all entries of all real results, each in its own way."""
    parts = [results] if isinstance(results, Tensor) else [r for r in results if r.dtype.is_floating_point]
    total = torch.zeros((), dtype=torch.float64)
    for part in parts:
        weights = torch.linspace(0.5, 1.5, part.numel(), dtype=torch.float64)
        total = total + (weights.reshape(part.shape) * torch.sin(part)).sum()
    return total


Case = tuple[Callable[..., Any], tuple[Tensor, ...], int]
CASES: dict[str, Case] = {
    "inv": (linalg.inv, (SQUARE,), 2),
    "inverse of a batch": (torch.inverse, (BATCH,), 1),
    "inv_ex": (lambda a: linalg.inv_ex(a)[0], (SQUARE,), 2),
    "det": (torch.det, (SQUARE,), 2),
    "det of a batch": (linalg.det, (BATCH,), 2),
    "slogdet": (lambda a: linalg.slogdet(a).logabsdet, (SQUARE,), 3),
    "sign of slogdet": (lambda a: torch.slogdet(-a).sign * torch.slogdet(a)[1], (BATCH,), 2),
    "logdet": (torch.logdet, (SQUARE,), 2),
    "logdet of a batch": (torch.logdet, (BATCH,), 2),
    "solve for a vector": (linalg.solve, (SQUARE, VECTOR), 2),
    "solve for columns": (lambda a, b: summed(linalg.solve(a, b)), (SQUARE, COLUMNS), 2),
    "solve from the right": (lambda a, b: summed(linalg.solve(a, b, left=False)), (SQUARE, ROWS), 2),
    "solve for a batch of vectors": (lambda a, b: summed(linalg.solve(a, b)), (BATCH, random(2, 3)), 2),
    "solve with one right side": (lambda a, b: summed(linalg.solve(a, b)), (BATCH, COLUMNS), 2),
    "solve_ex": (lambda a, b: summed(linalg.solve_ex(a, b)[0]), (SQUARE, VECTOR), 2),
    "lower triangle": (
        lambda a, b: summed(linalg.solve_triangular(a, b, upper=False)),
        (SQUARE, COLUMNS),
        2,
    ),
    "upper triangle": (lambda a, b: summed(linalg.solve_triangular(a, b, upper=True)), (BATCH, COLUMNS), 2),
    "triangle from the right": (
        lambda a, b: summed(linalg.solve_triangular(a, b, upper=True, left=False)),
        (SQUARE, ROWS),
        2,
    ),
    "unit triangle": (
        lambda a, b: summed(linalg.solve_triangular(a, b, upper=True, unitriangular=True)),
        (SQUARE, COLUMNS),
        2,
    ),
    "triangular_solve": (
        lambda a, b: summed(torch.triangular_solve(b, a, upper=False, transpose=True)[0]),
        (SQUARE, COLUMNS),
        2,
    ),
    "cholesky": (lambda a: summed(linalg.cholesky(a)), (DEFINITE,), 3),
    "upper cholesky of a batch": (lambda a: summed(linalg.cholesky(a, upper=True)), (DEFINITE_BATCH,), 2),
    "cholesky_ex": (lambda a: summed(linalg.cholesky_ex(a)[0]), (DEFINITE,), 2),
    "torch.cholesky": (lambda a: summed(torch.cholesky(a)), (DEFINITE,), 1),
    "cholesky_solve": (lambda b, a: summed(torch.cholesky_solve(b, a.tril())), (COLUMNS, SQUARE), 2),
    "upper cholesky_solve": (
        lambda b, a: summed(torch.cholesky_solve(b, a.triu(), upper=True)),
        (COLUMNS, SQUARE),
        2,
    ),
    "cholesky_inverse": (lambda a: summed(torch.cholesky_inverse(a.tril())), (SQUARE,), 2),
    "upper cholesky_inverse": (lambda a: summed(torch.cholesky_inverse(a.triu(), upper=True)), (SQUARE,), 2),
    "eigvalsh": (lambda a: summed(linalg.eigvalsh(a)), (DEFINITE,), 3),
    "eigvalsh of one triangle": (lambda a: summed(linalg.eigvalsh(a)), (SQUARE,), 2),
    "eigh of the other one": (lambda a: summed(linalg.eigh(a, UPLO="U")[1] ** 2), (SQUARE,), 2),
    "cholesky of one triangle": (lambda a: summed(linalg.cholesky(a)), (SQUARE,), 2),
    "cholesky of the other one": (lambda a: summed(linalg.cholesky(a, upper=True)), (SQUARE,), 1),
    "eigvalsh of the upper triangle": (lambda a: linalg.eigvalsh(a, UPLO="U")[0], (DEFINITE,), 2),
    "eigh": (lambda a: summed(linalg.eigh(a).eigenvectors ** 2), (DEFINITE,), 2),
    "eigh of a batch": (
        lambda a: summed(linalg.eigh(a)[0].unsqueeze(-2) * linalg.eigh(a)[1] ** 2),
        (DEFINITE_BATCH,),
        2,
    ),
    "matrix_exp": (lambda a: summed(linalg.matrix_exp(a)), (SQUARE / 3,), 3),
    "matrix_exp of a batch": (lambda a: summed(torch.matrix_exp(a)), (BATCH / 3,), 2),
    "matrix_power": (lambda a: summed(linalg.matrix_power(a, 3)), (SQUARE / 3,), 3),
    "negative power": (lambda a: summed(torch.matrix_power(a, -2)), (SQUARE,), 2),
    "zeroth power": (lambda a: summed(linalg.matrix_power(a, 0) * a), (SQUARE,), 2),
    "pinv": (lambda a: summed(linalg.pinv(a)), (TALL,), 2),
    "pinv of a wide matrix": (lambda a: summed(torch.pinverse(a)), (WIDE,), 2),
    "pinv of a symmetric matrix": (lambda a: summed(linalg.pinv(a, hermitian=True)), (DEFINITE,), 2),
    "vector_norm": (linalg.vector_norm, (SQUARE,), 3),
    "vector_norm 3": (lambda a: summed(linalg.vector_norm(a, 3, dim=0)), (SQUARE,), 2),
    "vector_norm 4": (lambda a: summed(linalg.vector_norm(a, 4, dim=(0, 1))), (SQUARE,), 2),
    "vector_norm 1": (lambda a: linalg.vector_norm(a, 1) * a.sum(), (SQUARE,), 2),
    "vector_norm 1/2": (lambda a: linalg.vector_norm(a, 0.5), (SQUARE,), 2),
    "vector_norm 0": (lambda a: linalg.vector_norm(a, 0) * a.sum(), (SQUARE,), 2),
    "largest": (lambda a: linalg.vector_norm(a, math.inf, dim=1, keepdim=True) ** 2, (SQUARE,), 2),
    "smallest": (lambda a: linalg.vector_norm(a, -math.inf) ** 2, (SQUARE,), 2),
    "torch.norm": (lambda a: torch.norm(a) ** 3, (SQUARE,), 2),
    "torch.norm along an axis": (lambda a: summed(torch.norm(a, dim=1)), (SQUARE,), 2),
    "torch.norm 3": (lambda a: torch.norm(a, p=3, dim=(0, 1)), (SQUARE,), 2),
    "torch.norm fro": (lambda a: torch.norm(a, p="fro"), (SQUARE,), 2),
    "linalg.norm": (linalg.norm, (SQUARE,), 2),
    "linalg.norm of a vector": (lambda a: linalg.norm(a, 3), (VECTOR,), 2),
    "matrix_norm": (lambda a: summed(linalg.matrix_norm(a, keepdim=True)), (BATCH,), 2),
    "matrix_norm 1": (lambda a: linalg.matrix_norm(a, 1) ** 2, (TALL,), 2),
    "matrix_norm -inf": (lambda a: summed(linalg.matrix_norm(a, -math.inf, dim=(2, 0))), (BATCH,), 2),
    "lstsq": (lambda a, b: summed(linalg.lstsq(a, b).solution), (TALL, random(4, 2)), 2),
    "lstsq of a wide matrix": (lambda a, b: summed(linalg.lstsq(a, b).solution), (WIDE, random(2, 1)), 2),
    "residuals": (
        lambda a, b: summed(linalg.lstsq(a, b, driver="gels").residuals),
        (TALL, random(4, 2)),
        2,
    ),
    "cross": (lambda a, b: summed(linalg.cross(a, b)), (random(1, 3), random(4, 3)), 2),
    "cross along an axis": (lambda a, b: summed(linalg.cross(a, b, dim=0)), (COLUMNS, random(3, 2)), 2),
    "torch.cross": (lambda a, b: summed(torch.cross(a, b, dim=-1)), (TALL, random(4, 3)), 2),
    "multi_dot": (lambda a, b, c: summed(linalg.multi_dot([a, b, c])), (TALL, SQUARE, COLUMNS), 2),
    "tensordot": (lambda a, b: summed(torch.tensordot(a, b, dims=([1], [0]))), (TALL, SQUARE), 2),
    "tensordot over two axes": (lambda a, b: torch.tensordot(a, b, dims=2), (SQUARE, random(3, 3)), 2),
    "vander": (lambda a: summed(linalg.vander(a, N=4)), (VECTOR,), 3),
    "trace": (lambda a: torch.trace(a @ a), (SQUARE,), 2),
    "diagonal": (lambda a: summed(linalg.diagonal(a, offset=1)), (BATCH,), 2),
    "lu_solve": (lambda a, b: summed(linalg.lu_solve(*linalg.lu_factor(a), b)), (SQUARE, COLUMNS), 2),
    "lu_solve from the right": (
        lambda a, b: summed(linalg.lu_solve(*linalg.lu_factor(a), b, left=False, adjoint=True)),
        (SQUARE, ROWS),
        2,
    ),
    "lu_factor": (lambda a: summed(linalg.lu_factor(a)[0]), (SQUARE,), 2),
    "lu_factor of a tall matrix": (lambda a: summed(linalg.lu_factor(a)[0]), (TALL,), 2),
    "lu_unpack of a wide matrix": (
        lambda a: summed(torch.lu_unpack(*linalg.lu_factor(a))[1:]),
        (WIDE,),
        2,
    ),
    "tensorinv": (lambda a: summed(linalg.tensorinv(a, ind=1)), (random(6, 2, 3),), 1),
    "tensorsolve": (lambda a, b: summed(linalg.tensorsolve(a, b)), (random(2, 3, 6), random(2, 3)), 1),
    "vecdot": (lambda a, b: summed(linalg.vecdot(a, b)), (TALL, random(4, 3)), 2),
    "block_diag": (lambda a, b: summed(torch.block_diag(a, b)), (TALL, SQUARE), 2),
    "renorm": (lambda a: summed(torch.renorm(a, 2, 0, 1.0)), (TALL,), 2),
    "cov": (lambda a: summed(torch.cov(a)), (TALL,), 2),
    "corrcoef": (lambda a: summed(torch.corrcoef(a)), (TALL,), 1),
    "grad of slogdet": (torch.func.grad(lambda a: linalg.slogdet(a)[1]), (SQUARE,), 1),
    "grad of solve": (torch.func.grad(lambda a: linalg.solve(a, a.cos()).sum()), (SQUARE,), 1),
    "grad of cholesky": (torch.func.grad(lambda a: summed(linalg.cholesky(a))), (DEFINITE,), 1),
    "vmap of inv": (torch.vmap(linalg.inv), (BATCH,), 1),
}
FOREIGN: dict[str, Case] = {
    "grad of det": (lambda a: summed(torch.func.grad(torch.det)(a)), (SQUARE,), 1),
    "svdvals": (lambda a: summed(linalg.svdvals(a)), (TALL,), 3),
    "svd": (lambda a: summed([part**2 for part in linalg.svd(a, full_matrices=False)]), (TALL,), 2),
    "svd of a batch": (lambda a: summed(linalg.svd(a)[0] ** 2), (BATCH,), 2),
    "torch.svd": (lambda a: summed(torch.svd(a)[1]), (WIDE,), 2),
    "qr": (lambda a: summed([part**2 for part in linalg.qr(a)]), (TALL,), 2),
    "lu": (lambda a: summed(linalg.lu(a)[1:]), (SQUARE,), 2),
    "householder_product": (lambda a, t: summed(linalg.householder_product(a, t)), (TALL, VECTOR), 1),
    "pinv with a tolerance": (lambda a: summed(linalg.pinv(a, rtol=1e-6)), (TALL,), 2),
    "cond": (linalg.cond, (SQUARE,), 2),
}
QUIET: dict[str, Case] = {
    "nuc": (lambda a: linalg.matrix_norm(a, "nuc"), (TALL,), 2),
    "spectral": (lambda a: linalg.norm(a, 2), (TALL,), 2),
    "smallest singular value": (lambda a: linalg.matrix_norm(a, -2), (TALL,), 2),
    "torch.norm nuc": (lambda a: torch.norm(a, p="nuc"), (SQUARE,), 2),
}
"""Norms that go through the singular values."""


@pytest.mark.filterwarnings("ignore:torch.* is deprecated")
@pytest.mark.parametrize("name", CASES | QUIET)
def test_equal_to_nested_jacrev(name: str) -> None:
    function, arguments, order = (CASES | QUIET)[name]
    assert_agrees(function, *arguments, order=order)


@pytest.mark.filterwarnings("ignore:.*performance drop", "ignore:torch.* is deprecated")
@pytest.mark.parametrize("name", FOREIGN)
def test_pytorch_rules_are_used_with_a_warning(name: str) -> None:
    function, arguments, order = FOREIGN[name]
    with pytest.warns(UserWarning, match="hesse has no rule for"):
        hesse.grad(function)(*arguments)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "hesse has no rule")
        assert_agrees(function, *arguments, order=order)


def test_third_derivative_of_the_determinant() -> None:
    """The product of two Levi-Civita symbols; nested jacrev has nan or wrong numbers."""
    symbol = torch.zeros(3, 3, 3, dtype=torch.float64)
    for a, b, c in itertools.permutations(range(3)):
        symbol[a, b, c] = (b - a) * (c - a) * (c - b) / 2
    expected = torch.einsum("ace,bdf->abcdef", symbol, symbol)
    assert_equal(hesse.derivative(torch.det, 3)(SQUARE), expected)


def test_solve_with_one_matrix_for_many_right_sides() -> None:
    """Nested jacrev fails unless the matrices are repeated by hand."""
    assert_agrees(
        lambda a, b: summed(linalg.solve(a, b)),
        SQUARE,
        random(2, 3, 2),
        reference=lambda a, b: summed(linalg.solve(a.expand(2, 3, 3).clone(), b)),
    )


@pytest.mark.parametrize("order", ["fro", 1])
def test_condition_numbers(order: Any) -> None:
    """PyTorch cannot differentiate its own formula, which writes over a saved tensor."""
    assert_agrees(
        lambda a: linalg.cond(a, order),
        SQUARE,
        reference=lambda a: linalg.matrix_norm(a, order) * linalg.matrix_norm(linalg.inv(a), order),
    )


@pytest.mark.parametrize("order", [2, 3, 4])
def test_norms_have_derivative_zero_at_zero(order: float) -> None:
    def f(x: Tensor) -> Tensor:
        return linalg.vector_norm(x, order)

    zeros = torch.zeros(3, dtype=torch.float64)
    assert_equal(hesse.grad(f)(zeros), nested(f, 1, (0,))(zeros)[0])
    assert hesse.grad(f)(zeros).tolist() == [0.0] * 3


def test_ties_of_the_largest_entry_share_the_derivative() -> None:
    def f(x: Tensor) -> Tensor:
        return linalg.vector_norm(x, math.inf)

    x = torch.tensor([2.0, -2.0, 1.0], dtype=torch.float64)
    assert hesse.grad(f)(x).tolist() == torch.func.grad(f)(x).tolist() == [0.5, -0.5, 0.0]


def test_negative_determinants_have_no_logarithm() -> None:
    matrix = -torch.eye(3, dtype=torch.float64)
    assert math.isnan(hesse.compile(torch.logdet)(matrix))


def test_error_codes_say_that_all_is_well() -> None:
    assert hesse.compile(lambda a: a * (1.0 + linalg.inv_ex(a).info))(SQUARE).tolist() == SQUARE.tolist()


def test_singular_matrices_raise() -> None:
    with pytest.raises(linalg.LinAlgError, match="singular"):
        hesse.grad(lambda a: linalg.inv(a).sum())(torch.ones(2, 2, dtype=torch.float64))


@pytest.mark.filterwarnings("ignore:hesse has no rule for linalg_ldl_factor_ex")
def test_what_pytorch_cannot_differentiate_is_said() -> None:
    with pytest.raises(
        DifferentiationError, match="linalg_ldl_factor_ex has no rule in hesse, and PyTorch's"
    ):
        hesse.grad(lambda a: linalg.ldl_factor(a)[0].sum())(DEFINITE)


def test_single_precision() -> None:
    def f(a: Tensor) -> Tensor:
        return linalg.slogdet(a)[1] + linalg.solve(a, a[0]).sum()

    found = hesse.hessian(f)(SQUARE.float())
    assert_equal(found, nested(f, 2, (0,))(SQUARE)[0][0].float(), 1e-4)
