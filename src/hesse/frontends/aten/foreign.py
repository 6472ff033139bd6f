"""Operations without a rule in the table: PyTorch computes them, and its own rule differentiates them.

The rule is traced. PyTorch records the operation on traced tensors and passes a traced cotangent back, so
that what its rule computes arrives in the table, and is differentiated again by hesse's calculus.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import torch
from torch import Tensor
from torch.autograd.graph import _engine_run_backward
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes

from hesse.calculus.foreign import DerivedRule, LinearMap
from hesse.errors import ArgumentError, DifferentiationError
from hesse.frontends.aten.table import Typed, operation_name
from hesse.frontends.aten.tensor import TracedTensor, content, expression_of, fresh, is_recording
from hesse.frontends.expression import Expression
from hesse.frontends.operands import as_node
from hesse.frontends.special import stop_gradient
from hesse.frontends.tracing import untraceable
from hesse.ir import Apply, Node, variable, zero
from hesse.ops.foreign import Output, concrete_shapes, foreign

AUTOGRAD = tuple(
    key
    for name in ("AutogradFunctionality", "AutogradOther", "AutogradCPU", "AutogradCUDA", "ADInplaceOrView")
    if (key := getattr(torch._C.DispatchKey, name, None)) is not None
)
"""What the tracer turns off."""
MAKE_INSIDE = "Make integers that it needs, such as lengths, inside of the function: torch.tensor([3, 2])."
DETACHING = (torch.detach, Tensor.detach, Tensor.data.__get__)
"""What makes a constant of a tensor."""


class Operand(NamedTuple):
    """The place of a tensor among the arguments: its number, and whether it is "real", "integer", …"""

    number: int
    kind: str
    dtype: torch.dtype


class Known:
    """Integers or booleans among the arguments as they are now: the tensor may be written to later."""

    def __init__(self, tensor: Tensor) -> None:
        with _disable_current_modes():
            self.tensor = tensor.detach().clone()
            entries = self.tensor.cpu().numpy().tobytes()
        self._key = tensor.dtype, tensor.device, tensor.shape, entries

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Known) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


def is_refused(function: Any) -> bool:
    """Whether an operation draws random numbers."""
    return torch.Tag.nondeterministic_seeded in function.tags


def applied(function: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """An operation as a foreign function."""
    name = operation_name(function)
    if not is_recording.get():
        warnings.warn(
            f"hesse has no rule for {name}; it is computed and differentiated by PyTorch's own", stacklevel=2
        )
    return called(name, function, arguments, options)


def called(
    name: str, function: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]
) -> Any:
    """The results of a function of tensors that is not looked into, as expressions; integers with a dtype."""
    operands: list[Node] = []

    def placed(value: Any) -> Any:
        if isinstance(value, Tensor):
            kind = kind_of(value.dtype)
            if kind != "real" and isinstance(given := content(value), Tensor):
                return Known(given)  # shapes of results may depend on known integers, such as lengths
            expression = expression_of(value)
            is_index = kind == "integer" and expression.index is not None
            operands.append(expression.index.as_node() if is_index else as_node(expression))
            return Operand(len(operands) - 1, kind, torch.float64 if kind == "real" else value.dtype)
        if isinstance(value, tuple | list):
            return tuple(map(placed, value))
        return value

    template = placed(arguments), tuple(sorted((key, placed(value)) for key, value in options.items()))
    key = function, _marked(template)
    rule = _rules.get(key)
    if rule is None:
        rule = _rules[key] = TorchRule(name, function, *template)
    outputs = rule.outputs(concrete_shapes(name, operands))
    results: list[Any] = [
        Expression(node, boolean=output.kind == "boolean")
        for node, output in zip(foreign(rule, *operands), outputs, strict=True)
    ]
    results = [
        Typed(result, dtype) if output.kind == "integer" else result
        for result, output, dtype in zip(results, outputs, rule.dtypes, strict=True)
    ]
    left = iter(results)
    return tuple(next(left) if made else None for made in rule.is_made) if rule.has_several else results[0]


def _marked(value: Any) -> Any:
    """What tells arguments apart: their values and types, or which object it is (which the rule keeps)."""
    if isinstance(value, tuple) and not isinstance(value, Operand):
        return tuple(map(_marked, value))
    if isinstance(value, float):
        return repr(value)  # tells -0.0 from 0.0
    return (type(value), value) if isinstance(value, Hashable) else (type(value), id(value))


def kind_of(dtype: torch.dtype) -> str:
    """What the entries of a tensor are."""
    if dtype.is_floating_point:
        return "real"
    return "boolean" if dtype == torch.bool else "integer"


class TorchRule(DerivedRule):
    """A function of tensors with all other arguments fixed, differentiated by autograd's rule for it."""

    is_native = True

    def __init__(
        self, name: str, function: Callable[..., Any], arguments: tuple[Any, ...], options: tuple[Any, ...]
    ) -> None:
        super().__init__(name)
        self.function = function
        self.template = arguments, options
        self.has_several = False
        self.is_made: list[bool] = []
        """Which results there are: a gradient that was not asked for is None."""
        self.dtypes: list[torch.dtype] = []
        """Those of the results for numbers of 64 bits."""
        self._outputs: dict[tuple[tuple[int, ...], ...], tuple[Output, ...]] = {}

    def _called(self, tensors: Sequence[Any]) -> tuple[Any, ...]:
        def filled(value: Any) -> Any:
            if isinstance(value, Operand):
                tensor = tensors[value.number]
                return tensor if value.kind == "real" else tensor.to(value.dtype)
            if isinstance(value, tuple):
                return [filled(part) for part in value]
            return value.tensor if isinstance(value, Known) else value

        arguments, options = self.template
        found = self.function(*map(filled, arguments), **{key: filled(value) for key, value in options})
        self.has_several = isinstance(found, tuple | list)
        listed = tuple(found) if isinstance(found, tuple | list) else (found,)
        self.is_made = [one is not None for one in listed]
        return tuple(one for one in listed if one is not None)

    def _operands(self) -> list[Operand]:
        def found(value: Any) -> Iterator[Operand]:
            if isinstance(value, Operand):
                yield value
            elif isinstance(value, tuple):
                for part in value:
                    yield from found(part)

        return list(found(self.template))

    def outputs(self, shapes: tuple[tuple[int, ...], ...]) -> tuple[Output, ...]:
        if shapes not in self._outputs:
            samples = [
                torch.linspace(0.5, 1.0, max(1, torch.Size(shape).numel())).to(operand.dtype)
                for shape, operand in zip(shapes, self._operands(), strict=True)
            ]
            samples = [
                s[: torch.Size(shape).numel()].reshape(shape)
                for s, shape in zip(samples, shapes, strict=True)
            ]
            with _disable_current_modes(), torch.no_grad():
                results = self._sampled(samples)
            for result in results:
                if not isinstance(result, Tensor) or result.dtype.is_complex:
                    raise untraceable(
                        f"{self.name}, whose result is complex or no tensor,",
                        "Only real tensors are differentiated.",
                    )
            self.dtypes = [result.dtype for result in results]
            self._outputs[shapes] = tuple(Output(tuple(r.shape), kind_of(r.dtype)) for r in results)
        return self._outputs[shapes]

    def _sampled(self, samples: Sequence[Tensor]) -> tuple[Any, ...]:
        try:
            return self._called(samples)
        except RuntimeError as error:
            raise untraceable(
                f"{self.name}, which PyTorch does not compute for all entries of these shapes ({error}),",
                MAKE_INSIDE,
            ) from error

    def call(self, *arrays: Any) -> Sequence[Any]:
        tensors = [torch.as_tensor(array) for array in arrays]  # NumPy's where the matrix of a rule is made
        results = self._called(tensors)
        self._check(tensors, results)
        return [result.to(tensors[0].dtype) if result.dtype == torch.bool else result for result in results]

    def _check(self, tensors: Sequence[Tensor], results: Sequence[Tensor]) -> None:
        """The shapes of the results must be those that all entries of these shapes were taken to have."""
        expected = [output.shape for output in self.outputs(tuple(tuple(t.shape) for t in tensors))]
        found = [tuple(result.shape) for result in results]
        if found != expected:
            raise ArgumentError(
                f"{self.name}: its shapes depend on values of an argument ({found}, not {expected}). "
                f"{MAKE_INSIDE}"
            )

    def is_active(self, node: Apply, slot: int) -> bool:
        outputs = self.outputs(concrete_shapes(self.name, node.operands))
        return self._operands()[slot].kind == outputs[node.params[1]].kind == "real"

    def cotangent(self, node: Apply, slot: int) -> LinearMap:
        number = node.params[1]
        cotangent = variable(f"cotangent of {self!r}", node.shape, ["tangent"])
        operands = [
            _entered(operand, place) for operand, place in zip(node.operands, self._operands(), strict=True)
        ]
        with recording():
            operands[slot].requires_grad_(True)
            try:
                results = self._called(operands)
                self._enter_results(results, operands, node)
                found = None
                # Some of several results are constant (a permutation); but an operation is not as a whole.
                if not any(r.requires_grad for r in results) or results[number].requires_grad:
                    # Not torch.autograd.grad, inside of which modes for functions are off; and with a graph,
                    # because what is computed without one is constant.
                    (found,) = _engine_run_backward(
                        (results[number],),
                        (_entered(cotangent),),
                        True,
                        True,
                        (operands[slot],),
                        allow_unreachable=True,
                        accumulate_grad=False,
                    )
            except RuntimeError as error:
                raise DifferentiationError(
                    f"{self.name} has no rule in hesse, and PyTorch's own fails: {error}"
                ) from error
            value = zero(node.operands[slot].shape) if found is None else as_node(expression_of(found))
        return LinearMap(value, cotangent, (cotangent,), (node, *node.operands))

    def _enter_results(
        self, results: Sequence[TracedTensor], operands: Sequence[TracedTensor], node: Apply
    ) -> None:
        """Let results stand for this function: what a rule saves of them is differentiated by it again."""
        inside = {id(operand.cell) for operand in operands}
        for tensor, own in zip(results, foreign(self, *node.operands), strict=True):
            if not tensor.steps and id(tensor.cell) not in inside and tensor.dtype.is_floating_point:
                tensor.cell.write(Expression(own))


_rules: WeakValueDictionary[Any, TorchRule] = WeakValueDictionary()


def _entered(node: Node, place: Operand | None = None) -> TracedTensor:
    """The traced tensor of an operand, or of a cotangent."""
    is_truth = place is not None and place.kind == "boolean"
    dtype = torch.float64 if place is None else place.dtype
    return fresh(Expression(node, boolean=is_truth), dtype, torch.device("cpu"))


class _Detaching(TorchFunctionMode):
    """Tells `detach` in the code of a rule from that of autograd, which detaches whatever it saves."""

    def __torch_function__(
        self, function: Any, types: Any, arguments: tuple[Any, ...] = (), options: Any = None
    ) -> Any:
        if function in DETACHING and isinstance(arguments[0], TracedTensor):
            tensor = arguments[0]
            return fresh(stop_gradient(expression_of(tensor)), tensor.dtype, tensor.device)
        return function(*arguments, **(options or {}))


@contextmanager
def recording() -> Iterator[None]:
    """Around operations that PyTorch shall record and that are traced all the same."""
    from hesse.frontends.aten.tracer import Tracer  # noqa: PLC0415  the two call each other

    excluded = torch._C._dispatch_tls_local_exclude_set()
    for key in AUTOGRAD:
        excluded = excluded.remove(key)
    included = torch._C._dispatch_tls_local_include_set()
    token = is_recording.set(True)
    try:
        with (
            torch._C._ForceDispatchKeyGuard(included, excluded),
            torch.enable_grad(),
            Tracer((), None),
            _Detaching(),
        ):
            yield
    finally:
        is_recording.reset(token)
