"""PyTorch's linear algebra for solvers: see `hesse.backends.algebra`."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hesse.backends.algebra import MOST_STEPS, places, probe
from hesse.backends.records import Namespace
from hesse.backends.torch.records import XP, is_hidden

CHECKED_EVERY = 16
"""After so many steps of conjugate gradients the host waits for the device to see whether they suffice."""

BLIND_STEPS = 300
"""Steps of conjugate gradients where nobody can look."""


def _is_fixed(*arrays: Tensor) -> bool:
    watched = torch.is_grad_enabled() and any(array.requires_grad for array in arrays)
    return not watched and not is_hidden(*arrays)


def _compiled(function: Callable[..., Any], *settings: Any) -> Callable[..., Any]:
    return partial(function, ALGEBRA, *settings)


def _inverse(matrices: Tensor) -> Tensor:
    inverses: Tensor = torch.linalg.inv_ex(matrices)[
        0
    ]  # which does not wait for the device to raise an error
    return inverses


def _solve(matrices: Tensor, right: Tensor) -> Tensor:
    solution: Tensor = torch.linalg.solve_ex(matrices, right)[0]
    return solution


def _iterated(step: Callable[[Tensor], Tensor], times: int, state: Tensor) -> Tensor:
    for _ in range(times):
        state = step(state)
    return state


def _solve_positive(matrix: Tensor, right: Tensor) -> Tensor:
    factor, info = torch.linalg.cholesky_ex(matrix)
    return torch.where(info == 0, torch.cholesky_solve(right, factor), torch.nan)


def _probe(size: int, like: Tensor) -> Tensor:
    return probe(XP, size, like).to(like.dtype)


class _Solution(torch.autograd.Function):
    """The solution of a symmetric system as a function of the right-hand side and of the parts."""

    @staticmethod
    def forward(
        context: Any,
        solve: Callable[[Tensor], Tensor],
        product: Callable[..., Tensor],
        right: Tensor,
        *parts: Tensor,
    ) -> Tensor:
        solution = solve(right)
        context.solve, context.product = solve, product
        context.save_for_backward(solution, *parts)
        return solution

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """With the cotangent `g`: `A⁻¹ g` for the right side, and for the parts that of `-A x` at `A⁻¹ g`."""
        solution, *parts = context.saved_tensors
        adjoint = _Solution.apply(context.solve, context.product, gradients[0], *parts)
        wanted = [k for k, part in enumerate(parts) if part.requires_grad]
        found: list[Tensor | None] = [None] * len(parts)
        if wanted:
            is_recorded = torch.is_grad_enabled()
            with torch.enable_grad():
                views = [part.view_as(part) for part in parts]  # by these, not by what the solution came from
                values = context.product(views, solution)
            by_parts = torch.autograd.grad(
                values, [views[k] for k in wanted], -adjoint, create_graph=is_recorded, allow_unused=True
            )
            for k, gradient in zip(wanted, by_parts, strict=True):
                found[k] = gradient
        return None, None, adjoint, *found


def _steps(
    product: Callable[[Tensor], Tensor],
    right: Tensor,
    precondition: Callable[[Tensor], Tensor],
    tolerance: float,
) -> Tensor:
    """The conjugate gradient method."""
    solution, residual = torch.zeros_like(right), right
    direction = precondition(residual)
    slope = (residual * direction).sum()
    enough = tolerance**2 * (right * right).sum()
    looks = not is_hidden(right)
    for step in range(MOST_STEPS if looks else BLIND_STEPS):
        if looks and step % CHECKED_EVERY == 0 and not bool((residual * residual).sum() > enough):
            break
        image = product(direction)
        curvature = (direction * image).sum()
        # When the residual is zero both are; steps beyond it must not divide by them.
        length = torch.where(slope == 0, 0.0, slope / torch.where(slope == 0, 1.0, curvature))
        solution, residual = solution + length * direction, residual - length * image
        scaled = precondition(residual)
        before, slope = slope, (residual * scaled).sum()
        direction = scaled + torch.where(before == 0, 0.0, slope / torch.where(before == 0, 1.0, before)) * (
            direction
        )
    return solution


def _conjugate_gradients(
    product: Callable[..., Tensor],
    parts: list[Tensor],
    right: Tensor,
    precondition: Callable[[Tensor], Tensor],
    tolerance: float,
) -> Tensor:
    def solve(given: Tensor) -> Tensor:
        return _steps(lambda x: product(parts, x), given, precondition, tolerance)

    if _is_fixed(right, *parts) or is_hidden(right, *parts):
        return solve(right)
    solution: Tensor = _Solution.apply(torch.no_grad()(solve), product, right, *parts)
    return solution


def _sparse(
    values: Tensor, rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int], layout: str
) -> Tensor:
    found = places(rows, columns, shape)
    which, at = (
        torch.from_numpy(part).to(values.device)
        for part in (found.which, np.stack([found.rows, found.columns]))
    )
    summed = torch.zeros(at.shape[1], dtype=values.dtype, device=values.device).index_add(0, which, values)
    matrix = torch.sparse_coo_tensor(at, summed, shape, check_invariants=False, is_coalesced=True)
    with warnings.catch_warnings():  # PyTorch says that compressed formats are in a beta state
        warnings.simplefilter("ignore", UserWarning)
        return SPARSE[layout](matrix)


SPARSE = {"coo": lambda matrix: matrix, "csr": Tensor.to_sparse_csr, "csc": Tensor.to_sparse_csc}

ALGEBRA = Namespace(
    torch,
    add_to_diagonal=lambda matrices, amount: matrices + amount * XP.eye(matrices.shape[-1], matrices),
    arange=XP.arange,
    compiled=_compiled,
    conjugate_gradients=_conjugate_gradients,
    eye=XP.eye,
    in_order=Tensor.contiguous,
    is_fixed=_is_fixed,
    is_hidden=is_hidden,
    iterated=_iterated,
    linalg=Namespace(torch.linalg, inv=_inverse, solve=_solve),
    moveaxis=torch.movedim,  # which functorch knows, as it knows transpose
    permute_dims=torch.permute,
    probe=_probe,
    quiet=contextlib.nullcontext,
    raises=False,
    solve_positive=_solve_positive,
    solve_tridiagonal=None,
    swapaxes=torch.transpose,
    sparse=_sparse,
    sparse_layouts=tuple(SPARSE),
    zeros=XP.zeros,
)
