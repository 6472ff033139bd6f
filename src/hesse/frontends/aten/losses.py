"""Losses and distances of ATen."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from hesse.frontends import special
from hesse.frontends.aten.elementwise import clamp_min
from hesse.frontends.aten.products import linear
from hesse.frontends.aten.reductions import vector_norm
from hesse.frontends.aten.table import aten
from hesse.frontends.ufuncs import elementwise

NONE, MEAN = 0, 1
"""How PyTorch numbers reductions; 2 is the sum."""
REDUCTIONS = {"none": NONE, "mean": MEAN, "sum": 2}
LEAST_LOG = -100.0
"""What PyTorch takes for the logarithm of numbers whose logarithm is less."""


def reduced(losses: Any, reduction: int) -> Any:
    """All losses, their mean or their sum."""
    if reduction == NONE:
        return losses
    return np.mean(losses) if reduction == MEAN else np.sum(losses)


def weighted(losses: Any, weight: Any) -> Any:
    """Losses times weights, if there are any."""
    return losses if weight is None else np.multiply(losses, weight)


@aten("mse_loss")
def mse_loss(x: Any, target: Any, reduction: int = MEAN) -> Any:
    """The squares of differences."""
    return reduced(np.square(np.subtract(x, target)), reduction)


@aten("smooth_l1_loss")
def smooth_l1_loss(x: Any, target: Any, reduction: int = MEAN, beta: float = 1.0) -> Any:
    """A parabola up to `beta`, a line of slope 1 from there on."""
    difference = np.subtract(x, target)
    size = np.abs(difference)
    if beta == 0:
        return reduced(size, reduction)
    parabola = np.multiply(np.square(difference), 0.5 / beta)
    return reduced(np.where(np.less(size, beta), parabola, np.subtract(size, beta / 2)), reduction)


@aten("huber_loss")
def huber_loss(x: Any, target: Any, reduction: int = MEAN, delta: float = 1.0) -> Any:
    """A parabola up to `delta`, a line from there on."""
    difference = np.subtract(x, target)
    size = np.abs(difference)
    line = np.multiply(np.subtract(size, delta / 2), delta)
    parabola = np.multiply(np.square(difference), 0.5)
    return reduced(np.where(np.less_equal(size, delta), parabola, line), reduction)


@aten("soft_margin_loss")
def soft_margin_loss(x: Any, target: Any, reduction: int = MEAN) -> Any:
    """`log(1 + exp(-target x))`."""
    return reduced(elementwise("softplus", np.negative(np.multiply(x, target))), reduction)


def _bounded_log(x: Any) -> Any:
    """The logarithm, at least -100."""
    is_inside = np.greater(x, np.exp(LEAST_LOG))
    return np.where(is_inside, np.log(np.where(is_inside, x, 1.0)), LEAST_LOG)


@aten("binary_cross_entropy")
def binary_cross_entropy(x: Any, target: Any, weight: Any = None, reduction: int = MEAN) -> Any:
    """`-target log(x) - (1 - target) log(1 - x)`."""
    hit = np.multiply(target, _bounded_log(x))
    miss = np.multiply(np.subtract(1.0, target), _bounded_log(np.subtract(1.0, x)))
    return reduced(weighted(np.negative(np.add(hit, miss)), weight), reduction)


@aten("binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(
    x: Any, target: Any, weight: Any = None, pos_weight: Any = None, reduction: int = MEAN
) -> Any:
    """The binary cross entropy of `sigmoid(x)`: `(1 - target) x + softplus(-x)`."""
    curve = elementwise("softplus", np.negative(x))
    if pos_weight is not None:
        curve = np.multiply(curve, np.add(np.multiply(np.subtract(pos_weight, 1.0), target), 1.0))
    losses = np.add(np.multiply(np.subtract(1.0, target), x), curve)
    return reduced(weighted(losses, weight), reduction)


class Labels(NamedTuple):
    """Labels of rows: places in the last axis, and how much each row counts."""

    places: Any
    weights: Any


def _labels(target: Any, weight: Any, ignore_index: int) -> Labels:
    """Labels; rows with the one to ignore do not count."""
    counts = np.not_equal(target, ignore_index)
    places = np.where(counts, target, 0)
    weights = np.multiply(counts, 1.0) if weight is None else np.multiply(weight[places], counts)
    return Labels(places, weights)


def _picked(rows: Any, labels: Labels) -> Any:
    """The entry of each row at its label."""
    return np.take_along_axis(rows, labels.places[..., None], -1)[..., 0]


def _reduced_rows(losses: Any, labels: Labels, reduction: int) -> Any:
    """Losses of rows, or their sum, or that divided by the sum of the weights.

    Where no row counts, the mean is not a number, but a constant.
    """
    if reduction != MEAN:
        return losses if reduction == NONE else np.sum(losses)
    total = np.sum(labels.weights)
    is_empty = np.equal(total, 0.0)
    mean = np.divide(np.sum(losses), np.where(is_empty, 1.0, total))
    return np.add(mean, np.where(is_empty, math.nan, 0.0))


def _rows(x: Any) -> Any:
    """The axis of classes, which is the second of several, as the last one."""
    return np.moveaxis(x, 1 if x.ndim > 1 else 0, -1)


@aten("nll_loss_nd", "nll_loss", "nll_loss2d")
def nll_loss(x: Any, target: Any, weight: Any = None, reduction: int = MEAN, ignore_index: int = -100) -> Any:
    """Minus the entries at the labels."""
    labels = _labels(target, weight, ignore_index)
    losses = np.negative(np.multiply(_picked(_rows(x), labels), labels.weights))
    return _reduced_rows(losses, labels, reduction)


@aten("cross_entropy_loss")
def cross_entropy_loss(
    x: Any,
    target: Any,
    weight: Any = None,
    reduction: int = MEAN,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Any:
    """`logsumexp(x)` less the entry at the label, or less the mean of entries with target probabilities."""
    rows = _rows(x)
    largest = special.logsumexp(rows, -1)
    distances = np.subtract(largest[..., None], rows)
    if target.index is None:
        chances = _rows(target)
        if label_smoothing:
            chances = np.add(np.multiply(chances, 1 - label_smoothing), label_smoothing / rows.shape[-1])
        losses = np.sum(np.multiply(weighted(chances, weight), distances), -1)
        return reduced(losses, reduction)
    labels = _labels(target, weight, ignore_index)
    losses = np.multiply(np.subtract(largest, _picked(rows, labels)), labels.weights)
    if label_smoothing:
        spread = np.multiply(np.sum(weighted(distances, weight), -1), np.not_equal(target, ignore_index))
        shares = 1 - label_smoothing, label_smoothing / rows.shape[-1]
        losses = np.add(np.multiply(losses, shares[0]), np.multiply(spread, shares[1]))
    return _reduced_rows(losses, labels, reduction)


@aten("torch_nn::_linear_cross_entropy_batch_chunked")
def linear_cross_entropy(
    x: Any,
    linear_weight: Any,
    target: Any,
    bias: Any,
    weight: Any,
    reduction: str,
    ignore_index: int,
    *_: Any,
) -> Any:
    """The cross entropy of a linear map; PyTorch's own has no second derivatives, and does not say so."""
    logits = linear(x, linear_weight, bias)
    return cross_entropy_loss(logits, target, weight, REDUCTIONS[reduction], ignore_index), None, None, None


@aten("torch_nn::_linear_cross_entropy_batch_chunked_no_reduction")
def linear_cross_entropies(
    x: Any, linear_weight: Any, target: Any, bias: Any, weight: Any, ignore_index: int, *_: Any
) -> Any:
    """The same for each row."""
    return cross_entropy_loss(linear(x, linear_weight, bias), target, weight, NONE, ignore_index)


@aten("multi_margin_loss")
def multi_margin_loss(
    x: Any,
    target: Any,
    p: int = 1,
    margin: float = 1,
    weight: Any = None,
    reduction: int = MEAN,
) -> Any:
    """By how much other entries come closer to the one at the label than a margin."""
    rows = np.reshape(x, (-1, *(x.shape[-1:] or (1,))))
    labels = _labels(np.reshape(target, (-1,)), weight, -1)
    distances = np.add(np.subtract(rows, _picked(rows, labels)[:, None]), margin)
    is_other = np.not_equal(np.arange(rows.shape[-1]), labels.places[:, None])
    terms = np.where(np.logical_and(is_other, np.greater(distances, 0.0)), distances, 0.0)
    losses = np.mean(terms if p == 1 else np.square(terms), -1)
    losses = np.multiply(losses, labels.weights)
    return reduced(losses if x.ndim > 1 else losses[0], reduction)


@aten("multilabel_margin_loss")
def multilabel_margin_loss(x: Any, target: Any, reduction: int = MEAN) -> Any:
    """By how much other entries come closer than 1 to those at the labels, which end at the first -1."""
    return multilabel_margin_loss_forward(x, target, reduction)[0]


@aten("multilabel_margin_loss_forward")
def multilabel_margin_loss_forward(x: Any, target: Any, reduction: int = MEAN) -> tuple[Any, Any]:
    """The same, and which entries are at labels; PyTorch's own decomposition gives other numbers."""
    rows = np.reshape(x, (-1, *(x.shape[-1:] or (1,))))
    sets = np.reshape(target, rows.shape)
    counts = np.equal(np.cumsum(np.less(sets, 0), -1), 0)
    places = np.where(counts, sets, 0)
    hits = np.logical_and(counts[..., None], np.equal(places[..., None], np.arange(rows.shape[-1])))
    is_label = np.any(hits, 1)
    pairs = np.logical_and(counts[..., None], np.logical_not(is_label)[:, None, :])
    distances = np.add(np.subtract(rows[:, None, :], np.take_along_axis(rows, places, -1)[..., None]), 1.0)
    terms = np.where(np.logical_and(pairs, np.greater(distances, 0.0)), distances, 0.0)
    losses = np.divide(np.sum(terms, (1, 2)), rows.shape[-1])
    loss = reduced(losses if x.ndim > 1 else losses[0], reduction)
    return loss, np.where(np.reshape(is_label, target.shape), 1.0, 0.0)


@aten("cosine_similarity")
def cosine_similarity(x: Any, y: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    """The cosine of the angle between vectors along an axis; lengths are at least `eps`."""
    shape = np.broadcast_shapes(x.shape, y.shape) or (1,)
    first, second = np.broadcast_to(x, shape), np.broadcast_to(y, shape)
    lengths = [clamp_min(vector_norm(vectors, 2, dim), eps) for vectors in (first, second)]
    return np.divide(np.sum(np.multiply(first, second), dim), np.multiply(*lengths))


@aten("cdist")
def cdist(x: Any, y: Any, p: float = 2.0, compute_mode: int | None = None) -> Any:
    """The distances of all pairs of rows; at 0 all derivatives are 0."""
    return vector_norm(np.subtract(x[..., :, None, :], y[..., None, :, :]), p, -1)


@aten("pdist")
def pdist(x: Any, p: float = 2.0) -> Any:
    """The distances of all pairs of different rows."""
    first, second = np.triu_indices(x.shape[0], 1)
    return vector_norm(np.subtract(x[first], x[second]), p, -1)
