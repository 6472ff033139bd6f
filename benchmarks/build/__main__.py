"""`python -m benchmarks.build [--limit S] [--only TEXT] [--write]`: first calls of hesse and of jitted JAX.

Every call runs in a process of its own, imports not counted, and the results of both are compared. Where a
library does not manage within the limit there is nothing to compare, and the row says so.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np

from benchmarks.build.programs import PROGRAMS, Program
from benchmarks.build.report import HEADINGS, Row, cells
from benchmarks.texts import columns

ROOT = Path(__file__).resolve().parents[2]
TOLERANCE = 1e-8
RESULTS = ROOT / "docs" / "benchmarks" / "build.json"


def main() -> int:
    """Print the table; 1 if hesse fails or disagrees somewhere."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.build", description=__doc__)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for one first call")
    parser.add_argument("--only", default="", help="programs whose name contains this text")
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.relative_to(ROOT)}")
    options = parser.parse_args()
    rows = list(measured(options.only, options.limit))
    print(columns(HEADINGS, map(cells, rows)))
    if options.write:
        text = json.dumps({"limit": options.limit, "rows": [asdict(row) for row in rows]}, indent=1)
        RESULTS.write_text(text + "\n", encoding="utf-8")
    return int(any(row.hesse is None or row.agrees is False for row in rows))


def measured(only: str, limit: float) -> Iterator[Row]:
    """The rows of the programs that were asked for."""
    for program in PROGRAMS:
        if only in program.name:
            print(program.title, file=sys.stderr, flush=True)
            with tempfile.TemporaryDirectory() as folder:
                hesse, jax = (first_call(program, name, limit, Path(folder)) for name in ("hesse", "JAX"))
            agrees = None if hesse is None or jax is None else distance(hesse[1], jax[1]) <= TOLERANCE
            yield Row(program.name, program.derivative, *(call and call[0] for call in (hesse, jax)), agrees)


def first_call(program: Program, library: str, limit: float, folder: Path) -> tuple[float, np.ndarray] | None:
    """Seconds and values of a first call, or None if it does not end in time, or not well."""
    file = folder / f"{library}.npz"
    command = [sys.executable, "-m", "benchmarks.build.worker", program.title, library, str(file)]
    environment = {**os.environ, "OMP_WAIT_POLICY": "passive", "PYTHONHASHSEED": "0"}
    try:
        subprocess.run(command, cwd=ROOT, env=environment, timeout=limit, check=True)
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
        print(f"  {library}: {type(error).__name__}", file=sys.stderr)
        return None
    with np.load(file) as stored:
        return float(stored["seconds"]), stored["values"]


def distance(left: np.ndarray, right: np.ndarray) -> float:
    """The largest difference relative to the largest entry."""
    return float(np.abs(left - right).max() / np.abs(right).max()) if left.shape == right.shape else np.inf


if __name__ == "__main__":
    sys.exit(main())
