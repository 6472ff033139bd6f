"""What `backward` returns: the derivatives of a tensor, and how to ask for them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from torch import Tensor

from hesse.errors import ArgumentError, DifferentiationError, NotComputedError
from hesse.frontends.aten.graph import Rule, is_known, walked
from hesse.frontends.aten.graph_nodes import node_name
from hesse.frontends.aten.graph_parts import edge_of, edges_of, graph_nodes
from hesse.frontends.aten.inputs import Walked
from hesse.frontends.aten.recording import ComputedBeforeError, recording_of
from hesse.structured import Structured
from hesse.torch.blocks import Blocks, Independent, Key

Shapes = tuple[tuple[int, ...], ...]
Indeps = tuple[tuple[int | None, ...], ...]
Metadata = tuple[Shapes, Indeps, tuple[int, ...]]
"""The shape of each variable; for each its independent dimensions (None: it has not that one); and the place
of each variable among the groups of axes."""
Hook = Callable[[Any, dict[Any, set[Tensor]]], Sequence[Any]]


class Stored(NamedTuple):
    """A block as it was computed, with its variables sorted."""

    value: Tensor
    independent: tuple[Independent, ...]
    is_batched: bool
    is_hooked: bool = False


class Part(NamedTuple):
    """Blocks of a graph that is cut at some tensors, by their keys."""

    blocks: Blocks
    stored: dict[Key, Stored]


class Controller:
    """The derivatives of a tensor by the leaves of its graph.

    `backward` computes them; hooks, rules for nodes and tensors inside of the graph are named before that.
    """

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = _checked(tensor)
        self._rules: dict[Any, Rule] = {}
        self._hooks: list[tuple[tuple[Tensor, ...], Hook]] = []
        self._retained: list[tuple[Tensor, ...]] = []
        self._parts: dict[frozenset[int], Part] = {}
        """By the identities of tensors inside of the graph that it is cut at."""
        self._create_graph = False
        self._gradient: Tensor | None = None

    @property
    def tensor(self) -> Tensor:
        """The tensor that is differentiated."""
        return self._tensor

    @tensor.setter
    def tensor(self, tensor: Tensor) -> None:
        self._tensor = _checked(tensor)
        self._parts, self._gradient = {}, None

    @property
    def index(self) -> dict[Any, Rule]:
        """Rules for nodes of autograd, by their class or its name.

        A rule is a torch function of the node and of its operands (those that are differentiated by) that
        computes what the operation computes. It is traced; `node.saved_tensors` are data.
        """
        return self._rules

    @index.setter
    def index(self, rules: Mapping[Any, Rule]) -> None:
        if not isinstance(rules, Mapping):
            raise ArgumentError(f"index must be a dict of rules, not {type(rules).__name__}")
        for kind, rule in rules.items():
            if not callable(rule):
                raise ArgumentError(f"the rule for {_kind_name(kind)} is no function, but {rule!r}")
        self._rules = dict(rules)

    def _named_rules(self) -> dict[str, Rule]:
        return {_kind_name(kind): rule for kind, rule in self._rules.items()}

    @property
    def compatible(self) -> bool:
        """Whether there is a rule for every node of the graph."""
        rules = self._named_rules()
        return all(is_known(node, rules) for node in graph_nodes(self._tensor))

    def display_graph(self) -> None:
        """Print the graph as a tree; what was shown before is not shown again."""
        rules, seen = self._named_rules(), set[Any]()
        waiting: list[tuple[Any, str, str]] = [(self._tensor.grad_fn, "", "")]
        while waiting:
            node, lead, branch = waiting.pop()
            text = node_name(node)
            if hasattr(node, "variable"):
                text += f" {tuple(node.variable.shape)}"
            elif not is_known(node, rules):
                text += " (not supported)"
            if node in seen and node.next_functions:
                print(f"{lead}{branch}join: {text}")
                continue
            print(f"{lead}{branch}{text}")
            seen.add(node)
            inner = lead + {"": "", "├─": "│ ", "└─": "  "}[branch]
            following = [edge.node for edge in edges_of(node) if edge is not None]
            for k, other in reversed(list(enumerate(following))):
                waiting.append((other, inner, "└─" if k == len(following) - 1 else "├─"))

    def backward(
        self,
        order: int,
        gradient: Tensor | None = None,
        crossings: bool = False,
        groups: Iterable[Iterable[Tensor]] | None = None,
        keep_batch: bool = False,
        keep_schwarz: bool = False,
        create_graph: bool = False,
    ) -> None:
        """Compute all derivatives up to an order, as `hesse.torch.backward` does."""
        if isinstance(order, bool) or not isinstance(order, int) or order < 1:
            raise ArgumentError(f"order must be a positive int, not {order!r}")
        if crossings and groups is not None:
            raise ArgumentError("groups says which leaves are crossed, and crossings crosses all: give one")
        self._check_gradient(gradient)
        self._create_graph, self._gradient = create_graph, gradient
        self.clear()
        self._parts = {}
        part = self._part((), gradient)
        chosen = [[self._leaf(part, t, "groups") for t in group] for group in _groups(groups)]
        every = range(len(part.blocks.leaves))
        chosen += [list(every)] if crossings else [[k] for k in every]
        keys = sorted({key for group in chosen for key in _combinations(group, order)})
        self._compute(part, keys, keep_batch)
        for variables in self._retained:
            if len(variables) <= order:
                inner = self._part(self._inside(variables), gradient)
                self._compute(inner, [self._key(inner, variables)[0]], keep_batch)
        for variables, hook in self._hooks:
            if len(variables) <= order:
                self._apply(part, variables, hook)
        for leaf in part.blocks.leaves:
            found = [self.fetch_hgrad((leaf,) * o, keep_batch, keep_schwarz) for o in range(1, order + 1)]
            leaf.hgrad = tuple(value for value, _ in found)
            leaf.hdata = tuple(metadata for _, metadata in found)

    def register_backward_hook(self, variables: Sequence[Tensor], hook: Hook) -> None:
        """Let a function change the derivative by these leaves when it is computed.

        It is called with `(tensor, shapes, indeps, vperm)` and with the nodes that use the leaves, and
        returns the four, of which the tensor may be another of the same shape.
        """
        for tensor in _tensors(variables):
            if tensor.grad_fn is not None:
                raise ArgumentError(
                    "a hook changes derivatives by leaves; for a tensor inside of the graph, differentiate "
                    "by it (require_grad_) and continue from there"
                )
        if not callable(hook):
            raise ArgumentError(f"a hook must be a function, not {type(hook).__name__}")
        self._hooks.append((tuple(variables), hook))

    def require_grad_(self, variables: Sequence[Tensor]) -> None:
        """Compute the derivative by these tensors, too, which may be inside of the graph.

        Those inside of it are independent variables then: what they were computed from does not move them.
        """
        reached = set(graph_nodes(self._tensor, [edge_of(t) for t in self._inside(variables)]))
        for tensor in _tensors(variables):
            users = [node for node in reached if edge_of(tensor) in edges_of(node)]
            if not tensor.requires_grad or not users:
                raise ArgumentError(
                    f"a tensor of shape {tuple(tensor.shape)} is not in the graph of the tensor that is "
                    "differentiated, or only behind another one that was named"
                )
        self._retained.append(tuple(variables))

    def fetch_hgrad(
        self, variables: Sequence[Tensor], keep_batch: bool = False, keep_schwarz: bool = False
    ) -> tuple[Tensor, Metadata]:
        """The derivative by tensors, in this order, and what is known of its axes: `(shapes, indeps, vperm)`.

        The first axis is that of the flattened tensor. With `keep_batch` the independent dimensions follow:
        entry k of `indeps[j]` is the dimension of variable j that is axis 1 + k (None: it has none). Then
        come the other dimensions of each variable. With `keep_schwarz` the variables are in the order in
        which they were computed, and those of variable j are group `vperm[j]`.
        """
        part, key, places = self._asked(variables)
        stored = part.stored[key]
        if stored.is_batched != keep_batch:
            if stored.is_hooked:
                raise ArgumentError(
                    "a hook has changed this derivative; fetch it as it was computed, with "
                    f"keep_batch={not keep_batch}"
                )
            ((value, independent),) = part.blocks.computed([key], keep_batch, self._create_graph)
            stored = Stored(value, independent, keep_batch)
        return _arranged(stored, [tuple(t.shape) for t in variables], places, keep_schwarz)

    def structured(self, variables: Sequence[Tensor]) -> Structured:
        """The derivative by tensors as patterns over small tensors; the axes of the tensor come first.

        It is computed now, of any order, and `backward` need not have been called.
        """
        part = self._part(self._inside(variables), self._gradient)
        key, places = self._key(part, variables)
        if key in part.stored and part.stored[key].is_hooked:
            raise ArgumentError("a hook has changed this derivative; fetch it with fetch_hgrad")
        return part.blocks.structured(key, places)

    def clear(self) -> None:
        """Take the derivatives away from the leaves."""
        for part in self._parts.values():
            for leaf in part.blocks.leaves:
                for name in ("hgrad", "hdata"):
                    if hasattr(leaf, name):
                        delattr(leaf, name)

    # Keys: the leaves of a part by their numbers.

    def _part(self, inside: Sequence[Tensor], gradient: Tensor | None) -> Part:
        """The graph, cut at tensors inside of it."""
        identity = frozenset(map(id, inside))
        if identity not in self._parts:
            self._parts[identity] = Part(Blocks(self._tensor, self._walked(inside), gradient), {})
        return self._parts[identity]

    def _walked(self, inside: Sequence[Tensor]) -> Walked:
        """The expression of the tensor: from the recording, or from the graph if that began too late."""
        recording = recording_of(self._tensor)
        if recording is None:
            return walked(self._tensor, inside, self._named_rules())
        try:
            return recording.walked(self._tensor, inside)
        except ComputedBeforeError as error:
            try:
                return walked(self._tensor, inside, self._named_rules())
            except DifferentiationError:
                raise error from None

    def _inside(self, variables: Sequence[Tensor]) -> list[Tensor]:
        return list({id(t): t for t in _tensors(variables) if t.grad_fn is not None}.values())

    def _leaf(self, part: Part, tensor: Any, where: str) -> int:
        for k, leaf in enumerate(part.blocks.leaves):
            if leaf is tensor:
                return k
        raise ArgumentError(f"{where}: {_described(tensor)} is not a leaf of the graph")

    def _key(self, part: Part, variables: Sequence[Tensor]) -> tuple[Key, tuple[int, ...]]:
        """The block by variables, and the place of each of them in it."""
        numbers = [self._leaf(part, tensor, "variables") for tensor in variables]
        order = sorted(range(len(numbers)), key=numbers.__getitem__)
        return tuple(numbers[k] for k in order), tuple(map(order.index, range(len(order))))

    def _asked(self, variables: Sequence[Tensor]) -> tuple[Part, Key, tuple[int, ...]]:
        """Where a derivative was computed."""
        part = self._parts.get(frozenset(map(id, self._inside(variables))))
        if not any(part.stored for part in self._parts.values()):
            raise NotComputedError("nothing was computed yet: call backward first")
        if part is None:
            raise NotComputedError(
                "derivatives by a tensor inside of the graph are computed if require_grad_ named it before"
            )
        key, places = self._key(part, variables)
        if key not in part.stored:
            raise NotComputedError(
                f"the derivative of order {len(key)} by these tensors was not computed: raise the order, or "
                "cross them (crossings=True, or groups)"
            )
        return part, key, places

    def _compute(self, part: Part, keys: Sequence[Key], is_batched: bool) -> None:
        results = part.blocks.computed(keys, is_batched, self._create_graph)
        for key, (value, independent) in zip(keys, results, strict=True):
            part.stored[key] = Stored(value, independent, is_batched)

    def _apply(self, part: Part, variables: tuple[Tensor, ...], hook: Hook) -> None:
        """Let a hook change a block."""
        _, key, places = self._asked(variables)
        stored = part.stored[key]
        shapes = [tuple(t.shape) for t in variables]
        value, metadata = _arranged(stored, shapes, places, keep_schwarz=True)
        users: dict[Any, set[Tensor]] = {}
        for node in graph_nodes(self._tensor):
            used = {t for t in variables if edge_of(t) in edges_of(node)}
            if used:
                users[node] = used
        answer = hook((value, *metadata), users)
        changed = answer[0] if isinstance(answer, tuple | list) and len(answer) == 4 else None
        if not isinstance(changed, Tensor) or changed.shape != value.shape:
            raise ArgumentError(
                "a hook must return (tensor, shapes, indeps, vperm) with a tensor of shape "
                f"{tuple(value.shape)}, not {answer!r}"
            )
        part.stored[key] = stored._replace(value=changed, is_hooked=True)

    def _check_gradient(self, gradient: Any) -> None:
        if gradient is None:
            return
        if not isinstance(gradient, Tensor) or gradient.shape != self._tensor.shape:
            raise ArgumentError(
                f"gradient must have the shape of the tensor, {tuple(self._tensor.shape)}; "
                f"it is {_described(gradient)}"
            )
        if gradient.is_complex():
            raise ArgumentError(f"gradient must be real, as the tensor is; its dtype is {gradient.dtype}")
        if gradient.device != self._tensor.device:
            raise ArgumentError(
                f"gradient is on {gradient.device} and the tensor on {self._tensor.device}; move it there"
            )


def _checked(tensor: Any) -> Tensor:
    """A tensor that has a graph."""
    if not isinstance(tensor, Tensor):
        raise ArgumentError(f"tensor must be a torch tensor, not {type(tensor).__name__}")
    if not tensor.dtype.is_floating_point:
        raise ArgumentError(
            f"tensor has dtype {tensor.dtype}; only real floating-point tensors have derivatives"
        )
    if not tensor.requires_grad:
        raise ArgumentError(
            "tensor has no graph: it was computed under torch.no_grad(), was detached, or nothing that it "
            "was computed from requires grad (x.requires_grad_())"
        )
    if tensor.grad_fn is None:
        raise ArgumentError("tensor is a leaf: nothing was computed yet that could be differentiated")
    return tensor


def _groups(groups: Any) -> list[list[Any]]:
    """The leaves of each group."""
    whole = [] if groups is None else groups
    if isinstance(whole, Tensor) or not isinstance(whole, Iterable):
        raise ArgumentError(f"groups must be a list of groups of leaves, not {type(whole).__name__}")
    parts = list(whole)
    for part in parts:
        if isinstance(part, Tensor) or not isinstance(part, Iterable):
            raise ArgumentError(f"each group must be a list of leaves, not {type(part).__name__}")
    return [list(part) for part in parts]


def _tensors(variables: Any) -> Sequence[Tensor]:
    if not isinstance(variables, tuple | list):
        raise ArgumentError(f"variables must be a tuple of tensors, not {type(variables).__name__}")
    if not variables:
        raise ArgumentError("variables must be a tuple of tensors, and this one is empty")
    for tensor in variables:
        if not isinstance(tensor, Tensor):
            raise ArgumentError(f"variables must be tensors, not {type(tensor).__name__}")
    return variables


def _described(value: Any) -> str:
    if not isinstance(value, Tensor):
        return f"a {type(value).__name__}"
    text = f"a tensor of shape {tuple(value.shape)}"
    if not value.dtype.is_floating_point:
        return f"{text} and dtype {value.dtype}"
    return text if value.requires_grad else f"{text} that does not require grad"


def _kind_name(kind: Any) -> str:
    name: str = kind if isinstance(kind, str) else kind.__name__
    return name


def _combinations(group: Sequence[int], order: int) -> Iterable[Key]:
    """The blocks of all orders by the leaves of a group."""
    leaves = sorted(set(group))
    for o in range(1, order + 1):
        yield from itertools.combinations_with_replacement(leaves, o)


def _arranged(
    stored: Stored, shapes: Sequence[tuple[int, ...]], places: tuple[int, ...], keep_schwarz: bool
) -> tuple[Tensor, Metadata]:
    """A block with its groups of axes in the order of variables, unless `keep_schwarz`, and its metadata."""
    value, independent = stored.value, stored.independent
    indeps = tuple(tuple(shared[place] for shared in independent) for place in places)
    if not keep_schwarz:
        lead = 1 + len(independent)
        ranks = [0] * len(places)
        for shape, place, dimensions in zip(shapes, places, indeps, strict=True):
            ranks[place] = len(shape) - sum(d is not None for d in dimensions)
        starts = [lead + sum(ranks[:k]) for k in range(len(ranks))]
        axes = [*range(lead)]
        for place in places:
            axes += range(starts[place], starts[place] + ranks[place])
        value = value.permute(axes)
        places = tuple(range(len(places)))
    return value, (tuple(shapes), indeps, places)
