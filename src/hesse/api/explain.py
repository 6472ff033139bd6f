"""What a derivative computes and what it costs, for people to read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hesse.backends.executable import Executable
from hesse.backends.preference import preferred
from hesse.calculus import Choice
from hesse.ir import Node, topological
from hesse.plan import Program
from hesse.plan.program import Contract
from hesse.rewrite import by_definitions

MOST_PRINTED = 400
"""Formulas of more nodes than this are printed only if they are asked for: it takes long."""


@dataclass(frozen=True)
class Explanation:
    """Formula, size and cost of a compiled derivative; printing it shows everything."""

    roots: tuple[Node, ...]
    executable: Executable
    choices: tuple[Choice, ...] = ()

    @property
    def program(self) -> Program:
        """The instructions, as the back end runs them."""
        return self.executable.program

    @property
    def source(self) -> str:
        """The function that is called."""
        return self.executable.compiled.source

    @property
    def modes(self) -> tuple[str, ...]:
        """The mode of each differentiation, with the estimates of those that were tried."""
        return tuple(
            f"{choice.mode}"
            + (f"   (estimates: {_listed(choice.estimates)})" if len(choice.estimates) > 1 else "")
            for choice in self.choices
        )

    @property
    def formula(self) -> str:
        """The derivative as a formula (one line for each result)."""
        from hesse.printing import text  # noqa: PLC0415  (not loaded before it is needed)

        return "\n".join(text(root) for root in self.roots)

    @property
    def nodes(self) -> int:
        """Distinct nodes of the expression; a derivative of a choice is one with its condition."""
        return len(topological(by_definitions(self.roots, ["chosen"])))

    @property
    def flops(self) -> float:
        """Floating-point operations of one call."""
        return self.program.total_flops

    @property
    def bytes(self) -> int:
        """Bytes read and written by the array operations of one call."""
        return self.program.moved_entries * self.executable.itemsize

    @property
    def peak_bytes(self) -> int:
        """Most bytes alive at once besides inputs and constants, results included."""
        return self.program.peak_elements() * self.executable.itemsize

    @property
    def backend(self) -> str:
        """The back end that computes it; for NumPy arrays also the one that the estimate prefers."""
        used, best = self.executable.target.name, preferred(self.executable)
        return (
            used if used != "numpy" or best == used else f'{used}   (backend="{best}" is likely to be faster)'
        )

    @property
    def contractions(self) -> tuple[str, ...]:
        """The pairwise products in their order, in index notation with sizes."""
        letters = "ijklmnopqrstuvwxyzabcdefgh"
        steps = []
        for item in self.program.instructions:
            if isinstance(item, Contract):
                names: dict[int, str] = {}
                for label in (*item.left_labels, *item.right_labels):
                    names.setdefault(label, letters[len(names) % 26])
                parts = [
                    "".join(names[label] for label in part)
                    for part in (item.left_labels, item.right_labels, item.labels)
                ]
                shapes = " by ".join(str(self.program.shapes[ref]) for ref in (item.left, item.right))
                steps.append(f"{parts[0]},{parts[1]}->{parts[2]}   {shapes}")
        return tuple(steps)

    def __str__(self) -> str:
        formula = self.formula if self.nodes <= MOST_PRINTED else "long; the attribute formula has it"
        lines = [
            f"formula        {formula}",
            "modes          " + ("\n               ".join(self.modes) or "as asked"),
            f"nodes          {self.nodes}",
            f"FLOPs          {self.flops:,.0f}",
            f"bytes moved    {self.bytes:,}",
            f"peak memory    {self.peak_bytes:,} bytes",
            f"back end       {self.backend}",
            "contractions   " + ("\n               ".join(self.contractions) or "none"),
            "source",
            *("    " + line for line in self.source.splitlines()),
        ]
        return "\n".join(lines)

    __repr__ = __str__


def _listed(estimates: Mapping[str, float]) -> str:
    return ", ".join(
        f"{name} {cost:.3g}" for name, cost in sorted(estimates.items(), key=lambda item: item[1])
    )
