"""Windows that hang over the edge of a padded tensor: derivatives keep the form of the kernel.

References are JAX's convolution with the same padding, strides and dilation, and its nested derivatives.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import hesse
from hesse.calculus import MODES
from hesse.frontends import Expression, as_node
from hesse.ir import (
    Add,
    Axis,
    Node,
    add,
    constant_axis,
    einsum,
    place,
    plain_axes,
    topological,
    transpose,
    unify,
    variable,
)
from hesse.structured.windows import whole_product
from naive import evaluate
from oracles import assert_close, evaluate_jax, jax_derivatives

TOLERANCE = 1e-10
LETTERS = "xyz"
WINDOW = "abc"


class Convolution(NamedTuple):
    """A convolution of channels: sizes of the image and the kernel, and how windows are read."""

    image: tuple[int, ...]
    kernel: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    strides: tuple[int, ...]
    dilation: tuple[int, ...]
    channels: tuple[int, int] = (2, 3)

    @property
    def arguments(self) -> tuple[np.ndarray, np.ndarray]:
        """An image and a kernel."""
        random = np.random.default_rng(sum(self.image) + 10 * sum(self.kernel))
        inputs, outputs = self.channels
        kernel = random.normal(size=(outputs, inputs, *self.kernel)) / np.prod(self.kernel) ** 0.5
        return random.normal(size=(inputs, *self.image)), kernel

    def numpy(self, x: Any, kernel: Any) -> Any:
        """By padding, windows and a contraction, as one writes it in NumPy."""
        return windows_times_kernel(x, kernel, self)

    def jax(self, x: Any, kernel: Any) -> Any:
        """By JAX's own convolution."""
        result = jax.lax.conv_general_dilated(
            x[None], kernel, self.strides, self.padding, rhs_dilation=self.dilation
        )
        return result[0]

    @property
    def pieces(self) -> int:
        """Into how many pieces windows fall: those that lie inside, and each way to hang over."""
        count = 1
        for k, size in enumerate(self.image):
            (before, after), step, gap = self.padding[k], self.strides[k], self.dilation[k]
            reach = gap * (self.kernel[k] - 1)
            starts = range(0, before + size + after - reach, step)
            inside = [
                tuple(a for a in range(self.kernel[k]) if before <= start + gap * a < before + size)
                for start in starts
            ]
            count *= len(set(inside) - {()})
        return count


def windows_times_kernel(x: Any, kernel: Any, settings: Convolution) -> Any:
    rank = len(settings.kernel)
    padded = np.pad(x, ((0, 0), *settings.padding))
    reach = tuple(gap * (size - 1) + 1 for gap, size in zip(settings.dilation, settings.kernel, strict=True))
    windows = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=tuple(range(1, rank + 1)))
    every = tuple(slice(None, None, step) for step in settings.strides)
    windows = windows[(slice(None), *every, *(slice(None, None, gap) for gap in settings.dilation))]
    places, offsets = LETTERS[:rank], WINDOW[:rank]
    return np.einsum(f"oi{offsets},i{places}{offsets}->o{places}", kernel, windows)


def plane(
    image: tuple[int, int],
    kernel: tuple[int, int],
    padding: Any,
    strides: tuple[int, int] = (1, 1),
    dilation: tuple[int, int] = (1, 1),
) -> Convolution:
    return Convolution(image, kernel, padding, strides, dilation)


CASES = {
    "3 x 3, same": plane((6, 7), (3, 3), ((1, 1), (1, 1))),
    "5 x 5, same": plane((7, 6), (5, 5), ((2, 2), (2, 2))),
    "3 x 3, same, strides 2": plane((7, 8), (3, 3), ((1, 1), (1, 1)), (2, 2)),
    "5 x 5, strides 2": plane((8, 9), (5, 5), ((2, 2), (2, 1)), (2, 2)),
    "3 x 3, asymmetric": plane((5, 6), (3, 3), ((2, 0), (0, 1))),
    "2 x 4, asymmetric, strides 1 and 3": plane((5, 8), (2, 4), ((0, 1), (3, 2)), (1, 3)),
    "3 x 3, same, dilation 2": plane((7, 8), (3, 3), ((2, 2), (2, 2)), dilation=(2, 2)),
    "3 x 3, strides 2, dilation 2 and 3": plane((8, 9), (3, 3), ((2, 1), (3, 3)), (2, 2), (2, 3)),
    "3 x 3, full": plane((5, 5), (3, 3), ((2, 2), (2, 2))),
    "3 x 3, wider than full": plane((4, 4), (3, 3), ((3, 4), (3, 3))),
    "3 x 3, valid": plane((5, 5), (3, 3), ((0, 0), (0, 0))),
    "1 x 1": plane((4, 4), (1, 1), ((1, 1), (1, 1))),
    "kernel larger than the image": plane((2, 3), (5, 3), ((2, 2), (1, 1))),
    "one dimension": Convolution((9,), (4,), ((2, 1),), (1,), (1,)),
    "one dimension, strides 3": Convolution((11,), (5,), ((3, 4),), (3,), (1,)),
    "three dimensions": Convolution(
        (4, 3, 4), (3, 2, 3), ((1, 1), (1, 0), (1, 1)), (1, 1, 2), (1, 1, 1), (1, 2)
    ),
}
ALL = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
FIRST = CASES["3 x 3, same"]
IMAGES = {
    "3 x 3": (plane((20, 24), (3, 3), ((1, 1), (1, 1))), 9),
    "5 x 5": (plane((20, 24), (5, 5), ((2, 2), (2, 2))), 25),
    "7 x 7": (plane((20, 24), (7, 7), ((3, 3), (3, 3))), 49),
    "3 x 3, strides 2": (plane((20, 24), (3, 3), ((1, 1), (1, 1)), (2, 2)), 4),
    "3 x 3, dilation 3": (plane((20, 24), (3, 3), ((3, 3), (3, 3)), dilation=(3, 3)), 9),
    "3 x 3, asymmetric": (plane((20, 24), (3, 3), ((2, 0), (0, 1))), 6),
    "3 x 3, valid": (plane((20, 24), (3, 3), ((0, 0), (0, 0))), 1),
    "3 x 3, full": (plane((20, 24), (3, 3), ((2, 2), (2, 2))), 1),
}
"""Larger images, with the number of pieces into which their windows fall."""


def bent(case: Convolution, xp: Any) -> Any:
    """The tanh of a convolution."""
    convolve = case.jax if xp is jnp else case.numpy
    return lambda x, kernel: xp.tanh(convolve(x, kernel))


def energy(case: Convolution, xp: Any) -> Any:
    """A scalar function of a convolution."""
    function = bent(case, xp)
    return lambda x, kernel: xp.sum(function(x, kernel) ** 2)


@ALL
def test_against_jax(case: Convolution) -> None:
    """Value, Jacobians and Hessians by the image and by the kernel, dense and structured, at two calls."""
    arguments = case.arguments
    value, by_image, by_kernel = evaluate_jax(
        lambda *a: (energy(case, jnp)(*a), *jax.jacrev(bent(case, jnp), (0, 1))(*a)), *arguments
    )
    gradients = evaluate_jax(jax.grad(energy(case, jnp), (0, 1)), *arguments)
    hessians = evaluate_jax(jax.jacfwd(jax.grad(energy(case, jnp), (0, 1)), (0, 1)), *arguments)
    found = hesse.value_and_grad(energy(case, np), (0, 1))(*arguments)
    assert_close(found[0], value, "value", TOLERANCE)
    assert_close(found[1], gradients, "gradient", TOLERANCE)
    for form in ("dense", "structured"):
        jacobian = hesse.jacobian(bent(case, np), (0, 1), form=form)
        hessian = hesse.hessian(energy(case, np), (0, 1), form=form)
        for _ in range(2):
            for block, reference in zip(jacobian(*arguments), (by_image, by_kernel), strict=True):
                assert_close(np.asarray(block), reference, f"{form} Jacobian", TOLERANCE)
            for rows, references in zip(hessian(*arguments), hessians, strict=True):
                for block, reference in zip(rows, references, strict=True):
                    assert_close(np.asarray(block), reference, f"{form} Hessian", TOLERANCE)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["3 x 3, same", "3 x 3, strides 2, dilation 2 and 3", "one dimension"])
def test_modes_agree(name: str, mode: str) -> None:
    """Pieces are right in whatever order the partials are multiplied."""
    case = CASES[name]
    for order, function in ((1, bent), (2, energy)):
        reference = jax_derivatives(function(case, jnp), order, 0, case.arguments)[order]
        found = hesse.derivative(function(case, np), order, mode=mode, form="structured")(*case.arguments)
        assert_close(found.dense(), reference, f"{mode}, order {order}", TOLERANCE)


@pytest.mark.parametrize(("case", "pieces"), IMAGES.values(), ids=IMAGES)
def test_jacobian_keeps_the_kernel(case: Convolution, pieces: int) -> None:
    """By the image: as many terms as windows have ways to hang over, and two arrays, kernel and slope."""
    x, kernel = case.arguments
    plain = hesse.jacobian(case.numpy, form="structured")(x, kernel)
    assert len(plain.terms) == pieces
    assert [sorted(part.shape) for part in plain.parts.values()] == [sorted(kernel.shape)]
    curved = hesse.jacobian(bent(case, np), form="structured")(x, kernel)
    assert len(curved.terms) == pieces
    sizes = sorted(part.size for part in curved.parts.values())
    assert sizes == sorted([kernel.size, case.numpy(x, kernel).size])
    if pieces > 1:  # a product with a vector is one contraction over the padded vector
        whole = whole_product(curved.node)
        assert whole is not None
        assert whole.margins == ((0, 0),) * 4 + _reached(case)


def _reached(case: Convolution) -> tuple[tuple[int, int], ...]:
    """The margins of an image that windows reach: with strides the last ones may be left out."""
    margins = []
    for k, size in enumerate(case.image):
        before, after = case.padding[k]
        reach = case.dilation[k] * (case.kernel[k] - 1) + 1
        unused = (before + size + after - reach) % case.strides[k]
        margins.append((before, after - unused))
    return tuple(margins)


@pytest.mark.parametrize("name", [name for name in IMAGES if name not in ("7 x 7", "3 x 3, full")])
def test_hessian_has_no_more_pieces_than_the_jacobian(name: str) -> None:
    """Pieces of `J` are disjoint in its rows, over which `J'·S·J` sums."""
    case, pieces = IMAGES[name]
    hessian = hesse.hessian(energy(case, np), form="structured")(*case.arguments)
    assert len(hessian.terms) == pieces
    x, kernel = case.arguments
    sizes = sorted(part.size for part in hessian.parts.values())
    assert sizes == sorted([kernel.size, case.numpy(x, kernel).size])


@ALL
def test_products_pad_the_vector(case: Convolution) -> None:
    """Products with vectors and matrices, from both sides."""
    x, kernel = case.arguments
    jacobian = hesse.jacobian(bent(case, np), form="structured")(x, kernel)
    rank, dense = x.ndim, jacobian.dense()
    random = np.random.default_rng(11)
    vectors, weights = random.normal(size=(*x.shape, 2)), random.normal(size=dense.shape[:rank])
    for _ in range(2):
        assert_close(jacobian @ vectors, np.tensordot(dense, vectors, rank), "J v", TOLERANCE)
        assert_close(jacobian @ x, np.tensordot(dense, x, rank), "J x", TOLERANCE)
    across = [*range(rank, 2 * rank), *range(rank)]
    back = jacobian.of(transpose(jacobian.node, across), jacobian.parts, (rank, rank))
    assert_close(back @ weights, np.tensordot(weights, dense, rank), "J' w", TOLERANCE)


def test_other_sums_are_not_pieces() -> None:
    """Terms that only look like pieces of one product: none may be left out, moved, doubled or scaled."""
    x, (i, j) = variable("x", (5,)), plain_axes(2)

    def band(first: int, count: int, shift: int, scale: float = 1.0) -> Node:
        output = [Axis(((0, 1),), first), Axis(((0, 1),), first + shift)]
        return einsum([x], [[Axis(((0, 1),), first)]], output, (5, 5), (count,), scale)

    def windows(first: int, count: int) -> Node:
        output = [Axis(((0, 1),), first), Axis(((0, 1), (1, 1)), first - 1)]
        table = [Axis(((0, 1),), first)]
        return einsum([x, y], [table, [j]], output, (5, 5), (count, 3))

    y = variable("y", (3,))
    assert whole_product(add([band(0, 4, 1), band(4, 1, 0)], (5, 5))) is None  # another diagonal
    assert whole_product(add([band(0, 2, 0), band(2, 3, 0, 2.0)], (5, 5))) is None  # another scale
    assert whole_product(add([windows(1, 1), windows(3, 1)], (5, 5))) is None  # one position is missing
    assert whole_product(windows(1, 3)) is None
    first = einsum([x, y], [[constant_axis(0)], [Axis(((0, 1),), 1)]], [constant_axis(0), i], (5, 5), (2,))
    last = einsum([x, y], [[constant_axis(4)], [i]], [constant_axis(4), Axis(((0, 1),), 3)], (5, 5), (2,))
    found = whole_product(add([first, windows(1, 3), last], (5, 5)))
    assert found is not None
    assert found.margins == ((0, 0), (1, 1))
    assert found.product.ranges == (5, 3)


def test_jacobian_by_the_kernel_is_windows() -> None:
    """By the kernel the padded image is kept, once."""
    case = IMAGES["5 x 5"][0]
    x, kernel = case.arguments
    found = hesse.jacobian(case.numpy, 1, form="structured")(x, kernel)
    assert [part.shape for part in found.parts.values()] == [(2, 24, 28)]
    assert len(found.terms) == 1


def test_values_and_gradients_stay_one_contraction() -> None:
    """Only deltas are cut: an image is padded and contracted with the kernel once, back and forth."""
    case = IMAGES["5 x 5"][0]
    x, kernel = (variable(name, array.shape) for name, array in zip("xK", case.arguments, strict=True))
    value = as_node(case.numpy(Expression(x), Expression(kernel)))
    assert [type(node).__name__ for node in topological([value])].count("Einsum") == 2
    arguments = case.arguments
    for derivative, further in (
        (hesse.value_and_grad(energy(case, np), (0, 1)), ()),
        (hesse.jvp(bent(case, np)), arguments[:1]),
        (hesse.vjp(bent(case, np)), (case.numpy(*arguments),)),
        (hesse.hvp(energy(case, np)), arguments[:1]),
    ):
        report = derivative.explain(*arguments, *further)
        assert report.nodes < 40, report


def batch_convolution(xp: Any) -> Any:
    def function(x: Any, kernel: Any) -> Any:
        if xp is jnp:
            return jnp.tanh(jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME"))
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
        return np.tanh(np.tensordot(windows, kernel, ((1, 4, 5), (1, 2, 3))).transpose(0, 3, 1, 2))

    return function


def test_batches() -> None:
    """Several images at a time, by a tensordot: block-diagonal, with the same pieces."""
    random = np.random.default_rng(5)
    x, kernel = random.normal(size=(4, 2, 6, 5)), random.normal(size=(3, 2, 3, 3))
    found = hesse.jacobian(batch_convolution(np), form="structured")(x, kernel)
    assert_close(found.dense(), evaluate_jax(jax.jacrev(batch_convolution(jnp)), x, kernel), "J", TOLERANCE)
    assert len(found.terms) == 9


def shifts(xp: Any) -> Any:
    """A convolution as a sum of shifted images, as one writes it without windows."""

    def function(x: Any, kernel: Any) -> Any:
        padded = xp.pad(x, ((0, 0), (1, 1), (1, 1)))
        height, width = x.shape[1:]
        terms = [
            xp.einsum("oi,iyx->oyx", kernel[:, :, a, b], padded[:, a : a + height, b : b + width])
            for a in range(3)
            for b in range(3)
        ]
        return xp.tanh(sum(terms[1:], terms[0]))

    return function


def test_shifts_are_the_same() -> None:
    """A sum of shifts has the derivatives of windows, and stays small."""
    x, kernel = FIRST.arguments
    found = hesse.jacobian(shifts(np), form="structured")(x, kernel)
    windows = hesse.jacobian(bent(FIRST, np), form="structured")(x, kernel)
    assert_close(found.dense(), windows.dense(), "Jacobian", TOLERANCE)
    assert len(found.terms) == 9


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric", "wrap"])
def test_modes_of_padding(mode: str) -> None:
    """Margins of other entries than zeros; `wrap` is the circular convolution."""
    random = np.random.default_rng(6)
    x, kernel = random.normal(size=(6, 5)), random.normal(size=(3, 3))

    def function(xp: Any) -> Any:
        def circular(x: Any, kernel: Any) -> Any:
            padded = xp.pad(x, 1, mode=mode)
            if xp is np:
                windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3))
                return np.tanh(np.einsum("ab,yxab->yx", kernel, windows))
            return jnp.tanh(jax.lax.conv(padded[None, None], kernel[None, None], (1, 1), "VALID")[0, 0])

        return circular

    for argnums in (0, 1):
        reference = evaluate_jax(jax.jacrev(function(jnp), argnums), x, kernel)
        for form in ("dense", "structured"):
            found = hesse.jacobian(function(np), argnums, form=form)(x, kernel)
            assert_close(np.asarray(found), reference, f"{mode}, {form}", TOLERANCE)

    def scalar(xp: Any) -> Any:
        return lambda x, kernel: xp.sum(function(xp)(x, kernel) ** 2)

    reference = evaluate_jax(jax.hessian(scalar(jnp)), x, kernel)
    found = hesse.hessian(scalar(np), form="structured")(x, kernel)
    assert_close(found.dense(), reference, f"Hessian, {mode}", TOLERANCE)
    wide, weights = random.normal(size=(30, 30)), kernel
    found = hesse.jacobian(function(np), form="structured")(wide, weights)
    assert found.nbytes * 100 < 8 * np.prod(found.shape)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("length", [2, 3, 5])
@pytest.mark.parametrize("name", ["convolve", "correlate"])
def test_convolve(name: str, length: int, mode: str) -> None:
    """NumPy's own convolutions of vectors, by both of them."""
    random = np.random.default_rng(7)
    x, weights = random.normal(size=40), random.normal(size=length)

    def function(xp: Any) -> Any:
        return lambda x, weights: xp.tanh(getattr(xp, name)(x, weights, mode))

    for argnums in (0, 1):
        found = hesse.jacobian(function(np), argnums, form="structured")(x, weights)
        reference = evaluate_jax(jax.jacfwd(function(jnp), argnums), x, weights)
        assert_close(found.dense(), reference, f"{mode} by argument {argnums}", TOLERANCE)
    by_signal = hesse.jacobian(function(np), form="structured")(x, weights)
    assert len(by_signal.terms) <= length
    assert by_signal.nbytes <= 8 * length * 42


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_other_libraries(library: str) -> None:
    """The same on PyTorch and JAX: dense, structured, products with vectors."""
    make = torch.as_tensor if library == "torch" else jnp.asarray
    for name in ("3 x 3, same", "3 x 3, strides 2, dilation 2 and 3", "one dimension, strides 3"):
        case = CASES[name]
        arguments = [make(array) for array in case.arguments]
        reference = evaluate_jax(jax.jacfwd(bent(case, jnp)), *case.arguments)
        dense = hesse.jacobian(bent(case, np))
        structured = hesse.jacobian(bent(case, np), form="structured")
        for _ in range(2):
            assert_close(np.asarray(dense(*arguments)), reference, f"{name}, dense", TOLERANCE)
            found = structured(*arguments)
            assert_close(np.asarray(found.dense()), reference, f"{name}, structured", TOLERANCE)
        product = np.tensordot(reference, case.arguments[0], len(case.image) + 1)
        assert_close(np.asarray(found @ arguments[0]), product, f"{name}, product", TOLERANCE)
        hessian = hesse.hessian(energy(case, np), form="structured")(*arguments)
        expected = evaluate_jax(jax.hessian(energy(case, jnp)), *case.arguments)
        assert_close(np.asarray(hessian.dense()), expected, f"{name}, Hessian", TOLERANCE)


def test_single_precision() -> None:
    """Pieces keep the dtype."""
    arguments = [array.astype(np.float32) for array in FIRST.arguments]
    found = hesse.jacobian(bent(FIRST, np), form="structured")(*arguments)
    assert found.dtype == found.dense().dtype == np.float32
    assert_close(found.dense(), evaluate_jax(jax.jacfwd(bent(FIRST, jnp)), *FIRST.arguments), "J", 1e-5)


def test_operations_of_structured_tensors() -> None:
    """Products, diagonals, sparse matrices, chunks and solutions from the pieces."""
    case = plane((6, 5), (3, 3), ((1, 1), (1, 1)))._replace(channels=(2, 2))
    x, kernel = case.arguments
    hessian = hesse.hessian(lambda x, K: energy(case, np)(x, K) + 3 * np.sum(x * x), form="structured")(
        x, kernel
    )
    dense = hessian.dense().reshape(60, 60)
    vector = np.random.default_rng(8).normal(size=x.shape)
    assert_close((hessian @ vector).ravel(), dense @ vector.ravel(), "product", TOLERANCE)
    assert_close(hessian.quadratic(vector), vector.ravel() @ dense @ vector.ravel(), "quadratic", TOLERANCE)
    assert_close(hessian.diagonal().ravel(), np.diagonal(dense), "diagonal", TOLERANCE)
    assert_close(hessian.trace(), np.trace(dense), "trace", TOLERANCE)
    assert_close(hessian.to_sparse().toarray(), dense, "sparse", TOLERANCE)
    assert_close(hessian.dense(chunk=1).reshape(60, 60), dense, "chunks", TOLERANCE)
    assert_close(hessian.solve(vector).ravel(), np.linalg.solve(dense, vector.ravel()), "solution", 1e-8)


def test_two_layers() -> None:
    """A convolution of a convolution: the Jacobian and the Hessian against JAX."""
    case = plane((6, 5), (3, 3), ((1, 1), (1, 1)))._replace(channels=(2, 2))
    x, kernel = case.arguments

    def net(xp: Any) -> Any:
        layer = bent(case, xp)
        return lambda x, kernel: layer(layer(x, kernel), kernel)

    reference = evaluate_jax(jax.jacfwd(net(jnp), (0, 1)), x, kernel)
    found = hesse.jacobian(net(np), (0, 1), form="structured")(x, kernel)
    for block, expected in zip(found, reference, strict=True):
        assert_close(block.dense(), expected, "Jacobian", TOLERANCE)
    scalar = hesse.hessian(lambda x, K: np.sum(net(np)(x, K) ** 2))(x, kernel)
    expected = evaluate_jax(jax.hessian(lambda x, K: jnp.sum(net(jnp)(x, K) ** 2)), x, kernel)
    assert_close(scalar, expected, "Hessian", TOLERANCE)


def test_random_windows_of_placed_deltas() -> None:
    """Any stride, gap and offset of windows over a placed delta, against the definition."""
    random = np.random.default_rng(9)
    was_cut = 0
    for _ in range(60):
        size, step, inner_step = random.integers(3, 7), random.integers(1, 4), random.integers(1, 3)
        gap, window, before = random.integers(1, 4), random.integers(2, 5), random.integers(0, 5)
        length = int(before + inner_step * (size - 1) + 1 + random.integers(0, 5))
        count = (length - 1 - gap * (window - 1)) // step + 1
        if count < 1:
            continue
        (i,) = plain_axes(1)
        ones = variable("d", (int(size),))
        delta = einsum(
            [ones], [[i]], [Axis(((0, int(inner_step)),), int(before)), i], (length, int(size)), (int(size),)
        )
        y, k, j = plain_axes(3)
        read = Axis(((0, int(step)), (1, int(gap))), 0)
        weights = variable("w", (int(window),))
        ranges = (int(count), int(window), int(size))
        found = einsum([weights, delta], [[k], [read, j]], [y, j], (int(count), int(size)), ranges)
        d, w = random.normal(size=size), random.normal(size=window)
        expected = np.zeros((count, size))
        for row in range(count):
            for offset in range(window):
                entry, rest = divmod(step * row + gap * offset - before, inner_step)
                if rest == 0 and 0 <= entry < size:
                    expected[row, entry] += w[offset] * d[entry]
        assert_close(evaluate(found, {"d": d, "w": w}), expected, "windows", TOLERANCE)
        was_cut += isinstance(found, Add)
    assert was_cut > 20


def test_too_many_pieces_stay_a_node() -> None:
    """A kernel of more positions than pieces are worth is right, with the delta as it is."""
    case = Convolution((80,), (70,), ((35, 34),), (1,), (1,), (1, 1))
    assert case.pieces > unify.MOST_PIECES
    reference = evaluate_jax(jax.jacfwd(bent(case, jnp)), *case.arguments)
    found = hesse.jacobian(bent(case, np), form="structured")(*case.arguments)
    assert_close(found.dense(), reference, "Jacobian", TOLERANCE)


def test_sum_of_placements() -> None:
    """Disjoint blocks that windows reach over: each block falls into its own pieces."""
    x, y = variable("x", (5,)), variable("y", (4,))
    whole = add([place(x, (12,), [1]), place(y, (12,), [7])], (12,))
    i, k = plain_axes(2)
    weights = variable("w", (3,))
    node = einsum([weights, whole], [[k], [Axis(((0, 1), (1, 1)), 0)]], [i], (10,), (10, 3))
    random = np.random.default_rng(10)
    values = {"x": random.normal(size=5), "y": random.normal(size=4), "w": random.normal(size=3)}
    padded = np.concatenate([[0.0], values["x"], [0.0], values["y"], [0.0]])
    assert_close(evaluate(node, values), np.correlate(padded, values["w"], "valid"), "value", TOLERANCE)
