"""Measures Riemannian derivatives of tensor trains on the CPU, beside others; or what the options say."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.trains import page
from benchmarks.trains.functions import SIZES


def main() -> None:
    """Do what the options say."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trains", description=__doc__)
    parser.add_argument("--device", choices=("cuda", "cpu"), help="the five functions with PyTorch and JAX")
    parser.add_argument("--sizes", nargs="+", default=["medium", "large"], choices=SIZES, help="for --device")
    parser.add_argument("--seconds", type=float, default=85.0, help="for --device: what is not begun is left")
    parser.add_argument("--output", type=Path, default=Path("trains.json"), help="for --device: a file")
    parser.add_argument("--report", type=Path, help="write the table of such a file into the page")
    parser.add_argument("--write", action="store_true", help="measure on the CPU; write all into the page")
    parser.add_argument("--recovery", action="store_true", help="how often tensors are found from entries")
    options = parser.parse_args()
    if options.recovery:
        from benchmarks.trains import recovery  # noqa: PLC0415

        recovery.text()
    elif options.report:
        page.write("device table", page.device_text(options.report))
    elif options.device:
        from benchmarks.trains import device  # noqa: PLC0415  (needs PyTorch)

        results = device.run(options.device, options.output, options.sizes, options.seconds)
        print("not the same numbers:", device.disagreements(results) or "none")
    else:
        from benchmarks.trains import measure, recovery  # noqa: PLC0415  (need JAX and Pymanopt)

        tables = {"recovery table": recovery.text(), "time table": measure.text(["small", "medium", "large"])}
        for mark, text in tables.items():
            if options.write:
                page.write(mark, text)


if __name__ == "__main__":
    main()
