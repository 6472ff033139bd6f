"""`python -m benchmarks.torch_functions` measures; `--report FILE…` writes the page and its plots.

Every row is written as soon as it is there; a run that reaches its time limit ends between two rows.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"


def main() -> int:
    """Measure, or report what was measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.torch_functions", description=__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float32")
    parser.add_argument("--only", default="", help="cases whose group or problem contains this text")
    parser.add_argument("--seconds", type=float, default=600.0, help="for everything")
    parser.add_argument("--row-seconds", type=float, default=2.0, help="for the samples of a row")
    parser.add_argument("--compile", type=float, default=0.0, metavar="SECONDS", help="for torch.compile")
    parser.add_argument("--threads", type=int, default=1, help="of torch, on a processor")
    parser.add_argument("--no-training", action="store_true", help="without the comparison of trainings")
    parser.add_argument("--output", type=Path, default=Path("torch.json"), help="results of this run")
    parser.add_argument("--report", type=Path, nargs="+", help="results of runs, to be put into the docs")
    options = parser.parse_args()
    if options.report:
        from benchmarks.torch_functions.report import read, write_page  # noqa: PLC0415  (asks for torch)

        write_page([read(path) for path in options.report], DOCS / "benchmarks-torch.md")
        return 0
    return measured(options)


def measured(options: argparse.Namespace) -> int:
    """Measure all rows; 1 if something disagrees."""
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # each candidate has a process already
    from benchmarks.torch_functions.compiled import Compilers  # noqa: PLC0415  (ask for torch)
    from benchmarks.torch_functions.measure import CASES, Task  # noqa: PLC0415
    from benchmarks.torch_functions.measure import measured as row_of  # noqa: PLC0415
    from benchmarks.torch_functions.report import Run, machine, write  # noqa: PLC0415
    from benchmarks.torch_functions.setting import setting_on  # noqa: PLC0415
    from benchmarks.torch_functions.training import compared  # noqa: PLC0415

    start = time.monotonic()
    setting = setting_on(options.device, options.dtype, options.threads)
    wanted = [
        (number, size)
        for number, case in enumerate(CASES)
        if options.only in case.group + case.problem
        for size in case.sizes[options.device]
    ]
    compilers = Compilers(options.device, options.dtype, options.threads)
    if options.compile:
        compilers.run(
            [
                Task(number, size, candidate.name)
                for number, size in wanted
                for candidate in CASES[number].candidates(setting, size)
                if candidate.is_compiled
                and (size == CASES[number].sizes[options.device][-1] or candidate.name.startswith("hesse"))
            ],
            options.compile,
        )
    run = Run(machine(setting), [])
    for number, size in wanted:
        if time.monotonic() - start > options.seconds:
            print(f"no time left after {len(run.rows)} of {len(wanted)} rows", file=sys.stderr)
            break
        row = row_of(setting, number, size, options.row_seconds, compilers.finish)
        run.rows.append(row)
        write(run, options.output)
        times = {m.name: m.trouble or f"{m.seconds * 1e3:.3g} ms" for m in row.measurements}
        spent = time.monotonic() - start
        print(f"{spent:6.0f} s  {row.problem}, {row.size_is} {size}: {times}", file=sys.stderr, flush=True)
    compilers.close()
    if not options.no_training and time.monotonic() - start < options.seconds:
        run.training = compared(setting)
        write(run, options.output)
    return int(any(m.trouble.startswith("DISAGREES") for row in run.rows for m in row.measurements))


if __name__ == "__main__":
    sys.exit(main())
