"""A worker process: reads questions as lines of JSON, writes answers as lines of JSON, one after the other.

It is a process of its own so that it can be killed, whatever it is computing.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
from typing import Any

from hesse.answers.notations import ALL_NOTATIONS
from hesse.errors import HesseError
from hesse.web.tasks import TASKS

SPARE_SECONDS = 2
"""A worker whose server is gone ends itself this long after the time limit."""
WARM_UP = {"formula": "sum(log(exp(X*w) + vector(1)))", "by": ["w", "w"]}
FURTHER_WARM_UPS = (
    {"formula": "symmetric matrix A; x'*inv(A)*x/norm2(A*x - 2*y)^2", "by": ["x"]},
    {"formula": "logdet(X'*X) - tr(B*X) + sum((X.^-3)./(sin(X).*X))", "by": ["X"]},
    {"formula": "sum[i,j,k](T[i,j,k]*x[i]*delta[j,k])", "by": ["x"]},
)
"""Together they pass through most of the parser, the printer and the laws, all of which fill tables."""
YOUNG_OBJECTS = 50_000
"""The garbage of an answer is collected after so many new objects; collecting costs a tenth of the time."""


def main() -> None:
    """Answer until the input ends."""
    seconds, memory, longest = (int(text) for text in sys.argv[1:4])
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing else may write between the answers
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server ends its workers itself
    _limit_memory(memory)
    for task in TASKS:
        _answered(task, WARM_UP)
    for notation in ALL_NOTATIONS:
        _answered("render", {**WARM_UP, "notation": notation})
    for arguments in FURTHER_WARM_UPS:
        _answered("derive", arguments)
    gc.freeze()  # what is there now stays
    gc.set_threshold(YOUNG_OBJECTS)
    answers.write(b'"ready"\n')
    answers.flush()
    for line in sys.stdin.buffer:
        if hasattr(signal, "alarm"):
            signal.alarm(seconds + SPARE_SECONDS)
        request = json.loads(line)
        reply = json.dumps(_answered(request["task"], request["arguments"])).encode()
        if len(reply) > longest:
            reply = json.dumps(_error("AnswerError", "the answer is too long to be shown", None)).encode()
        if hasattr(signal, "alarm"):
            signal.alarm(0)
        answers.write(reply + b"\n")
        answers.flush()


def _answered(task: str, arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"answer": TASKS[task](arguments)}
    except HesseError as problem:
        return _error(type(problem).__name__, str(problem), getattr(problem, "position", None))
    except (MemoryError, RecursionError):
        return _error("LimitError", "the formula needs too much memory; make it smaller", None)


def _error(kind: str, message: str, position: int | None) -> dict[str, Any]:
    return {"error": {"kind": kind, "message": message, "position": position}}


def _limit_memory(memory: int) -> None:
    try:
        import resource  # noqa: PLC0415 (not every system has it)
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))


if __name__ == "__main__":
    main()
