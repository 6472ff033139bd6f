"""Riemannian derivatives of functions of tensor trains and of matrices of low rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hesse.errors import ArgumentError
from hesse.frontends.special import stop_gradient
from hesse.manifolds.opaque import Opaque
from hesse.manifolds.record import Evaluation, Recorded
from hesse.manifolds.tangent import Tangent
from hesse.tt.arrays import Array
from hesse.tt.forms import Form
from hesse.tt.functional import Deltas, FormFunctional, Functional, MovingFrames, moving_frames
from hesse.tt.nets import Leaf, Occurrence, ReadsCores
from hesse.tt.point import Point, point_of
from hesse.tt.scales import narrowed
from hesse.tt.train import TensorTrain, TTMatrix, dot

Function = Callable[[Any], Any]


class Objective:
    """A function of a train with its value, Riemannian gradient and Hessian products.

    What one of them computes at a point serves the others. Functions that read cores go through the engine.
    """

    def __init__(self, function: Function) -> None:
        if not callable(function):
            raise ArgumentError(f"a function of a train is needed, not a {type(function).__name__}")
        self.function = function
        self._recorded = Recorded(function)
        self._opaque: Opaque | None = None

    def value(self, X: TensorTrain) -> Array:
        """The value, without products of trains being formed."""
        point = point_of(_checked(X))
        if self._opaque is None:
            try:
                return narrowed(point.library, self._at(point).value)
            except ReadsCores:
                self._opaque = Opaque(self.function)
        return self.function(X)

    def _at(self, point: Point) -> Evaluation:
        with point.widely():
            return self._recorded.at(point)

    def value_and_grad(self, X: TensorTrain) -> tuple[Array, Tangent]:
        """The value and the Riemannian gradient."""
        point = point_of(_checked(X))
        point.needs_frames = True
        if self._opaque is None:
            try:
                found = self._at(point)
            except ReadsCores:
                self._opaque = Opaque(self.function)
            else:
                with point.widely():
                    gradient = _pulled(point, found.functionals, found.weights)
                return narrowed(point.library, found.value), gradient
        value, deltas = self._opaque.value_and_gradient(point)
        return value, _tangent(point, [deltas])

    def hvp(self, X: TensorTrain, Z: Tangent, exact: bool = False) -> Tangent:
        """The Hessian times a tangent vector; without the curvature of the manifold unless it is `exact`."""
        point = point_of(_checked(X))
        _check_tangent(point, Z)
        if self._opaque is None:
            try:
                with point.widely():
                    return self._recorded_product(point, Z, exact)
            except ReadsCores:
                self._opaque = Opaque(self.function)
        return self._opaque_product(self._opaque, point, Z, exact)

    def diagonal(self, X: TensorTrain) -> list[Array] | None:
        """About the diagonal of the Hessian by the entries of deltas, none of it negative; None: not known.

        It is exact where the function is a sum of functions of single entries of the train.
        """
        if self._opaque is not None:
            return None
        point = point_of(_checked(X))
        found = self._at(point)
        with point.widely():
            weights = found.diagonal_weights()
        parts = [f.squares(w) for f, w in zip(found.functionals, weights, strict=True)]
        known = [part for part in parts if part is not None]
        return [sum(same[1:], start=same[0]) for same in zip(*known, strict=True)] if known else None

    def _opaque_product(self, opaque: Opaque, point: Point, Z: Tangent, exact: bool) -> Tangent:
        parts = [opaque.product(point, Z.chain)]
        if exact and len(point.left) > 1:
            frames = moving_frames(point, Z.chain, inverse_links(point))
            gradient = _tangent(point, [opaque.value_and_gradient(point)[1]])
            parts += [opaque.bend(point, frames), _tangential_part(gradient, frames)]
        return _tangent(point, parts)

    def _recorded_product(self, point: Point, Z: Tangent, exact: bool) -> Tangent:
        found = self._recorded.at(point)
        pushed = [functional.push(Z.chain) for functional in found.functionals]
        along = found.weights_along(pushed)
        parts: list[Deltas] = []
        for functional, w in zip(found.functionals, found.weights, strict=True):
            second = functional.second(w, Z.chain)
            parts += [second] if second is not None else []
        if exact and len(point.left) > 1:
            frames = moving_frames(point, Z.chain, inverse_links(point))
            parts += [f.bend(w, frames) for f, w in zip(found.functionals, found.weights, strict=True)]
            gradient = _pulled(point, found.functionals, found.weights)
            parts.append(_tangential_part(gradient, frames))
        return _pulled(point, found.functionals, along, parts)


def _tangential_part(gradient: Tangent, frames: MovingFrames) -> list[Array]:
    """What moving frames see of the gradient itself, to be taken away: only what is normal bends."""
    point = gradient.point
    batch = point.train.batch
    leaves = (Leaf(gradient.to_tt(), (0,)), Leaf(Occurrence.VARIABLE, (0,)))
    functional = FormFunctional(Form(leaves, batch), point)
    like = point.left.cores[0]
    with point.widely():
        return functional.bend(point.library.zeros(() if batch is None else (batch,), like) - 1.0, frames)


def inverse_links(point: Point) -> list[Array]:
    """The inverses of the links between the frames."""
    found = []
    for k, link in enumerate(point.links[:-1]):
        values = np.linalg.svd(point.library.host(link), compute_uv=False)
        limit = np.finfo(values.dtype).eps * values.shape[-1] * values[..., :1]
        if not bool((values > limit).all()):
            raise ArgumentError(
                f"the exact Hessian divides by singular values, and at bond {k + 1} one is zero: the train "
                "has a smaller rank there. Round it (X.round(tol=...)), or use exact=False"
            )
        identity = point.library.like(np.eye(link.shape[-1]), link)
        found.append(_solved(point, link, identity))
    return found


def _solved(point: Point, matrix: Array, right: Array) -> Array:
    """By its QR decomposition, which all libraries have."""
    u, s, vt = point.library.svd(matrix)
    return vt.mT @ ((u.mT @ right) / s[..., :, None])


def _pulled(
    point: Point, functionals: Sequence[Functional], weights: Sequence[Array], further: Sequence[Deltas] = ()
) -> Tangent:
    """The projection of the weighted derivatives of functionals, and of others by cores."""
    if len(functionals) == 1 and not further:
        return Tangent(point, functionals[0].projected(weights[0]))
    pulled = [functional.pull(own) for functional, own in zip(functionals, weights, strict=True)]
    return _tangent(point, [*pulled, *further])


def _tangent(point: Point, parts: Sequence[Sequence[Array]]) -> Tangent:
    """The projection of a sum of derivatives by cores."""
    total = list(parts[0])
    for part in parts[1:]:
        total = [a + b for a, b in zip(total, part, strict=True)]
    return Tangent(point, point.gauged(total))


def _checked(X: Any) -> TensorTrain:
    if not isinstance(X, TensorTrain):
        raise ArgumentError(f"a point is a tt.TensorTrain, not a {type(X).__name__}")
    return X


def _check_tangent(point: Point, Z: Any) -> None:
    if not isinstance(Z, Tangent):
        raise ArgumentError(f"a direction is a tangent vector at the point, not a {type(Z).__name__}")
    if Z.point is not point:
        raise ArgumentError(
            "the tangent vector belongs to another point; move it here with transport(X, Y, T)"
        )


def grad(f: Function) -> Callable[[TensorTrain], Tangent]:
    """`grad(f)(X)` is the Riemannian gradient of a function of a train, as a tangent vector at X.

    The rank of X says on which manifold. No dense tensor is formed; the cost is that of a few values of f.

    >>> import hesse
    >>> from hesse import tt
    >>> X, F = tt.random((4, 5, 6), rank=2, rng=0), tt.random((4, 5, 6), rank=3, rng=1)
    >>> G = hesse.manifolds.grad(lambda X: tt.dot(X, X) - 2.0 * tt.dot(F, X))(X)
    >>> G
    Tangent(shape=(4, 5, 6), ranks=(1, 2, 2, 1))
    """
    objective = Objective(f)
    return lambda X: objective.value_and_grad(X)[1]


def value_and_grad(f: Function) -> Callable[[TensorTrain], tuple[Array, Tangent]]:
    """`value_and_grad(f)(X)` is the pair of `f(X)` and the Riemannian gradient."""
    return Objective(f).value_and_grad


def hvp(f: Function, exact: bool = False) -> Callable[[TensorTrain, Tangent], Tangent]:
    """`hvp(f)(X, Z)` is the Riemannian Hessian of f at X times a tangent vector at X.

    Without `exact` the curvature of the manifold is left out, and nothing is divided by singular values: the
    Hessian of f, projected. What was computed at X is used for further vectors at X.
    """
    objective = Objective(f)
    return lambda X, Z: objective.hvp(X, Z, exact)


def project_residual(A: TTMatrix, B: TTMatrix, F: TensorTrain) -> Callable[[TensorTrain], Tangent]:
    """`project_residual(A, B, F)(X)` is the projection of `B @ (A @ X - F)` on the tangent space at X.

    That is the step of a preconditioned iteration for `A @ X = F`. It need not be the gradient of anything.
    """
    return grad(lambda X: dot(B @ (A @ stop_gradient(X) - F), X))
