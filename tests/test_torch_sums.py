"""Products inside sums, and the layout of repeated products, in programs for PyTorch."""

import numpy as np
import pytest
import torch

import hesse

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")


def _net(x, *weights):
    for weight in weights:
        x = torch.tanh(x @ weight)
    return x.sum()


def _weights(width, layers, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(width, width, generator=generator, dtype=dtype) / width**0.5 for _ in range(layers)]


@pytest.mark.parametrize("batch", [3, 80])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_blocks_of_a_batch_agree_with_vmap(batch, dtype):
    weights = _weights(8, 3, dtype)
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(batch, 8, generator=generator, dtype=dtype)
    derivative = hesse.hessian(lambda x: _net(x, *weights), form="structured")
    expected = torch.func.vmap(torch.func.hessian(lambda row: _net(row, *weights)))(x)
    tolerance = 1e-10 if dtype == torch.float64 else 1e-4
    for _ in range(2):
        found = derivative(x).dense()
        for k in range(batch):
            torch.testing.assert_close(found[k, :, k, :], expected[k], atol=tolerance, rtol=tolerance)


def test_repeated_products_read_what_is_laid_out_for_them():
    weights = _weights(8, 3)
    x = torch.ones(80, 8, dtype=torch.float64)
    derivative = hesse.hessian(lambda x: _net(x, *weights), form="structured")
    derivative(x)
    products = [line for line in derivative.explain(x).source.splitlines() if "torch.matmul(" in line]
    assert len(products) >= 8
    assert not [line for line in products if ".permute(2, 0, 1)" in line]


def test_blocks_of_a_batch_agree_between_numpy_and_torch():
    weights = [weight.numpy() for weight in _weights(8, 3)]
    x = np.random.default_rng(2).normal(size=(80, 8))

    def net(x):
        for weight in weights:
            x = np.tanh(x @ weight)
        return np.sum(x)

    found = hesse.hessian(net, form="structured")(x).dense()
    others = [torch.from_numpy(weight) for weight in weights]
    expected = hesse.hessian(lambda x: _net(x, *others), form="structured")(torch.from_numpy(x)).dense()
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-12)


SUMS = {
    "1 - t²": lambda x, y: 1 - x * x,
    "only products": lambda x, y: 2 * x * y - 3 * y * y * x,
    "multiples": lambda x, y: 0.5 * torch.exp(x) - 2 * torch.sin(y) + 3 * x,
    "negative first": lambda x, y: -(x * y) - torch.exp(y),
    "broadcast": lambda x, y: torch.exp(x) - 2 * x.sum(0) * y[:1] + y[:, :1] * x[0],
    "read twice": lambda x, y: (x * y + torch.exp(x)) * (x * y),
    "transposed": lambda x, y: torch.exp(x) + 0.1 * (x.T * y.T).T - (y @ x.T) @ y,
}


@pytest.mark.parametrize("case", SUMS)
def test_sums_of_products(case):
    f = SUMS[case]
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(4, 4, generator=generator, dtype=torch.float64)
    y = torch.randn(4, 4, generator=generator, dtype=torch.float64)
    weights = torch.randn(4, 4, generator=generator, dtype=torch.float64)

    def loss(x, y):
        return (torch.tanh(f(x, y)) * weights).sum()

    value, found = hesse.value_and_grad(loss, argnums=(0, 1))(x, y)
    torch.testing.assert_close(value, loss(x, y))
    for one, other in zip(found, torch.func.grad(loss, (0, 1))(x, y), strict=True):
        torch.testing.assert_close(one, other, atol=1e-12, rtol=1e-12)
    second = hesse.hessian(loss)(x, y)
    torch.testing.assert_close(second, torch.func.hessian(loss)(x, y), atol=1e-11, rtol=1e-11)


def test_a_product_and_a_sum_are_one_operation():
    def f(x):
        return torch.sum(torch.tanh(x) * x)

    x = torch.linspace(0, 1, 5, dtype=torch.float64)
    derivative = hesse.grad(f)
    torch.testing.assert_close(derivative(x), torch.func.grad(f)(x))
    assert "torch.addcmul(" in derivative.explain(x).source


def test_results_stay_differentiable_and_can_be_mapped():
    x = torch.linspace(0.1, 1, 5, dtype=torch.float64)
    derivative = hesse.grad(lambda x: torch.sum(torch.tanh(x) * x * x))
    expected = torch.func.hessian(lambda x: torch.sum(torch.tanh(x) * x * x))(x)
    torch.testing.assert_close(torch.func.jacrev(derivative)(x), expected)
    torch.testing.assert_close(torch.func.jacfwd(derivative)(x), expected)
    rows = torch.stack([x, 2 * x])
    mapped = torch.func.vmap(derivative)(rows)
    torch.testing.assert_close(mapped[1], derivative(2 * x))


def test_fused_programs_scale_before_they_add():
    """`torch.compile` forgets the factor of `torch.add(..., alpha=...)` beside a product of matrices."""

    def f(a, b):
        return torch.sum((a @ b - 0.5 * b @ a) ** 2)

    a, b = torch.randn(3, 3), torch.randn(3, 3)
    plain, fused = (hesse.grad(f).compile(backend="torch", fuse=fuse) for fuse in (False, True))
    assert "alpha=" in plain.explain(a, b).source
    assert "alpha=" not in fused.explain(a, b).source
