"""T3F, the package of the paper, where it is installed beside TensorFlow; its functions are compiled."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from benchmarks.trains.functions import Case
from hesse import tt


class T3F(NamedTuple):
    """The gradient and the Hessian product of a function, as cores of TensorFlow."""

    gradient: Callable[[tt.TensorTrain], Any]
    product: Callable[[tt.TensorTrain, tt.TensorTrain], Any]


def t3f_of(case: Case, scale: float) -> T3F | None:
    """The derivatives of a case; None where T3F is missing."""
    if importlib.util.find_spec("t3f") is None:
        return None
    tensorflow, t3f = importlib.import_module("tensorflow"), importlib.import_module("t3f")
    is_column = bool({"A", "B"} & set(case.data))
    function = _function(tensorflow, t3f, case, scale)

    @tensorflow.function(autograph=False)
    def gradient(*cores: Any) -> Any:
        return t3f.gradients(function, t3f.TensorTrain([*cores]), runtime_check=False).tt_cores

    @tensorflow.function(autograph=False)
    def product(cores: Any, along: Any) -> Any:
        point, vector = t3f.TensorTrain(cores), t3f.TensorTrain(along)
        return t3f.hessian_vector_product(function, point, vector, runtime_check=False).tt_cores

    def moved(X: tt.TensorTrain) -> list[Any]:
        return [tensorflow.constant(np.expand_dims(core, 2) if is_column else core) for core in X.cores]

    return T3F(lambda X: gradient(*moved(X)), lambda X, along: product(moved(X), moved(along)))


def _function(tensorflow: Any, t3f: Any, case: Case, scale: float) -> Callable[[Any], Any]:
    data, log, exp = case.data, tensorflow.math.log, tensorflow.math.exp
    if case.name == "completion":
        where = tensorflow.constant(np.stack(data["where"], 1))
        return lambda x: tensorflow.reduce_sum((t3f.gather_nd(x, where) - data["values"]) ** 2)
    if case.name == "exponential machines":
        cores = [tensorflow.constant(core) for core in data["words"].cores]
        words = t3f.TensorTrainBatch(cores, batch_size=len(data["labels"]))
        return lambda x: tensorflow.reduce_sum(log(1.0 + exp(-data["labels"] * t3f.flat_inner(words, x))))
    name = "A" if "A" in data else "B"
    operator = t3f.TensorTrain([tensorflow.constant(core) for core in data[name].cores])

    def form(x: Any) -> Any:
        image = t3f.matmul(operator, x)
        return t3f.flat_inner(image, x if name == "A" else image)

    if case.name == "Rayleigh quotient":
        return lambda x: scale * form(x) / t3f.flat_inner(x, x)
    return lambda x: scale * form(x) if name == "A" else form(x)


def norm_of_cores(cores: Any) -> float:
    """The norm of a train of TensorFlow, of a column or not."""
    arrays = [np.asarray(core) for core in cores]
    return float(tt.TensorTrain([a.reshape(len(a), -1, a.shape[-1]) for a in arrays]).norm())
