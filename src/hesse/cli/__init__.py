"""The command line: `hesse "x'*A*x" x`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence

from hesse.cli.arguments import parse_arguments
from hesse.cli.commands import run
from hesse.cli.display import error_display
from hesse.errors import HesseError

__all__ = ["main"]

FAILED = 1
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the status is 0, 1 after an error of the formula, 2 after one of the usage."""
    options = parse_arguments(sys.argv[1:] if arguments is None else arguments)
    try:
        run(options)
        sys.stdout.flush()
    except BrokenPipeError:  # who reads has seen enough; nothing is left to be flushed at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except (HesseError, OSError) as problem:
        if getattr(options, "json", False):
            print(json.dumps({"error": _as_data(problem)}, indent=2))
        else:
            error_display(str(problem))
        return FAILED
    except MemoryError:
        error_display("the formula needs more memory than there is; declare smaller sizes, or names for them")
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def _as_data(problem: HesseError | OSError) -> dict[str, str | int | None]:
    return {
        "kind": type(problem).__name__,
        "message": str(problem),
        "position": getattr(problem, "position", None),
    }
