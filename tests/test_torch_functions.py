"""Element-wise functions, activations, losses, reductions and normalisations of PyTorch.

Derivatives are compared with nested `torch.func.jacrev`, at kinks with autograd.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import hesse
from hesse.errors import ArgumentError, DifferentiationError, TracingError
from hesse.frontends.aten import tracer
from hesse.frontends.aten.table import operation_name
from torch_cases import ACTIVATIONS, ELEMENTWISE, REDUCTIONS
from torch_loss_cases import LOSSES, MEANS, NORMALIZATIONS, RUNNING, VARIANCES, layer_norm_by_hand
from torch_nested import assert_equal, nested

CASES = {case.name: case for case in (*ACTIVATIONS, *ELEMENTWISE, *REDUCTIONS, *LOSSES, *NORMALIZATIONS)}
TOLERANCE = 1e-8
FOREIGN = frozenset(
    {
        "_ctc_loss",
        "cummax",
        "cummin",
        "gather",
        "i0",
        "mode",
        "nanmedian",
        "special_erfcx",
        "special_i0e",
        "special_i1",
        "special_i1e",
        "special_zeta",
    }
)
"""Operations that PyTorch computes and differentiates by its own rules, with a warning."""
DECOMPOSED = frozenset(
    {
        "_fused_rms_norm",
        "_weight_norm_interface",
        "count_nonzero",
        "dist",
        "empty_like",
        "isneginf",
        "isposinf",
        "ldexp",
        "logit",
        "mvlgamma",
        "nan_to_num",
        "nansum",
        "new_full",
        "new_zeros",
        "renorm",
    }
)
"""Operations that PyTorch writes in terms of others."""


class Recorded(dict[Any, Any]):
    """The table of decompositions, and the names of those that were used."""

    def __init__(self, table: dict[Any, Any]) -> None:
        super().__init__(table)
        self.used: set[str] = set()

    def __getitem__(self, function: Any) -> Any:
        self.used.add(operation_name(function))
        return super().__getitem__(function)


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Checks that no operation is decomposed or foreign that was not."""
    table = Recorded(tracer.decomposition_table)
    monkeypatch.setattr(tracer, "decomposition_table", table)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    messages = [str(warning.message) for warning in caught]
    named = {
        text.removeprefix("hesse has no rule for ").split(";")[0] for text in messages if "no rule" in text
    }
    assert named <= FOREIGN
    assert {name for name in table.used if name not in FOREIGN} <= DECOMPOSED


def test_there_are_enough_cases() -> None:
    lists = (ACTIVATIONS, ELEMENTWISE, REDUCTIONS, LOSSES, NORMALIZATIONS)
    assert len(CASES) == sum(map(len, lists))  # no name twice
    assert len(CASES) > 250


@pytest.mark.usefixtures("ways")
@pytest.mark.parametrize("name", CASES)
def test_derivatives_equal_nested_ones(name: str) -> None:
    """All orders and blocks, in a first call and in a second one with other values."""
    case = CASES[name]
    points, others = case.points(), case.points(seed=1)
    argnums = tuple(range(len(points)))
    reference = case.reference or case.function
    assert_equal(hesse.compile(case.function)(*points), reference(*points), TOLERANCE)
    for order in range(1, case.order + 1):
        ours, theirs = hesse.derivative(case.function, order, argnums), nested(reference, order, argnums)
        assert_equal(ours(*points), theirs(*points), TOLERANCE)
        assert_equal(ours(*others), theirs(*others), TOLERANCE)


SINGLE = {
    *("gelu", "softplus_beta", "log_softmax", "xlogy", "sinc", "lgamma", "logsumexp", "std", "norm_p3"),
    *("cross_entropy_mean", "cross_entropy_ignored_sum", "pdist", "layer_norm_affine", "rms_norm"),
}


@pytest.mark.parametrize("name", sorted(SINGLE))
def test_single_precision(name: str) -> None:
    case = CASES[name]
    points = case.points(dtype=torch.float32)
    argnums = tuple(range(len(points)))
    exact = nested(case.reference or case.function, 2, argnums)(*[point.double() for point in points])
    found = hesse.derivative(case.function, 2, argnums)(*points)
    rounded = torch.utils._pytree.tree_map(Tensor.float, exact)
    assert_equal(found, rounded, 1e-3)


KINKS: dict[str, tuple[Callable[..., Tensor], tuple[float, ...]]] = {
    "relu": (F.relu, (0.0,)),
    "relu6": (F.relu6, (0.0, 6.0)),
    "leaky_relu": (F.leaky_relu, (0.0,)),
    "elu": (lambda x: F.elu(x, 0.3), (0.0,)),
    "celu": (lambda x: F.celu(x, 0.5), (0.0,)),
    "selu": (F.selu, (0.0,)),
    "prelu": (lambda x: F.prelu(x, torch.tensor([0.3], dtype=x.dtype)), (0.0,)),
    "hardtanh": (F.hardtanh, (-1.0, 1.0)),
    "hardswish": (F.hardswish, (-3.0, 3.0)),
    "hardsigmoid": (F.hardsigmoid, (-3.0, 3.0)),
    "hardshrink": (F.hardshrink, (-0.5, 0.0, 0.5)),
    "softshrink": (F.softshrink, (-0.5, 0.0, 0.5)),
    "threshold": (lambda x: F.threshold(x, 0.5, 2.0), (0.5,)),
    "softsign": (F.softsign, (0.0,)),
    "softplus": (lambda x: F.softplus(x, threshold=3.0), (3.0,)),
    "clamp": (lambda x: torch.clamp(x, -1.0, 1.0), (-1.0, 1.0)),
    "clamp_min": (lambda x: torch.clamp(x, min=1.0), (1.0,)),
    "abs": (torch.abs, (0.0,)),
    "sinc": (torch.sinc, (0.0, 1.0)),
    "copysign": (lambda x: torch.copysign(x, torch.tensor(-1.0)), (0.0, 2.0)),
    "maximum": (lambda x: torch.maximum(x, x.flip(0) * 1.0), (2.0, 2.0)),
    "maximum_of_number": (lambda x: torch.maximum(x, torch.tensor(2.0)), (2.0,)),
    "fmax": (lambda x: torch.fmax(x, torch.tensor(2.0)), (2.0, 1.0)),
    "fmin": (lambda x: torch.fmin(x, torch.tensor(2.0)), (2.0, 1.0)),
    "max": (torch.max, (3.0, 1.0, 3.0)),
    "max_dim": (lambda x: torch.max(x, 0).values, (3.0, 1.0, 3.0)),
    "min_dim": (lambda x: torch.min(x, 0).values, (3.0, 1.0, 1.0)),
    "amax": (lambda x: torch.amax(x, 0), (3.0, 1.0, 3.0)),
    "amin": (lambda x: torch.amin(x, 0), (3.0, 1.0, 1.0)),
    "median": (torch.median, (3.0, 1.0, 3.0, 4.0)),
    "norm": (torch.norm, (0.0, 0.0)),
    "norm_p1": (lambda x: torch.norm(x, 1), (0.0, 1.0)),
    "norm_p3": (lambda x: torch.norm(x, 3), (0.0, 0.0)),
    "norm_half": (lambda x: torch.norm(x, 0.5), (0.0, 1.0)),
    "norm_negative": (lambda x: torch.norm(x, -2), (0.0, 0.0)),
    "entr": (torch.special.entr, (1.0, -1.0)),
    "softmax_of_nothing": (lambda x: torch.softmax(x[:0], 0), (1.0,)),
    "norm_inf": (lambda x: torch.norm(x, math.inf), (2.0, -2.0, 1.0)),
    "std": (torch.std, (2.0, 2.0, 2.0)),
    "huber": (lambda x: F.huber_loss(x, x * 0, reduction="none"), (-1.0, 0.0, 1.0)),
    "smooth_l1": (lambda x: F.smooth_l1_loss(x, x * 0, beta=0.5), (-0.5, 0.0, 0.5)),
    "l1": (lambda x: F.l1_loss(x, x * 0), (0.0, 1.0)),
    "xlogy": (lambda x: torch.xlogy(x, torch.tensor(2.0)), (0.0,)),
    "xlog1py": (lambda x: torch.special.xlog1py(x, torch.tensor(2.0)), (0.0,)),
    "cdist": (lambda x: torch.cdist(x[:, None], x[:, None]), (1.0, 1.0, 2.0)),
    "cosine_similarity": (lambda x: F.cosine_similarity(x, x.detach() + 1, 0), (0.0, 0.0)),
    "normalize": (lambda x: F.normalize(x, dim=0), (0.0, 0.0)),
}
"""Functions, and points at which they have no derivative."""


@pytest.mark.parametrize("name", KINKS)
def test_derivatives_at_kinks_are_those_of_pytorch(name: str) -> None:
    function, values = KINKS[name]
    point = torch.tensor(values, dtype=torch.float64, requires_grad=True)
    weights = torch.arange(1.0, 1.0 + function(point).numel(), dtype=torch.float64)

    def total(x: Tensor) -> Tensor:
        return (function(x).reshape(-1) * weights).sum()

    (expected,) = torch.autograd.grad(total(point), point)
    found = hesse.grad(total)(point.detach())
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12, equal_nan=True)


def test_the_second_derivative_of_sinc_at_zero_is_right() -> None:
    """PyTorch's is 0."""
    found = hesse.derivative(torch.sinc, 2)(torch.tensor(0.0, dtype=torch.float64))
    torch.testing.assert_close(found, torch.tensor(-(math.pi**2) / 3, dtype=torch.float64))


@pytest.mark.parametrize("is_captured", [True, False])
@pytest.mark.parametrize("loss", [F.cross_entropy, lambda x, labels: F.nll_loss(x.log_softmax(1), labels)])
def test_a_mean_over_no_labels_is_not_a_number_but_constant(
    loss: Callable[[Tensor, Tensor], Tensor], is_captured: bool
) -> None:
    captured = torch.tensor([-100, -100])

    def function(x: Tensor) -> Tensor:
        return loss(x, captured if is_captured else torch.tensor([-100, -100]))

    x = torch.ones(2, 3, dtype=torch.float64)
    value, gradient = hesse.value_and_grad(function)(x)
    assert torch.isnan(value)
    assert torch.isnan(function(x))
    assert not gradient.any()
    assert torch.equal(gradient, torch.func.grad(function)(x))


def test_batch_norm_in_training_leaves_its_buffers_alone() -> None:
    module = torch.nn.BatchNorm1d(3).double()
    x = CASES["batch_norm_train"].points()[0]
    before = module.running_mean.clone(), module.num_batches_tracked.clone()
    found = hesse.hessian(lambda x: module(x).pow(3).sum())(x)
    assert torch.equal(module.running_mean, before[0])
    assert torch.equal(module.num_batches_tracked, before[1])
    expected = nested(lambda x: (layer_norm_by_hand(x.T, 1) ** 3).sum(), 2, (0,))(x)
    assert_equal(found, expected, TOLERANCE)
    assert torch.equal(RUNNING[0], MEANS)
    assert torch.equal(RUNNING[1], VARIANCES)


@pytest.mark.parametrize(
    ("name", "function"),
    {
        "dropout in training mode": F.dropout,
        "rrelu in training mode": lambda x: F.rrelu(x, training=True),
        "random numbers": F.gumbel_softmax,
        "needs the entries": lambda x: x if x.any() else x**2,
        "real numbers to torch.int64": lambda x: x.long() * x,
    }.items(),
)
def test_what_cannot_be_traced_is_refused(name: str, function: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(TracingError, match=name):
        hesse.jacobian(function)(torch.ones(3))


@pytest.mark.filterwarnings("ignore:hesse has no rule")
def test_an_operation_that_nobody_differentiates_is_an_error_and_no_zero() -> None:
    with pytest.raises(DifferentiationError, match="special_bessel_j0 has no rule"):
        hesse.jacobian(torch.special.bessel_j0)(torch.ones(3))


def test_a_rule_that_uses_its_result_is_differentiated_again() -> None:
    x = torch.tensor([0.5, 1.0], dtype=torch.float64)
    for rule in (Exponential, DetachedExponential):
        for order in (1, 2, 3):
            found = hesse.derivative(lambda x, rule=rule: rule.apply(x).sum(), order)(x)
            vanishes = rule is DetachedExponential and order > 1
            expected = torch.zeros(2, dtype=torch.float64) if vanishes else torch.exp(x)
            diagonal = found[tuple(torch.arange(2) for _ in range(order))]
            torch.testing.assert_close(diagonal, expected)


def test_a_rule_without_a_graph_is_not_used() -> None:
    x = torch.tensor([0.5, 1.0], dtype=torch.float64)

    def function(x: Tensor) -> Tensor:
        with torch.no_grad():
            scale = Exponential.apply(x)
        return (scale * x).sum()

    torch.testing.assert_close(hesse.grad(function)(x), torch.exp(x))


class Exponential(torch.autograd.Function):
    """Saves its result."""

    @staticmethod
    def forward(context: Any, x: Tensor) -> Tensor:
        """exp(x)."""
        result = torch.exp(x)
        context.save_for_backward(result)
        return result

    @staticmethod
    def backward(context: Any, cotangent: Tensor) -> Tensor:
        """The result again."""
        (result,) = context.saved_tensors
        return cotangent * result


class DetachedExponential(Exponential):
    """Has a rule whose result is constant."""

    @staticmethod
    def backward(context: Any, cotangent: Tensor) -> Tensor:
        """The result as a constant."""
        (result,) = context.saved_tensors
        return cotangent * result.detach()


def _clamped(x: Tensor) -> Tensor:
    y = x * x
    with torch.no_grad():
        y.clamp_(max=1.0)
    return y**3


def _copied(x: Tensor) -> Tensor:
    y = torch.zeros(3, dtype=torch.float64)
    with torch.no_grad():
        y.copy_(x)
    return y * x


def _overwritten(x: Tensor) -> Tensor:
    y = x**2
    with torch.no_grad():
        y[1:].mul_(2.0)
        y[0] = 3.0
        y.add_(4)
    return y**2 * x


@pytest.mark.parametrize("function", [_clamped, _copied, _overwritten])
def test_writing_without_a_graph_keeps_derivatives(function: Callable[[Tensor], Tensor]) -> None:
    x = torch.tensor([0.5, 2.0, -1.0], dtype=torch.float64)
    for order in (1, 2):
        found = hesse.derivative(function, order, (0,))(x)
        assert_equal(found, nested(function, order, (0,))(x))


ENTRIES, TRUTH = torch.ones(4, 3, dtype=torch.float64), torch.zeros(4, 3, dtype=torch.float64)
CLASSES = torch.tensor([0, 2, 1, 1])
FORMULAS = {
    "logsumexp": (
        lambda x: torch.logsumexp(x, 1).sum(),
        "H[i,j,k,l] = delta[i,k]*softmax(x)[i,j]*(delta[j,l] - softmax(x)[i,l])",
    ),
    "cross_entropy": (
        lambda x: F.cross_entropy(x, CLASSES, reduction="sum"),
        "H[i,j,k,l] = delta[i,k]*not_equal(CLASSES[i], -100)*softmax(x)[i,j]*(delta[j,l] - softmax(x)[i,l])",
    ),
    "nll_loss": (
        lambda x: F.nll_loss(F.log_softmax(x, 1), CLASSES, reduction="sum"),
        "H[i,j,k,l] = delta[i,k]*not_equal(CLASSES[i], -100)*softmax(x)[i,j]*(delta[j,l] - softmax(x)[i,l])",
    ),
    "bce_with_logits": (
        lambda x: F.binary_cross_entropy_with_logits(x, TRUTH, reduction="sum"),
        "H[i,j,k,l] = delta[i,k]*delta[j,l]*S[i,j]*(1 - S[i,j]) where S[i,j] = sigmoid(x[i,j])",
    ),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_derivatives_are_compact(name: str) -> None:
    function, formula = FORMULAS[name]
    assert str(hesse.hessian(function).explain(ENTRIES).formula) == formula


@pytest.mark.filterwarnings("ignore:hesse has no rule")
def test_operations_without_a_rule_see_known_integers() -> None:
    def lengths(x: Tensor) -> Tensor:
        return torch.segment_reduce(torch.sin(x), "mean", lengths=torch.tensor([2, 3, 1])).pow(2).sum()

    x = torch.linspace(-1.0, 2.0, 12, dtype=torch.float64).reshape(6, 2)
    assert_equal(hesse.grad(lengths)(x), torch.func.grad(lengths)(x))


@pytest.mark.filterwarnings("ignore:hesse has no rule")
def test_integers_that_an_operation_needs_are_asked_for() -> None:
    def lengths(x: Tensor, n: Tensor) -> Tensor:
        return torch.segment_reduce(x, "sum", lengths=n).sum()

    with pytest.raises(TracingError, match=r"segment_reduce, which PyTorch does not compute.*lengths"):
        hesse.grad(lengths)(torch.ones(6), torch.tensor([2, 4]))


@pytest.mark.filterwarnings("ignore:hesse has no rule")
def test_known_integers_may_be_written_to_later() -> None:
    def twice(x: Tensor) -> Tensor:
        lengths = torch.tensor([2, 1])
        first = torch.segment_reduce(torch.tanh(x), "sum", lengths=lengths)
        lengths[0], lengths[1] = 1, 2
        return first[0] + 10.0 * torch.segment_reduce(torch.tanh(x), "sum", lengths=lengths)[0]

    x = torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64)
    slopes = (1.0 - torch.tanh(x) ** 2) * torch.tensor([11.0, 1.0, 0.0])
    for _ in range(2):
        assert_equal(hesse.grad(twice)(x), slopes)


@pytest.mark.filterwarnings("ignore:hesse has no rule")
def test_shapes_that_depend_on_values_are_refused() -> None:
    """The shapes of results are found for other values than those that come."""
    counts = torch.tensor([2, 1, 2])
    x = torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64)
    for operator in (hesse.grad, hesse.hessian):
        with pytest.raises(ArgumentError, match="repeat_interleave: its shapes depend on values"):
            operator(lambda x: (torch.repeat_interleave(x, counts) ** 3).sum())(x)


@pytest.mark.filterwarnings(
    "ignore:hesse has no rule", "ignore:.*performance drop", "ignore:.torch.jit.script. is deprecated"
)
@pytest.mark.parametrize("transform", [torch.func.grad, torch.func.jacrev, torch.func.jacfwd])
def test_gradients_of_convolutions_inside_of_functions(transform: Callable[..., Any]) -> None:
    """What autograd was not asked for is None: the gradient by the missing bias, or by data."""
    kernel = torch.tensor([[[0.4, -1.3]]], dtype=torch.float64)

    def convolved(x: Tensor) -> Tensor:
        return (torch.conv1d(x[None, None], kernel) ** 3).sum()

    def by_itself(x: Tensor) -> Tensor:
        return (torch.conv1d(x[None, None], x[None, None, :2]) ** 2).sum()

    x = torch.linspace(-1.0, 1.3, 4, dtype=torch.float64)
    for function in (convolved, by_itself):

        def changes(x: Tensor, function: Callable[[Tensor], Tensor] = function) -> Tensor:
            return torch.sin(transform(function)(x)).sum()

        torch.testing.assert_close(hesse.hessian(changes)(x), torch.func.hessian(changes)(x))
