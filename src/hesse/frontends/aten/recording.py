"""Operations on tensors written down while they are computed, and read again as expressions.

Nothing is lost here that autograd does not keep: constants, fill values, writing to parts of tensors. Each
operation of ATen is a line of a tape. To differentiate a tensor, the lines that it depends on are computed
again, with traced tensors.

Tensors are told apart by where they are in memory, because autograd makes other objects of views.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextvars import Token
from typing import Any, NamedTuple, Self
from weakref import WeakSet

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from hesse.errors import ArgumentError
from hesse.frontends.aten.functions import install, recorder
from hesse.frontends.aten.inputs import Inputs, Walked
from hesse.frontends.aten.table import mapped, operation_name, tensors_in
from hesse.frontends.aten.tensor import TracedTensor, expression_of, fresh
from hesse.frontends.aten.tracer import VALUES, Tracer
from hesse.frontends.operands import as_node

DATA = frozenset(
    [
        "bernoulli",
        "bernoulli_",
        "cauchy_",
        "exponential_",
        "geometric_",
        "log_normal_",
        "multinomial",
        "native_dropout",
        "normal",
        "normal_",
        "poisson",
        "rand",
        "rand_like",
        "randint",
        "randint_like",
        "randn",
        "randn_like",
        "random_",
        "randperm",
        "repeat_interleave",
        "uniform_",
    ]
)
"""Operations whose results are data: numbers drawn, and places as often as counts say."""

Place = tuple[Any, ...]
"""Where the entries of a tensor are in memory."""


class Line(NamedTuple):
    """An operation that was computed."""

    function: Any
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    results: tuple[Tensor, ...]
    drawn: tuple[Tensor, ...]
    """Copies of the results, if they are data: drawn at random, or integers."""
    has_graph: bool
    """Whether autograd kept a graph."""


class Recording(TorchDispatchMode):
    """A tape of all operations in a block of code."""

    def __init__(self) -> None:
        super().__init__()
        self._tape: list[Line] = []
        self._made: set[Any] = set()
        """Memory that was made here."""
        self._before: dict[Place, Tensor] = {}
        """What tensors from outside were before something was written to them."""
        self._around: list[Token[Any]] = []
        """Recorders of the blocks around this one."""
        living.add(self)

    def __enter__(self) -> Self:
        install()
        self._around.append(recorder.set(self))
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        recorder.reset(self._around.pop())

    __hash__ = object.__hash__

    def __torch_dispatch__(
        self,
        function: Any,
        types: Any,
        arguments: tuple[Any, ...] = (),
        options: dict[str, Any] | None = None,
    ) -> Any:
        options = options or {}
        if function._schema.is_mutable:
            for target in _written(function, arguments, options):
                if _memory(target) not in self._made:
                    self._before.setdefault(_place(target), target.detach().clone())
        found = function(*arguments, **options)
        results = tuple(tensors_in(found))
        if results and operation_name(function) not in ("lift", "lift_fresh"):
            self._made |= {_memory(t) for t in results} - {
                _memory(t) for t in tensors_in((arguments, options))
            }
            is_data = operation_name(function) in DATA | VALUES or _counts(
                tensors_in((arguments, options)), results
            )
            drawn = tuple(t.detach().clone() for t in results) if is_data else ()
            line = Line(function, arguments, options, results, drawn, torch.is_grad_enabled())
            self._tape.append(_in_other_words(line))
        return found

    def applied(self, function: Any, compute: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """The results of a `torch.autograd.Function`, which is one line: its rule differentiates it."""
        with _disable_current_modes():
            found = compute(*arguments, **options)
        results = tuple(tensors_in(found))
        self._made |= {_memory(t) for t in results} - {_memory(t) for t in tensors_in((arguments, options))}
        self._tape.append(Line(function, arguments, options, results, (), torch.is_grad_enabled()))
        return found

    def knows(self, tensor: Tensor) -> bool:
        """Whether a tensor was computed here."""
        place = _place(tensor)
        return any(_place(result) == place for line in reversed(self._tape) for result in line.results)

    def walked(self, tensor: Tensor, cuts: Sequence[Tensor]) -> Walked:
        """The expression that a tensor was computed by; tensors that it is cut at are leaves, too."""
        return _Replay(self._before, {_place(cut): cut for cut in cuts}).of(tensor, self._needed(tensor))

    def _needed(self, tensor: Tensor) -> list[Line]:
        """The lines that a tensor depends on."""
        memories, lines = {_memory(tensor)}, []
        for line in reversed(self._tape):
            if any(_memory(t) in memories for t in line.results):
                lines.append(line)
                memories |= {_memory(t) for t in tensors_in((line.arguments, line.options))}
        return lines[::-1]


living: WeakSet[Recording] = WeakSet()
"""Recordings that somebody still has."""


def recording_of(tensor: Tensor) -> Recording | None:
    """The recording in which a tensor was computed."""
    return next((recording for recording in list(living) if recording.knows(tensor)), None)


class _Replay:
    """Lines of a tape computed again with traced tensors."""

    def __init__(self, before: dict[Place, Tensor], cuts: dict[Place, Tensor]) -> None:
        self._inputs = Inputs()
        self._before = before
        self._cuts = cuts
        self._traced: dict[Place, TracedTensor] = {}
        self._detached: dict[Place, TracedTensor] = {}
        """Tensors at the same places that have no graph."""

    def of(self, tensor: Tensor, lines: Sequence[Line]) -> Walked:
        """The expression of a tensor after all lines."""
        tracer = Tracer((), self._inputs.hidden)
        with tracer.active():
            for line in lines:
                with torch.set_grad_enabled(line.has_graph):
                    self._compute(line)
            root = expression_of(self._traced[_place(tensor)])
        return Walked(as_node(root), False, self._inputs)

    def _compute(self, line: Line) -> None:
        arguments = mapped(self._found, line.arguments)
        options = {name: mapped(self._found, value) for name, value in line.options.items()}
        name = operation_name(line.function) if hasattr(line.function, "_schema") else ""
        if name == "native_dropout":
            with _disable_current_modes():
                mask = line.drawn[1] / (1 - line.arguments[1])
            found = [torch.ops.aten.mul.Tensor(arguments[0], mask), line.drawn[1]]
        elif line.drawn and line.function._schema.is_mutable:
            found = [torch.ops.aten.copy_.default(arguments[0], line.drawn[0])]
        elif line.drawn:
            found = list(line.drawn)
        else:
            found = list(tensors_in(line.function(*arguments, **options)))
        for real, traced in zip(line.results, found, strict=False):  # others are details of a derivative
            self._enter(real, traced, name == "detach")

    def _enter(self, real: Tensor, traced: Tensor, is_detached: bool) -> None:
        place = _place(real)
        if not isinstance(traced, TracedTensor):
            traced = fresh(self._inputs.hidden(traced), real.dtype, real.device)
        if place in self._cuts and not is_detached:
            leaf = self._inputs.leaf(self._cuts.pop(place))
            traced = fresh(leaf, real.dtype, real.device, real.is_contiguous())
        (self._detached if is_detached else self._traced)[place] = traced

    def _found(self, tensor: Tensor) -> TracedTensor:
        """What stands for a tensor."""
        place = _place(tensor)
        if not tensor.requires_grad and place in self._detached:
            return self._detached[place]
        if place not in self._traced:
            if tensor.requires_grad and not tensor.is_leaf:
                raise ArgumentError(
                    f"a tensor of shape {tuple(tensor.shape)} was computed before the recording began; "
                    "compute it inside of hesse.torch.record()"
                )
            value = (
                self._inputs.leaf(tensor)
                if tensor.requires_grad
                else self._inputs.hidden(self._before.get(place, tensor))
            )
            self._traced[place] = fresh(value, tensor.dtype, tensor.device, tensor.is_contiguous())
        return self._traced[place]


def _in_other_words(line: Line) -> Line:
    """A line in terms of operations of the table.

    Masks, whose entries are known now, are replaced by the places where they hold.
    """
    names = [argument.name for argument in line.function._schema.arguments]
    given = dict(zip(names, line.arguments, strict=False)) | line.options
    name, aten = operation_name(line.function), torch.ops.aten
    if name in ("masked_select", "masked_scatter"):
        shape = torch.broadcast_shapes(given["self"].shape, given["mask"].shape)
        places = list(given["mask"].broadcast_to(shape).nonzero(as_tuple=True))
        arguments = (given["self"], shape, places, *line.arguments[2:])
        return line._replace(
            function=_selected if name == "masked_select" else _scattered, arguments=arguments
        )
    if "indices" in given and name != "embedding" and isinstance(given["indices"], tuple | list):
        places = list(_places(given["indices"]))
        return line._replace(arguments=(line.arguments[0], places, *line.arguments[2:]))
    if name in ("_cdist_forward", "_pdist_forward"):
        return line._replace(function=getattr(aten, name.split("_")[1]).default)
    if name.startswith("_scaled_dot_product"):
        mask = given.get("attn_mask", given.get("attn_bias"))
        settings = (given.get("dropout_p", 0.0), given.get("is_causal", False))
        arguments = (given["query"], given["key"], given["value"], mask, *settings)
        options = {
            "scale": given.get("scale"),
            "enable_gqa": True,
        }  # PyTorch has checked the numbers of heads
        return line._replace(
            function=aten.scaled_dot_product_attention.default, arguments=arguments, options=options
        )
    if name in ("native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_no_training"):
        kept = [given.get(k) for k in ("input", "weight", "bias", "running_mean", "running_var")]
        arguments = (*kept, given.get("training", False), 0.0, given["eps"], False)
        return line._replace(function=aten.batch_norm.default, arguments=arguments, options={})
    if name == "native_group_norm":
        kept = [given[k] for k in ("input", "group", "weight", "bias", "eps")]
        return line._replace(function=aten.group_norm.default, arguments=tuple(kept), options={})
    return line


def _places(indices: Sequence[Any]) -> Iterator[Any]:
    for index in indices:
        is_mask = isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8)
        yield from index.nonzero(as_tuple=True) if is_mask else [index]


def _scattered(tensor: Tensor, shape: torch.Size, places: list[Tensor], source: Tensor) -> Tensor:
    """A tensor that is repeated to a shape, with the first entries of another one at places."""
    aten = torch.ops.aten
    entries = aten.reshape.default(source, [-1])[: len(places[0])]
    return aten.index_put.default(aten.expand.default(tensor, shape), places, entries)


def _selected(tensor: Tensor, shape: torch.Size, places: list[Tensor]) -> Tensor:
    """Entries at places of a tensor that is repeated to a shape."""
    return torch.ops.aten.index.Tensor(torch.ops.aten.expand.default(tensor, shape), places)


def _counts(operands: Iterator[Tensor], results: Sequence[Tensor]) -> bool:
    """Whether an operation makes integers of real numbers, which have no derivatives."""
    is_whole = not any(
        t.dtype.is_floating_point or t.dtype.is_complex or t.dtype == torch.bool for t in results
    )
    return is_whole and any(t.dtype.is_floating_point for t in operands)


def _memory(tensor: Tensor) -> Any:
    return tensor.untyped_storage()._cdata


def _place(tensor: Tensor) -> Place:
    return _memory(tensor), tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype


def _written(function: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> Iterator[Tensor]:
    """The tensors that an operation writes to."""
    for k, argument in enumerate(function._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            yield from tensors_in(arguments[k] if k < len(arguments) else options.get(argument.name))
