"""`python -m benchmarks.gpu` on a machine with CUDA measures; `--report FILE…` makes the table and plots.

JAX, torch and compiled torch may each take a third of the memory of the device; none may use TF32. Every
row is written as soon as it is there; a run that reaches its time limit ends between two rows.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from benchmarks.gpu.cases import DENSE, STRUCTURED, Row, problems
from benchmarks.gpu.compiled import Compiler
from benchmarks.gpu.report import describe, read, write, write_plots
from benchmarks.gpu.setting import SHARE, jax_alone, torch_alone, versions

DTYPES = ("float32", "float64")
DOCS = Path(__file__).resolve().parents[2] / "docs" / "benchmarks"


def main() -> int:
    """Measure, or report what was measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--tiny", action="store_true", help="sizes to try the program out")
    parser.add_argument("--only", default="", help="problems whose name contains this text")
    parser.add_argument("--dtype", choices=(*DTYPES, "both"), default="both")
    parser.add_argument("--form", choices=(DENSE, STRUCTURED), default=DENSE)
    parser.add_argument("--seconds", type=float, default=450.0, help="for everything")
    parser.add_argument("--row-seconds", type=float, default=1.0, help="for the samples of a row")
    parser.add_argument("--kept-seconds", type=float, default=4.0, help="of a row, not for torch.compile")
    parser.add_argument("--no-compile", action="store_true", help="without torch.compile")
    parser.add_argument("--output", type=Path, default=Path("gpu.json"), help="results of this run")
    parser.add_argument("--report", type=Path, nargs="+", help="results of runs, to be put into the docs")
    options = parser.parse_args()
    if options.report:
        machine, rows = read(options.report)
        DOCS.mkdir(parents=True, exist_ok=True)
        write(machine, rows, DOCS / "gpu.json")
        write_plots(rows, DOCS)
        print("\n".join(describe(machine, rows)))
        return 0
    return measured(options)


def measured(options: argparse.Namespace) -> int:
    """Measure all rows; 1 if something disagrees."""
    from benchmarks.gpu.measure import Bench, Limits  # noqa: PLC0415  (asks for JAX, torch and hesse)

    start = time.monotonic()
    bench = Bench(jax_alone(options.device), torch_alone(options.device))
    compiler = None if options.no_compile or options.form != DENSE else Compiler(options.device, SHARE)
    machine = versions(bench.torch)
    waiting = [
        (problem, size, dtype)
        for dtype in (DTYPES if options.dtype == "both" else (options.dtype,))
        for problem, size in problems(options.only, options.tiny)
    ]
    rows: list[Row] = []
    while waiting:
        problem, size, dtype = waiting.pop(0)
        left = options.seconds - (time.monotonic() - start)
        if left < 0:
            print(f"no time left for {1 + len(waiting)} rows", file=sys.stderr)
            break
        compiling = left / (1 + len(waiting)) - options.kept_seconds
        limits = Limits(options.row_seconds, compiling)
        rows.append(bench.row(problem, size, dtype, options.form, compiler, limits))
        write(machine, rows, options.output)
        spent = time.monotonic() - start
        print(f"{spent:6.0f} s  {problem.name}, {size}, {dtype}", file=sys.stderr, flush=True)
    if compiler is not None:
        compiler.close()
    print("\n".join(describe(machine, rows)))
    return int(any(m.trouble.startswith("DISAGREES") for row in rows for m in row.measurements))


if __name__ == "__main__":
    sys.exit(main())
