"""Derivatives of arrays that are distributed over devices: memory of each, and what they send each other.

`python -m benchmarks.sharding` measures on one, two and four virtual devices and writes the table of the
page; `--devices N` prints what N devices give, as JSON. `--processes N --number K --port P` makes it one of
several processes that compute together.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

PAGE = Path(__file__).resolve().parents[1] / "docs" / "scaling.md"
BEGIN, END = "<!-- table -->\n", "<!-- end of table -->\n"
ROWS = 1024


class Case(NamedTuple):
    """A function by its arguments, of which those named are distributed by rows."""

    derivative: Callable[[Any], Callable[..., Any]]
    function: Callable[..., Any]
    shapes: dict[str, tuple[int, ...]]
    by_rows: frozenset[str]


def cases(hesse: Any, jnp: Any, n: int) -> dict[str, Case]:
    """The cases by name, with n rows."""

    def logistic(w: Any, X: Any, y: Any) -> Any:
        return jnp.sum(jnp.log1p(jnp.exp(-y * (X @ w))))

    def batch(x: Any, W: Any) -> Any:
        return jnp.sum(jnp.tanh(jnp.tanh(x @ W) @ W))

    def factorisation(U: Any, V: Any, T: Any) -> Any:
        return jnp.sum((T - U @ V.T) ** 2)

    def pairs(x: Any) -> Any:
        apart = x[:, None, :] - x[None, :, :]
        squares = jnp.sum(apart**2, -1) + jnp.eye(n)
        return jnp.sum(1 / squares)

    def structured(f: Any) -> Any:
        return hesse.hessian(f, form="structured")

    of_logistic = {"w": (8,), "X": (n, 8), "y": (n,)}
    of_batch = {"x": (n, 3), "W": (3, 3)}
    of_factors = {"U": (n, 3), "V": (16, 3), "T": (n, 16)}
    rows = frozenset
    return {
        "logistic gradient": Case(hesse.grad, logistic, of_logistic, rows({"X", "y"})),
        "logistic Hessian": Case(hesse.hessian, logistic, of_logistic, rows({"X", "y"})),
        "batch Hessian": Case(hesse.hessian, batch, of_batch, rows({"x"})),
        "batch blocks": Case(structured, batch, of_batch, rows({"x"})),
        "factorisation Hessian": Case(hesse.hessian, factorisation, of_factors, rows({"U", "T"})),
        "pair potential Hessian": Case(hesse.hessian, pairs, {"x": (n, 3)}, rows({"x"})),
        "pair potential blocks": Case(structured, pairs, {"x": (n, 3)}, rows({"x"})),
        "pair potential gradient": Case(hesse.grad, pairs, {"x": (n, 3)}, rows({"x"})),
    }


def measured(case: Case, jax: Any, np: Any, mesh: Any) -> dict[str, Any]:
    """Values and memory of a case, distributed and not."""
    spec = jax.sharding.PartitionSpec
    random = np.random.default_rng(0)
    arrays = {name: random.normal(size=shape) for name, shape in case.shapes.items()}
    placed = [
        jax.make_array_from_callback(
            array.shape,
            jax.sharding.NamedSharding(mesh, spec(mesh.axis_names[0]) if name in case.by_rows else spec()),
            lambda index, array=array: array[index],
        )
        for name, array in arrays.items()
    ]
    derivative = case.derivative(case.function)
    expected = _leaves(jax, case.derivative(case.function)(*map(jax.numpy.asarray, arrays.values())))
    results = _leaves(jax, derivative(*placed))
    again = _leaves(jax, derivative(*placed))
    compiled = jax.jit(derivative).lower(*placed).compile()
    text, memory = compiled.as_text(), compiled.memory_analysis()
    return {
        "error": max(_error(np, one, other) for one, other in zip(results, expected, strict=True)),
        "again": max(_error(np, one, other) for one, other in zip(again, expected, strict=True)),
        "bytes": sum(leaf.nbytes for leaf in results),
        "bytes per device": sum(leaf.addressable_shards[0].data.nbytes for leaf in results),
        "arguments": sum(array.nbytes for array in placed),
        "arguments per device": memory.argument_size_in_bytes,
        "temporaries per device": memory.temp_size_in_bytes,
        "collectives": sorted(set(re.findall(r"all-reduce|all-gather|all-to-all|reduce-scatter", text))),
    }


def _leaves(jax: Any, result: Any) -> list[Any]:
    return [leaf for leaf in jax.tree.leaves(result) if hasattr(leaf, "addressable_shards")]


def _error(np: Any, distributed: Any, expected: Any) -> float:
    """The largest difference, among the parts that this process has."""
    whole = np.asarray(expected)
    return max(
        float(np.max(np.abs(np.asarray(shard.data) - whole[shard.index])))
        for shard in distributed.addressable_shards
    )


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Everything that the devices of this process have part in."""
    here = options.devices // options.processes
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={here}"
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax  # noqa: PLC0415  (the number of devices is read when it is imported)
    import jax.numpy as jnp  # noqa: PLC0415
    import numpy as np  # noqa: PLC0415

    import hesse  # noqa: PLC0415

    jax.config.update("jax_enable_x64", True)
    if options.processes > 1:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(f"localhost:{options.port}", options.processes, options.number)
    kind = jax.sharding.AxisType.Explicit if options.explicit else jax.sharding.AxisType.Auto
    mesh = jax.make_mesh((options.devices,), ("rows",), axis_types=(kind,))
    found = {name: measured(case, jax, np, mesh) for name, case in cases(hesse, jnp, options.rows).items()}
    if options.processes > 1:
        jax.distributed.shutdown()
    return found


def table(rows: int) -> str:
    """Memory on one, two and four devices, each measured in a process of its own."""
    by_devices = {}
    for devices in (1, 2, 4):
        command = [
            sys.executable,
            "-m",
            "benchmarks.sharding",
            "--devices",
            str(devices),
            "--rows",
            str(rows),
        ]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        by_devices[devices] = json.loads(output.splitlines()[-1])
    lines = ["| derivative | one device | two devices | four devices | collectives |"]
    lines.append("| --- | --- | --- | --- | --- |")
    for name, last in by_devices[4].items():
        cells = [" + ".join(f"{found[name][part]:,}" for part in PARTS) for found in by_devices.values()]
        lines.append(f"| {name} | {' | '.join(cells)} | {', '.join(last['collectives']) or 'none'} |")
    return "\n".join(lines) + "\n"


PARTS = ("arguments per device", "bytes per device", "temporaries per device")


def main() -> None:
    """Measure, and print or write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=int, default=0)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--number", type=int, default=0)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--explicit", action="store_true")
    options = parser.parse_args()
    if options.devices:
        print(json.dumps(run(options)))
        return
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(before + BEGIN + table(options.rows) + END + after, encoding="utf-8")


if __name__ == "__main__":
    main()
