"""Functions of trains, recorded: which numbers they compute from the train, and what they make of them.

A function is called with a net. Each number that it asks for is a functional of the train; what it does with
the numbers is ordinary array code, which the engine differentiates.
"""

from __future__ import annotations

import importlib
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hesse.api import hvp, value_and_grad
from hesse.api.compiled import Derivative
from hesse.backends.numpy import NUMPY_MACHINE
from hesse.backends.numpy.target import NumpyTarget
from hesse.errors import ArgumentError, ShapeError, TracingError
from hesse.frontends.special import stop_gradient
from hesse.tt.arrays import Array, Library, library
from hesse.tt.each_train import EntriesOfEach
from hesse.tt.entries import EntriesFunctional
from hesse.tt.forms import Form
from hesse.tt.functional import DenseFunctional, FormFunctional, Functional
from hesse.tt.indices import given_indices
from hesse.tt.nets import Leaf, Net, Occurrence, variable
from hesse.tt.point import Point
from hesse.tt.positions import Positions
from hesse.tt.square import SquareFunctional, is_square
from hesse.tt.train import TensorTrain
from hesse.tt.words import WordsFunctional, is_of_words

Function = Callable[[Any], Any]

ALONE = NumpyTarget(replace(NUMPY_MACHINE, longest_dot=2**13))
"""OpenBLAS shares products of more than 10,000 entries among threads."""


class Recording:
    """A recorder that computes the numbers at a point. It takes over what another one knows of the point."""

    def __init__(self, point: Point, known: Recording | None, on_host: bool) -> None:
        self.point = point
        self._on_host = on_host
        """Whether to answer with arrays of NumPy, whatever library the point is of."""
        self.functionals: list[Functional] = []
        self.shapes: list[tuple[int, ...]] = []
        """Those of their numbers."""
        self.requests: list[tuple[Any, int]] = []
        """For each number that was asked for: what it was, and by which functional it was answered."""
        self._known = [] if known is None or known.point is not point else known.current()
        self._positions = [] if known is None else known.positions

    def current(self) -> list[Functional]:
        """The functionals that still hold: nobody has written to the constants that they read."""
        return [f for f in self.functionals if not isinstance(f, FormFunctional) or f.is_current]

    def form(self, leaves: tuple[Leaf, ...], batch: int | None) -> Any:
        def is_same(functional: Functional) -> bool:
            return isinstance(functional, FormFunctional) and functional.form.leaves == leaves

        found = self._first(is_same)
        if found is None:
            form = Form(leaves, batch)
            found = self._first(lambda f: isinstance(f, FormFunctional) and f.form.same_as(form))
            found = found or _functional_of(form, self.point)
        return self._entered(found, _kind_of_form(leaves))

    def entries(self, indices: Any) -> Any:
        shape = self.point.train.shape
        given = given_indices(indices, shape)
        known = (p for p in (*self.positions, *self._positions) if p.are(given, shape))
        positions = next(known, None) or Positions(given, shape)
        found = self._first(lambda f: _positions_of(f) is positions)
        return self._entered(found or _entries(self.point, positions), "entries")

    @property
    def positions(self) -> list[Positions]:
        """The positions that were read, prepared: they serve at other points as well."""
        return [p for p in map(_positions_of, self.functionals) if p is not None]

    def whole(self) -> Any:
        known = self._first(lambda functional: isinstance(functional, DenseFunctional))
        return self._entered(known or DenseFunctional(self.point), "whole")

    def _first(self, is_same: Callable[[Functional], bool]) -> Functional | None:
        return next((f for f in (*self.functionals, *self._known) if is_same(f)), None)

    def _entered(self, functional: Functional, kind: Any) -> Any:
        where = next((k for k, known in enumerate(self.functionals) if known is functional), None)
        if where is None:
            where = len(self.functionals)
            self.functionals.append(functional)
            self.shapes.append(tuple(functional.value.shape))
        self.requests.append((kind, where))
        value = functional.value
        return self.point.library.host(value) if self._on_host else value

    def stopped(self, value: Any) -> Any:
        return value

    def root(self, square: Any) -> Any:
        return safe_root(square)


class Replay:
    """A recorder that answers with other numbers, in the order of a recording."""

    def __init__(self, recording: Recording, numbers: Sequence[Any]) -> None:
        self._requests = iter(recording.requests)
        self._numbers = numbers

    def form(self, leaves: tuple[Leaf, ...], batch: int | None) -> Any:
        return self._next(_kind_of_form(leaves))

    def entries(self, indices: Any) -> Any:
        return self._next("entries")

    def whole(self) -> Any:
        return self._next("whole")

    def _next(self, kind: Any) -> Any:
        known, where = next(self._requests, (None, -1))
        if known != kind:
            raise TracingError(
                "the function computes other numbers from its train each time; make it a pure one"
            )
        return self._numbers[where]

    def stopped(self, value: Any) -> Any:
        return stop_gradient(value) if hasattr(value, "shape") else value

    def root(self, square: Any) -> Any:
        return safe_root(square)


def _entries(point: Point, positions: Positions) -> Functional:
    """The entries of a train, or of each train of a batch."""
    if point.train.batch is None:
        return EntriesFunctional(point, positions)
    return EntriesOfEach(point, positions)


def _positions_of(functional: Functional) -> Positions | None:
    """Of which positions a functional reads the entries; None: it does something else."""
    return functional.positions if isinstance(functional, EntriesFunctional | EntriesOfEach) else None


def _functional_of(form: Form, point: Point) -> FormFunctional:
    """The functional of a form at a point."""
    if is_square(form, point):
        return SquareFunctional(form, point)
    return WordsFunctional(form, point) if is_of_words(form, point) else FormFunctional(form, point)


def _kind_of_form(leaves: tuple[Leaf, ...]) -> Any:
    """What two calls of a function have in common, which may make their constant trains anew."""
    return tuple(
        (leaf.source if isinstance(leaf.source, Occurrence) else type(leaf.source), leaf.labels)
        for leaf in leaves
    )


def safe_root(square: Any) -> Any:
    """The root of a sum of squares, which rounding may make negative; its derivative at zero is zero."""
    if library(square).name == "torch":
        own = square.clamp(min=0.0)
        positive = own > 0.0
        return own.where(positive, own * 0.0 + 1.0).sqrt().where(positive, own * 0.0)
    own_np = importlib.import_module("jax.numpy") if library(square).name == "jax" else np
    positive = square > 0.0
    return own_np.where(positive, own_np.sqrt(own_np.where(positive, square, 1.0)), 0.0)


def joined(own: Library, numbers: Sequence[Array]) -> Array:
    """All numbers in one array: as it is if there is only one, else in a row."""
    if len(numbers) == 1:
        return numbers[0]
    return own.concatenate([array.reshape((-1,)) for array in numbers], 0)


def taken_apart(array: Any, shapes: Sequence[tuple[int, ...]]) -> list[Any]:
    """The arrays of some shapes that were joined."""
    if len(shapes) == 1:
        return [array]
    ends = list(itertools.accumulate(map(math.prod, shapes)))
    parts = zip([0, *ends[:-1]], ends, shapes, strict=True)
    return [array[start:end].reshape(shape) for start, end, shape in parts]


class Outer:
    """What a function of a train makes of its numbers: a function of one array."""

    def __init__(self, function: Function, recording: Recording) -> None:
        self._function = function
        self.recording = recording
        self.__name__ = getattr(function, "__name__", type(function).__name__)  # which errors name

    @property
    def differentiated(self) -> Function:
        """The function, whose surroundings are watched for changes."""
        return self._function

    def over(self, function: Function) -> Outer:
        """The same for another function."""
        return Outer(function, self.recording)

    def __call__(self, numbers: Any) -> Any:
        replay = Replay(self.recording, taken_apart(numbers, self.recording.shapes))
        return self._function(variable(replay, self.recording.point.train))


class Evaluation:
    """A function at a point: its value, the functionals it is made of and their weights."""

    def __init__(self, functionals: list[Functional], outer: Derivatives) -> None:
        self.functionals = functionals
        self._outer = outer
        recording = outer.outer.recording
        self._shapes, self._library = recording.shapes, recording.point.library
        self._numbers = joined(self._library, [functional.value for functional in functionals])
        self.value: Array
        self.value, weights = outer.gradient(self._numbers)
        self.weights = self._weights(weights)

    def weights_along(self, direction: Sequence[Array]) -> list[Array]:
        """How the weights change when the numbers do."""
        found = self._outer.product(self._numbers, joined(self._library, direction))
        return self._weights(found)

    def _weights(self, joined_weights: Array) -> list[Array]:
        """For each functional those of its numbers, of their type."""
        weights = taken_apart(joined_weights, self._shapes)
        if not self.functionals[0].point.is_short:
            return weights
        pairs = zip(weights, self.functionals, strict=True)
        return [self._library.like(given, functional.value) for given, functional in pairs]

    def diagonal_weights(self) -> list[Array]:
        """The diagonal of the second derivative by the numbers, where it is not negative, else zero.

        By its product with random signs: exact if it is diagonal, and right on average if not.
        """
        generator = np.random.default_rng(0)
        like = self.functionals[0].point.left.cores[0]
        signs = [self._library.like(generator.choice([-1.0, 1.0], shape), like) for shape in self._shapes]
        pairs = zip(signs, self.weights_along(signs), strict=True)
        return [(sign * along).clip(0.0) for sign, along in pairs]


class Derivatives:
    """The derivatives of the outer function, compiled."""

    def __init__(self, function: Function, recording: Recording) -> None:
        self.outer = Outer(function, recording)
        self.gradient, self.product = self._beside_threads(value_and_grad), self._beside_threads(hvp)

    def _beside_threads(self, derivative: Callable[[Outer], Derivative]) -> Derivative:
        """A derivative that leaves the processors to the threads which compute the numbers of a train."""
        made = derivative(self.outer)
        return made.compile(ALONE) if self.outer.recording.point.library.name == "numpy" else made


class Recorded:
    """A function of a train, evaluated at points; what is known of the last point is used again."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self._last: Recording | None = None
        self._on_host = False
        self._derivatives: dict[Any, Derivatives] = {}

    def at(self, point: Point) -> Evaluation:
        """The function at a point."""
        recording = self._last = self._recording(point)
        train = point.train
        key = train.shape, train.batch, train.library.name, tuple(recording.requests)
        if key not in self._derivatives:
            self._derivatives[key] = Derivatives(self.function, recording)
        found = self._derivatives[key]
        found.outer.recording = recording
        return Evaluation(recording.functionals, found)

    def _recording(self, point: Point) -> Recording:
        """The function called with numbers of the library of the point, or of NumPy if its constants are.

        What it computes from them is not used: the engine can do with constants of both.
        """
        try:
            return self._recorded(point, self._on_host)
        except (TypeError, DeprecationWarning) as error:
            if "'Net'" in str(error):
                raise TracingError(
                    f"the function leaves the operations of trains: {error}. A train has +, -, *, A @ X, "
                    "tt.dot, tt.gather and norm(); X.dense() is an array, if there are few entries"
                ) from error
            if self._on_host or point.library.name == "numpy":
                raise
            recording = self._recorded(point, on_host=True)
            self._on_host = True
            return recording

    def _recorded(self, point: Point, on_host: bool) -> Recording:
        recording = Recording(point, self._last, on_host)
        check_value(self.function(variable(recording, point.train)))
        if not recording.functionals:
            raise ArgumentError("the function does not depend on its train: it computes nothing from it")
        return recording


def check_value(value: Any) -> None:
    """A function to differentiate gives one number."""
    if isinstance(value, Net | TensorTrain):
        raise ArgumentError("the function returns a train; return a number made of it, such as tt.dot(X, Y)")
    shape = tuple(np.shape(value))
    if shape != ():
        raise ShapeError(f"the function must return one number, not an array of shape {shape}; sum it up")
