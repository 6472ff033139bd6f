"""NumPy: a program becomes readable straight-line source, compiled once."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

import numpy as np

from hesse.backends import elementwise_kernels, operation_kernels
from hesse.backends.numpy_source import (
    Target,
    aligned,
    combine_source,
    contract_source,
    loop_order,
    permuted,
    product_source,
    repeats,
    tuple_text,
    view_source,
)
from hesse.backends.runtime import affine_view, place_overlapping
from hesse.plan.program import (
    CallApply,
    CallMap,
    Combine,
    Contract,
    Instruction,
    Literal,
    Load,
    Program,
    Reduce,
    Scale,
    View,
    sources,
)

FREE_ABOVE = 4096
"""Values with more entries than this are deleted after their last use."""


@dataclass(frozen=True)
class Compiled:
    """A function of the arrays named by `inputs`, and its source."""

    function: Callable[..., tuple[np.ndarray, ...]]
    inputs: tuple[str, ...]
    source: str


def compile_program(
    program: Program,
    inputs: Sequence[str],
    dtype: np.dtype[Any],
    given: Mapping[str, Any] | None = None,
    results_in_order: bool = True,
) -> Compiled:
    """Python source over NumPy for the program, compiled into a function of the inputs in the given order.

    `given` are values of further inputs. Results lie in memory in the order of their axes, unless that is
    said not to matter.
    """
    namespace: dict[str, Any] = {
        "np": np,
        "dtype": dtype,
        "affine_view": affine_view,
        "place_overlapping": place_overlapping,
    }
    arguments = {name: f"x{k}" for k, name in enumerate(inputs)}
    namespace.update(given or {})
    names: list[str] = []
    lines: list[str] = []
    last, readable = program.last_uses(), program.last_reads()
    final = _final(program) if results_in_order else set()
    for k, item in enumerate(program.instructions):
        if isinstance(item, Load):
            names.append(arguments.get(item.name, item.name))
            continue
        if isinstance(item, Literal):
            names.append(_literal(item, k, namespace, dtype))
            continue
        names.append(f"t{k}")
        spare = {s for s in sources(item) if readable[s] <= k and _is_fresh(program, s)}
        lines += _lines(item, k, names, program, namespace, spare, final)
        done = [s for s in dict.fromkeys(sources(item)) if last[s] == k and _is_large(program, s)]
        if done and k + 1 < len(program.instructions):
            lines.append(f"del {', '.join(names[s] for s in done)}")
    returned = [_result(program, result, names) for result in program.results]
    comments = [f"    # {arguments[name]} = {name}" for name in inputs if name != arguments[name]]
    body = "\n".join([*comments, *(f"    {line}" for line in lines), f"    return {tuple_text(returned)}"])
    source = f"def program({', '.join(arguments.values())}):\n{body}\n"
    exec(compile(source, "<hesse program>", "exec"), namespace)
    return Compiled(namespace["program"], tuple(inputs), source)


def _literal(item: Literal, k: int, namespace: dict[str, Any], dtype: np.dtype[Any]) -> str:
    value = item.value if item.value.dtype.kind in "iu" else np.asarray(item.value, dtype)
    namespace[f"c{k}"] = value
    return f"c{k}"


def _is_large(program: Program, ref: int) -> bool:
    return (
        not isinstance(program.instructions[ref], Load | Literal)
        and math.prod(program.shapes[ref]) > FREE_ABOVE
    )


def _is_fresh(program: Program, ref: int) -> bool:
    """Whether a value has its own memory."""
    item = program.instructions[ref]
    if isinstance(item, Combine):
        shape = program.shapes[ref]
        placed = [term for term in item.terms if not term.is_dense(shape)]
        return bool(placed) or (len(item.terms) > 1 and not repeats(item, shape))
    return isinstance(item, Contract | Reduce | Scale | CallApply) or (
        isinstance(item, CallMap) and item.name != "stop_gradient"
    )


def _result(program: Program, ref: int, names: list[str]) -> str:
    """Results never share memory with inputs, literals or each other."""
    if _is_fresh(program, ref) and program.results.count(ref) == 1:
        return names[ref]
    return f"np.array({names[ref]})"


def _lines(
    item: Instruction,
    k: int,
    names: list[str],
    program: Program,
    namespace: dict[str, Any],
    spare: set[int],
    final: set[int],
) -> list[str]:
    target = f"t{k}"
    match item:
        case View():
            return [f"{target} = {view_source(item, names[item.source], program.shapes[item.source])}"]
        case Reduce():
            axes = item.positions[0] if len(item.positions) == 1 else tuple_text(item.positions)
            return [f"{target} = np.add.reduce({names[item.source]}, {axes})"]
        case Scale():
            return _scale_lines(item, target, names[item.source], item.source in spare)
        case Contract():
            return _contract_lines(item, k, names, program, spare, k in final)
        case Combine():
            place = Target(target, program.shapes[k], namespace["dtype"].itemsize, k in final)
            counts = Counter(term.source for term in item.terms)
            free = {
                j for j, term in enumerate(item.terms) if term.source in spare and counts[term.source] == 1
            }
            return combine_source(item, place, [names[t.source] for t in item.terms], free)
        case CallMap():
            function = namespace[item.name] = elementwise_kernels.kernel(item.name)
            arguments = [names[source] for source in item.sources]
            own = next((s for s in item.sources if s in spare and _is_large(program, s)), None)
            if own is not None and isinstance(function, np.ufunc):
                arguments.append(f"out={names[own]}")
            return [f"{target} = {item.name}({', '.join(arguments)})"]
        case CallApply():
            namespace[item.name] = operation_kernels.kernel(item.name)
            arguments = [repr(item.params), *(names[s] for s in item.sources)]
            return [f"{target} = {item.name}({', '.join(arguments)})"]
        case Load() | Literal():
            raise AssertionError("leaves have no lines")
    assert_never(item)


def _scale_lines(item: Scale, target: str, source: str, is_spare: bool) -> list[str]:
    if is_spare:
        return [f"{target} = {source}", f"{target} *= {item.factor!r}"]
    return [f"{target} = -{source}" if item.factor == -1 else f"{target} = {item.factor!r} * {source}"]


def _contract_lines(
    item: Contract, k: int, names: list[str], program: Program, spare: set[int], in_order: bool
) -> list[str]:
    left, right = names[item.left], names[item.right]
    sizes = dict(zip(item.left_labels, program.shapes[item.left], strict=True))
    sizes.update(zip(item.right_labels, program.shapes[item.right], strict=True))
    if not set(item.left_labels) & set(item.right_labels) <= set(item.labels):
        return [f"t{k} = {contract_source(item, left, right, sizes)}"]
    for ref, labels, other, other_labels in (
        (item.left, item.left_labels, right, item.right_labels),
        (item.right, item.right_labels, left, item.left_labels),
    ):
        if ref in spare and item.left != item.right and len(labels) == len(item.labels) > 0:
            first = permuted(names[ref], tuple(labels.index(label) for label in item.labels))
            return [f"t{k} = {first}", f"t{k} *= {aligned(other, other_labels, item.labels)}"]
    order = None if in_order else loop_order(item.labels, sizes)
    return [f"t{k} = {product_source(item, left, right, order)}"]


def _final(program: Program) -> set[int]:
    """The values that are results, or become results by adding to them."""
    sums = [k for k in program.results if isinstance(program.instructions[k], Combine)]
    added = {
        s for k in sums for s in sources(program.instructions[k]) if program.shapes[s] == program.shapes[k]
    }
    return added.union(program.results)
