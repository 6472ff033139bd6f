"""Layers and modules of PyTorch: derivatives as nested `torch.func.jacrev` has them, and their structure."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, jacrev
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._pytree import tree_leaves, tree_map

import hesse
from hesse.errors import TracingError
from torch_module_cases import CASES, CONVOLUTIONS, Case, check, normal
from torch_nested import assert_equal, nested

DECOMPOSED = {
    "decomposed: " + name
    for name in (
        "affine_grid_generator",
        "channel_shuffle",
        "dropout",
        "gru",
        "gru_cell",
        "lstm",
        "lstm_cell",
        "pad",
        "pixel_shuffle",
        "pixel_unshuffle",
        "rnn_relu",
        "rnn_relu_cell",
        "rnn_tanh",
        "rnn_tanh_cell",
        "unsafe_chunk",
        "unsafe_split",
    )
}
"""Operations that PyTorch takes apart; all others have handlers, and none is foreign."""


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_as_nested_jacrev(case: Case) -> None:
    """All blocks of the derivatives; what is not in the table is said above."""
    assert check(case) <= DECOMPOSED


def test_single_precision() -> None:
    """Results have the dtype of the arguments."""
    for name in (
        "conv2d padding",
        "conv_transpose2d",
        "max_pool2d overlap",
        "avg_pool2d",
        "attention causal",
    ):
        case = CASES[name]
        arguments = [value.float() for value in case.arguments]
        found = hesse.derivative(case.function, 2, case.argnums)(*arguments)
        expected = nested(case.function, 2, case.argnums)(*case.arguments)
        assert_equal(found, tree_map(Tensor.float, expected), 1e-4)


# Structure --------------------------------------------------------------------

IMAGE, KERNEL = normal(1, 2, 20, 24), normal(3, 2, 3, 3)
WINDOWS: dict[str, tuple[Callable[..., Tensor], tuple[Tensor, ...], int, list[tuple[int, ...]]]] = {
    "same": (lambda x, w: F.conv2d(x, w, padding=1), (IMAGE, KERNEL), 9, [(3, 2, 3, 3), (1, 3, 20, 24)]),
    "valid": (F.conv2d, (IMAGE, KERNEL), 1, [(3, 2, 3, 3), (1, 3, 18, 22)]),
    "strides": (
        lambda x, w: F.conv2d(x, w, padding=1, stride=2),
        (IMAGE, KERNEL),
        4,
        [(3, 2, 3, 3), (1, 3, 10, 12)],
    ),
    "groups": (
        lambda x, w: F.conv2d(x, w, padding=1, groups=2),
        (IMAGE, normal(4, 1, 3, 3)),
        9,
        [(4, 1, 3, 3), (1, 4, 20, 24)],
    ),
    "transposed": (
        lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1),
        (IMAGE, normal(2, 3, 3, 3)),
        9,
        [(2, 3, 3, 3), (1, 3, 39, 47)],
    ),
    "maximum": (lambda x: F.max_pool2d(x, 2), (IMAGE,), 1, [(2, 10, 12, 2, 2)]),
    "mean": (lambda x: F.avg_pool2d(x, 2), (IMAGE,), 1, [(2, 10, 12)]),
    "interpolation": (
        lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
        (IMAGE,),
        1,
        [(20, 40), (24, 48), (1, 2, 40, 48)],
    ),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_jacobians_keep_the_kernel(name: str) -> None:
    """Jacobians by images are the kernel and the slopes, in a few terms."""
    function, arguments, terms, parts = WINDOWS[name]

    def bent(*values: Tensor) -> Tensor:
        return torch.tanh(function(*values))

    found = hesse.jacobian(bent, form="structured")(*arguments)
    assert len(found.terms) == terms
    assert sorted(tuple(part.shape) for part in found.parts.values()) == sorted(parts)
    assert_equal(found.dense(), jacrev(bent)(*arguments))


def test_hessian_of_a_convolution_keeps_the_kernel() -> None:
    """No more terms than the Jacobian has, and the same two arrays."""
    found = hesse.hessian(lambda x, w: (F.conv2d(x, w, padding=1).tanh() ** 2).sum(), form="structured")(
        IMAGE, KERNEL
    )
    assert len(found.terms) == 9
    assert found.nbytes < 8 * (KERNEL.numel() + 3 * 20 * 24 + 1)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "nearest"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align_corners", [True, False])
def test_images_are_sampled_at_their_entries(mode: str, padding: str, align_corners: bool) -> None:
    """There derivatives are those of the piece behind the entry, and 0 at edges that are held."""

    def function(x: Tensor, grid: Tensor) -> Tensor:
        return F.grid_sample(x, grid, mode, padding, align_corners)

    identity = torch.eye(2, 3, dtype=torch.float64)[None]
    grid = F.affine_grid(identity, [1, 1, 4, 4], align_corners=align_corners)
    for places in (grid, grid * 1.5):
        found = hesse.derivative(function, 1, (0, 1))(IMAGE[:, :1, :4, :4], places)
        assert_equal(found, nested(function, 1, (0, 1))(IMAGE[:, :1, :4, :4], places))


def test_values_of_convolutions_stay_one_contraction() -> None:
    """An image is padded once and contracted with the kernel once."""
    for case in CONVOLUTIONS.values():
        value = hesse.compile(case.function).explain(*case.arguments)
        assert value.nodes < 20, value
    gradient = hesse.grad(CONVOLUTIONS["conv2d padding"].function, (0, 1))
    assert gradient.explain(*CONVOLUTIONS["conv2d padding"].arguments).nodes < 40


# Modules ----------------------------------------------------------------------


class LayerNorm(nn.LayerNorm):
    """By its definition: PyTorch's own mixed second derivatives by weights and inputs are wrong."""

    def forward(self, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        return centred / (centred.square().mean(-1, keepdim=True) + self.eps).sqrt() * self.weight + self.bias


class BatchNorm(nn.BatchNorm2d):
    """The same for batches."""

    def forward(self, x: Tensor) -> Tensor:
        mean, variance = self.running_mean, self.running_var
        if self.training:
            mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3), correction=0)
        shape = (1, -1, 1, 1)
        scaled = (x - mean.reshape(shape)) / (variance.reshape(shape) + self.eps).sqrt()
        return scaled * self.weight.reshape(shape) + self.bias.reshape(shape)


BY_DEFINITION = {nn.LayerNorm: LayerNorm, nn.BatchNorm2d: BatchNorm}


class Block(nn.Module):
    """A transformer block."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.before, self.after = nn.LayerNorm(4), nn.LayerNorm(4)
        self.layers = nn.Sequential(nn.Linear(4, 3), nn.GELU(), nn.Linear(3, 4))

    def forward(self, x: Tensor) -> Tensor:
        y = self.before(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.layers(self.after(x))  # type: ignore[no-any-return]


class Unrolled(nn.Module):
    """A cell for each step of a sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.readout = nn.LSTMCell(2, 1), nn.Linear(1, 1)

    def forward(self, x: Tensor) -> Tensor:
        state: tuple[Tensor, Tensor] | None = None
        for row in x:
            state = self.cell(row, state)
        assert state is not None
        return self.readout(state[0])  # type: ignore[no-any-return]


def small_network() -> nn.Module:
    """A convolutional network with all that one has."""
    return nn.Sequential(
        nn.Conv2d(1, 2, 3, padding=1),
        nn.BatchNorm2d(2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(2, 2, 3, padding=1),
        nn.Tanh(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(2, 2),
    )


MODULES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], bool]] = {
    "MLP": (
        lambda: nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3), nn.SiLU(), nn.Linear(3, 2)),
        (3, 3),
        False,
    ),
    "CNN": (small_network, (2, 1, 4, 4), False),
    "CNN in training": (small_network, (2, 1, 4, 4), True),
    "transformer block": (Block, (1, 2, 4), False),
    "LSTM cell": (Unrolled, (2, 2, 2), False),
}


def built(name: str) -> tuple[nn.Module, Tensor]:
    """A module with parameters of its own, and an input."""
    make, shape, is_training = MODULES[name]
    torch.manual_seed(5)
    module = make().double().train(is_training)
    for parameter in module.parameters():
        parameter.data.add_(torch.randn_like(parameter) / 4)
    return module, normal(*shape)


def by_definition(module: nn.Module) -> nn.Module:
    """A copy in which normalisations are written out."""
    twin = copy.deepcopy(module)
    for part in twin.modules():
        part.__class__ = BY_DEFINITION.get(type(part), type(part))
    return twin


def loss_of(module: nn.Module) -> Callable[..., Tensor]:
    """A loss by the parameters and the input of a module."""

    def loss(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
        y = functional_call(module, parameters, (x,))
        return (y * y).sum() + y.sin().sum()

    return loss


def parameters_of(module: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in module.named_parameters()}


@pytest.mark.parametrize("name", MODULES)
def test_modules(name: str) -> None:
    """Input Hessians, products with vectors and blocks by parameters of modules as they are."""
    module, x = built(name)
    given, direction = parameters_of(module), normal(*x.shape)
    loss, reference = loss_of(module), loss_of(by_definition(module))

    def by_input(x: Tensor) -> Tensor:
        y = module(x)
        return (y * y).sum() + y.sin().sum()  # type: ignore[no-any-return]

    state = copy.deepcopy(module.state_dict())
    with sdpa_kernel(SDPBackend.MATH):
        by_x = jacrev(jacrev(reference, 1), 1)(given, x)
        blocks = jacrev(jacrev(reference))(given, x)
    assert by_x.abs().max() > 1e-3
    assert_equal(hesse.hessian(by_input)(x).detach(), by_x)
    assert_equal(hesse.hvp(by_input)(x, direction).detach(), torch.tensordot(by_x, direction, x.ndim))
    ours = hesse.hessian(loss)(given, x)
    assert set(ours) == set(given)
    for row in given:
        assert set(ours[row]) == set(given)
        for column in given:
            assert_equal(ours[row][column], blocks[row][column])
    for key, before in state.items():  # a derivative is no step of training
        assert torch.equal(before, module.state_dict()[key])


def test_third_derivatives_of_a_module() -> None:
    """Order 3 by parameters and the input."""
    module = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 1)).double()
    given, x = parameters_of(module), normal(1, 2)
    ours = hesse.derivative(loss_of(module), 3, (0, 1))(given, x)
    theirs = nested(loss_of(module), 3, (0, 1))(given, x)
    assert_equal(ours[1][1][1], theirs[1][1][1])
    for row in given:
        assert_equal(ours[1][0][row][1], theirs[1][0][row][1])
        for column in given:
            for last in given:
                assert_equal(ours[0][row][0][column][0][last], theirs[0][row][0][column][0][last])


def test_changed_modules_are_seen() -> None:
    """Steps of an optimiser, other modes and other parameters, between two calls of one derivative."""
    module, x = built("CNN")
    module.eval()
    gradient = hesse.grad(lambda x: module(x).square().sum())

    def expected() -> Tensor:
        return torch.func.grad(lambda x: by_definition(module)(x).square().sum())(x).detach()

    def is_right() -> Tensor:
        found = gradient(x).detach()
        assert_equal(found, expected())
        return found

    seen = [is_right()]
    optimiser = torch.optim.SGD(module.parameters(), 0.1)
    module(x).square().sum().backward()
    optimiser.step()
    seen.append(is_right())
    module.train()
    seen.append(is_right())
    module.eval()
    seen.append(is_right())
    module[0].weight = nn.Parameter(module[0].weight.detach() * 2)  # type: ignore[index, union-attr]
    seen.append(is_right())
    module[1].running_mean.add_(0.5)  # type: ignore[index, union-attr, operator]
    seen.append(is_right())
    module[5] = nn.Sigmoid()  # type: ignore[index]
    seen.append(is_right())
    different = [k for k in range(1, len(seen)) if not torch.equal(seen[k], seen[k - 1])]
    assert different == [1, 2, 3, 4, 5, 6]


def test_dropout_in_training_is_refused() -> None:
    """Random numbers would be the same in every call."""
    x = normal(2, 1, 4)
    for module in (
        nn.TransformerEncoderLayer(4, 2, 3, batch_first=True).double(),
        nn.LSTM(4, 2, 2, dropout=0.5).double(),
        nn.Sequential(nn.Linear(4, 2), nn.Dropout()).double(),
    ):

        def total(x: Tensor, module: nn.Module = module) -> Tensor:
            return tree_leaves(module(x))[0].square().sum()  # type: ignore[no-any-return]

        with pytest.raises(TracingError, match=r"in training mode.* cannot be traced .* module.eval\(\)"):
            hesse.grad(total)(x)
        module.eval()
        assert_equal(hesse.grad(total)(x).detach(), torch.func.grad(total)(x).detach())


def test_queries_without_keys_see_nothing() -> None:
    """Zeros, not nan, as PyTorch has them."""
    mask = torch.tensor([[False, False], [True, False]])
    q, k, v = normal(2, 2), normal(2, 2), normal(2, 2)
    value = hesse.compile(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, mask))(q, k, v)
    assert np.array_equal(value[0], np.zeros(2))
    assert_equal(value, F.scaled_dot_product_attention(q, k, v, mask))


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # of the reference
@pytest.mark.filterwarnings("ignore:hesse has no rule for linalg_householder_product")
def test_orthogonal_weights() -> None:
    """The parametrization reads signs as integers from the diagonal; they are constants."""
    linear = nn.Linear(2, 3, dtype=torch.float64)
    module = nn.utils.parametrizations.orthogonal(linear, use_trivialization=False)
    name, x = "parametrizations.weight.original", normal(2, 2)
    assert isinstance(module.get_parameter(name), Tensor)
    weight = normal(3, 2) + torch.tensor([[2.0, 0.0], [0.0, -2.0], [0.0, 0.0]])

    def loss(weight: Tensor, x: Tensor) -> Tensor:
        return functional_call(module, {name: weight}, (x,)).sin().sum()

    for order in (1, 2):
        assert_equal(hesse.derivative(loss, order, (0, 1))(weight, x), nested(loss, order, (0, 1))(weight, x))
