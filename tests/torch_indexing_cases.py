"""Reading and writing torch tensors by integers and masks, with arguments."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_module_cases import Case, bent, integers, normal, squared, uniform

ORDER = torch.tensor([2, 0, -1, 0])
PAIRS = torch.tensor([[0, 2], [1, 1]])
MASK = torch.tensor([[True, False, True], [False, True, True]])
TABLE = torch.tensor([[0, 2, 1], [1, 0, 2]])


Y3 = normal(3)


def between(x: Tensor, y: Tensor) -> Tensor:
    """Values at grid points, interpolated."""
    place = x.floor().long().clamp(0, 2)
    return (y[place] * (1 - (x - place)) ** 2 + y[place + 1] * (x - place) ** 2) ** 2


def cut(key: Any) -> Case:
    """`x[key]` for a known key."""
    return Case(bent(lambda x: x[key]), (normal(3, 4, 2),))


READING = {
    "x[1]": cut(1),
    "x[mask of bytes]": cut(torch.tensor([1, 0, 1], dtype=torch.uint8)),
    "x[:, mask of bytes]": cut((slice(None), torch.tensor([0, 1, 1, 0], dtype=torch.uint8))),
    "x[-1]": cut(-1),
    "x[1, -2]": cut((1, -2)),
    "x[::2]": cut((slice(None), slice(None, None, 2))),
    "x[1:3]": cut((slice(1, 3), slice(-3, None))),
    "x[None, ..., 1:]": cut((None, Ellipsis, slice(1, None))),
    "x[..., None, 0]": cut((Ellipsis, None, 0)),
    "x[captured]": Case(bent(lambda x: x[ORDER]), (normal(3, 2),)),
    "x[known]": Case(bent(lambda x: x[torch.tensor([1, 1, 0])]), (normal(3, 2),)),
    "x[list]": Case(bent(lambda x: x[[2, 0]]), (normal(3, 2),)),
    "x[argument]": Case(bent(lambda x, i: x[i]), (normal(3, 2), ORDER)),
    "x[:, argument]": Case(bent(lambda x, i: x[:, i]), (normal(2, 3), ORDER)),
    "x[argument of two axes]": Case(bent(lambda x, i: x[i]), (normal(3, 2), PAIRS)),
    "x[i, j]": Case(bent(lambda x, i, j: x[i, j]), (normal(3, 4, 2), ORDER, integers(3, 0, 1, 1))),
    "x[i, :, j]": Case(bent(lambda x, i, j: x[i, :, j]), (normal(3, 2, 4), ORDER, integers(3, 0, 1, 1))),
    "x[i, j] broadcast": Case(
        bent(lambda x, i, j: x[i[:, None], j]), (normal(3, 4), integers(2, 0), integers(3, 0, 1))
    ),
    "x[i, :, 1]": Case(bent(lambda x: x[ORDER, :, 1]), (normal(3, 2, 3),)),
    "x[captured mask]": Case(bent(lambda x: x[MASK]), (normal(2, 3),)),
    "x[mask]": Case(bent(lambda x, mask: x[mask]), (normal(2, 3), MASK)),
    "x[:, mask]": Case(bent(lambda x, mask: x[:, mask[0]] * 2), (normal(2, 3), MASK)),
    "x[integers == 0]": Case(bent(lambda x, i: x[i == 0]), (normal(4, 2), ORDER)),
    "x[argmax(x)]": Case(squared(lambda x: x[x.argmax(0), torch.arange(3)]), (normal(4, 3),)),
    "masked_select": Case(bent(torch.masked_select), (normal(2, 3), MASK)),
    "masked_select broadcast": Case(
        bent(lambda x: torch.masked_select(x, torch.tensor([True, False, True]))), (normal(2, 3),)
    ),
    "gather": Case(bent(lambda x, i: x.gather(1, i)), (normal(2, 3), TABLE)),
    "gather smaller": Case(bent(lambda x, i: torch.gather(x, 0, i)), (normal(3, 4), TABLE[:, :2])),
    "gather captured": Case(bent(lambda x: x.gather(-1, TABLE)), (normal(2, 3),)),
    "gather argmax": Case(squared(lambda x: x.gather(1, x.argmax(1, keepdim=True))), (normal(3, 4),)),
    "index_select": Case(bent(lambda x, i: x.index_select(1, i)), (normal(2, 4), integers(3, 0, 0))),
    "take": Case(bent(torch.take), (normal(2, 3), integers(5, 0, 2))),
    "take_along_dim": Case(
        bent(lambda x, i: torch.take_along_dim(x, i, 1)), (normal(2, 3), integers([0, 2]))
    ),
    "embedding": Case(bent(lambda w, i: F.embedding(i, w)), (normal(4, 2), PAIRS)),
    "embedding padding": Case(bent(lambda w, i: F.embedding(i, w, padding_idx=1)), (normal(4, 2), PAIRS)),
    "embedding captured": Case(bent(lambda w: F.embedding(PAIRS, w)), (normal(4, 2),)),
    "embedding_bag sum": Case(
        bent(lambda w, i, o: F.embedding_bag(i, w, o, mode="sum")),
        (normal(4, 2), integers(0, 3, 1, 3, 2), integers(0, 2)),
        reference=bent(lambda w, i, o: torch.stack([w[i[:2]].sum(0), w[i[2:]].sum(0)])),
    ),
    "embedding_bag mean": Case(
        bent(lambda w, i: F.embedding_bag(i, w, mode="mean")),
        (normal(4, 2), TABLE),
        reference=bent(lambda w, i: w[i].mean(1)),
    ),
    "embedding_bag max": Case(
        bent(lambda w, i: F.embedding_bag(i, w, mode="max")),
        (normal(4, 2), TABLE),
        reference=bent(lambda w, i: w[i].amax(1)),
    ),
    "embedding_bag weights": Case(
        squared(lambda w, s, i: F.embedding_bag(i, w, mode="sum", per_sample_weights=s)),
        (normal(4, 2), normal(2, 3), TABLE),
        reference=squared(lambda w, s, i: (w[i] * s[..., None]).sum(1)),
    ),
    "embedding_bag padding": Case(
        bent(lambda w, i: F.embedding_bag(i, w, mode="mean", padding_idx=1)),
        (normal(4, 2), TABLE),
        reference=bent(lambda w, i: torch.stack([w[[0, 2]].mean(0), w[[0, 2]].mean(0)])),
    ),
    "one_hot": Case(squared(lambda x, i: x @ F.one_hot(i, 3).double()), (normal(2, 4), integers(2, 0, 1, 1))),
    "one_hot counted": Case(
        squared(lambda x, i: x @ F.one_hot(i).double()), (normal(2, 4), integers(2, 0, 1, 1))
    ),
    "tril_indices": Case(bent(lambda x: x[tuple(torch.tril_indices(3, 3))]), (normal(3, 3),)),
    "triu_indices": Case(
        bent(lambda x: x[torch.triu_indices(3, 3, 1)[0], torch.triu_indices(3, 3, 1)[1]]), (normal(3, 3),)
    ),
    "clamped": Case(
        bent(lambda x: x[(torch.searchsorted(x.square().cumsum(0), x) - 1).clamp(0, 2).clamp_max(3)] * x),
        (normal(4),),
    ),
    "between grid points": Case(between, (uniform(5), normal(4)), 3),
    "detached": Case(squared(lambda x, y: y[x.detach().long()] * (x - x.detach().long())), (uniform(5), Y3)),
    "counted in cells": Case(
        squared(lambda x, y: torch.zeros(3).double().index_add(0, (x * 1.5).round().int(), y * x)),
        (uniform(4), normal(4)),
    ),
    "searchsorted": Case(
        squared(
            lambda x, y: y[torch.searchsorted(torch.tensor([-1.0, 0.0, 1.0], dtype=torch.float64), x)] * x
        ),
        (normal(5), normal(4)),
    ),
    "bucketize": Case(
        squared(lambda x, y: y[torch.bucketize(x, torch.tensor([-0.5, 0.5]), right=True)] * x),
        (normal(5), normal(3)),
    ),
}


def assigned(x: Tensor, y: Tensor, i: Tensor) -> Tensor:
    """Writing to rows of a copy."""
    result = x.clone()
    result[i] = y * y
    return result.tanh()


def increased(x: Tensor, y: Tensor, i: Tensor) -> Tensor:
    """Adding to rows of zeros."""
    result = torch.zeros_like(x)
    result.index_put_((i,), y * y, accumulate=True)
    return (result * x).tanh()


def masked_by_data(x: Tensor) -> Tensor:
    """Writing one number where a mask holds that depends on entries, to entries and to rows."""
    result = x.sin()
    result[result > 0] = x[0, 0] ** 2
    result[x[:, 0] > 0] = 0.0
    return result**2 * x


def masked(x: Tensor, mask: Tensor) -> Tensor:
    """Writing where a mask holds."""
    result = x * x
    result[mask] = 0.5
    return result.tanh()


DISTINCT = integers(3, 0, 1)
ZEROTH = integers(0)
REPEATED = integers(3, 0, 3)
X, Y = normal(4, 2), normal(3, 2)
SOURCE = normal(2, 3)

WRITING = {
    "x[i] = y": Case(assigned, (X, Y, DISTINCT)),
    "x[i] = y, repeated": Case(
        assigned, (X, Y, REPEATED), reference=lambda x, y, i: assigned(x, y[1:], integers(0, 3))
    ),
    "x[i] += y": Case(increased, (X, Y, REPEATED)),
    "x[x > 0] = x[0, 0]": Case(masked_by_data, (SOURCE,)),
    "x[mask] = 0.5": Case(masked, (SOURCE, MASK)),
    "index_put": Case(
        bent(lambda x, y, i, j: x.index_put((i, j), y)), (X, normal(3), DISTINCT, integers(0, 1, 1))
    ),
    "index_put accumulate": Case(
        bent(lambda x, y, i, j: torch.index_put(x, (i, j), y, accumulate=True)),
        (X, normal(3), REPEATED, integers(0, 1, 0)),
    ),
    "index_put captured": Case(
        bent(lambda x, y: x.index_put((ORDER,), y)),
        (normal(3, 2), normal(4, 2)),
        reference=bent(lambda x, y: torch.stack([y[3], x[1], y[2]])),
    ),
    "index_put apart": Case(
        bent(lambda x, y, i, j: x.index_put((i, torch.arange(2)[:, None], j), y, accumulate=True)),
        (normal(4, 2, 3), normal(2, 3), REPEATED, integers(0, 1, 0)),
    ),
    "scatter": Case(bent(lambda x, y, i: x.scatter(1, i, y)), (normal(2, 3), SOURCE, TABLE)),
    "scatter along 0": Case(bent(lambda x, y, i: x.scatter(0, i, y)), (normal(3, 3), SOURCE, TABLE)),
    "scatter value": Case(bent(lambda x, i: x.scatter(1, i, 0.7)), (normal(2, 3), TABLE[:, :1])),
    "scatter argmax": Case(
        squared(lambda x: torch.zeros_like(x).scatter(1, x.argmax(1, keepdim=True), 1.0) * x), (normal(3, 4),)
    ),
    "gather at counts": Case(
        squared(lambda x: x.gather(1, (x > 0).sum(1, keepdim=True) - 1)), (normal(3, 4).abs(),)
    ),
    "gather at running counts": Case(
        squared(lambda x: x.gather(1, torch.cumsum(x > -5, 1) - 1)), (normal(3, 4),)
    ),
    "scatter by data": Case(
        squared(lambda x: torch.zeros_like(x).scatter(1, x.argsort(1)[:, 1:], x[:, 1:] ** 2)), (normal(3, 4),)
    ),
    "scatter add": Case(
        bent(lambda x, y, i: x.scatter(0, i, y, reduce="add")),
        (normal(3, 3), SOURCE, TABLE),
        reference=bent(lambda x, y, i: x.scatter_add(0, i, y)),
    ),
    "scatter_add": Case(bent(lambda x, y, i: x.scatter_add(0, i, y)), (normal(3, 3), SOURCE, TABLE)),
    "scatter_add smaller": Case(
        bent(lambda x, y, i: x.scatter_add(1, i, y)),
        (normal(2, 3), normal(3, 4), TABLE),
        reference=bent(lambda x, y, i: x.scatter_add(1, i, y[:2, :3])),
    ),
    "scatter_add by data": Case(
        squared(lambda x, y: torch.zeros(3, dtype=torch.float64).scatter_add(0, x.argmax(1), y * x[:, 0])),
        (normal(4, 3), normal(4)),
    ),
    "scatter_reduce sum": Case(
        bent(lambda x, y, i: x.scatter_reduce(0, i, y, "sum", include_self=False)),
        (normal(3, 3), SOURCE, TABLE),
    ),
    **{
        f"{name} {reduce}{', alone' * (not own)}": Case(function, arguments)
        for reduce in ("prod", "mean", "amax", "amin")
        for own in (True, False)
        for name, function, arguments in [
            (
                "scatter_reduce",
                bent(lambda x, y, i, r=reduce, own=own: x.scatter_reduce(0, i, y, r, include_self=own)),
                (normal(3, 3), SOURCE, TABLE),
            ),
            (
                "index_reduce",
                bent(lambda x, y, r=reduce, own=own: x.index_reduce(0, REPEATED, y, r, include_self=own)),
                (X, Y),
            ),
        ]
    },
    "scatter multiply": Case(
        bent(lambda x, y: x.scatter(0, TABLE, y, reduce="multiply")),
        (normal(3, 3), SOURCE),
        reference=bent(lambda x, y: x.scatter_reduce(0, TABLE, y, "prod")),
    ),
    "scatter_reduce prod of zeros": Case(
        bent(
            lambda x, y: x.scatter_reduce(
                0, torch.tensor([0, 0, 2]), y * torch.tensor([1.0, 0.0, 0.0]), "prod"
            )
        ),
        (normal(3), normal(3)),
    ),
    "index_add": Case(bent(lambda x, y, i: x.index_add(0, i, y, alpha=0.5)), (X, Y, REPEATED)),
    "index_add along 1": Case(bent(lambda x, y, i: x.index_add(1, i, y)), (normal(2, 4), SOURCE, REPEATED)),
    "index_copy": Case(bent(lambda x, y, i: x.index_copy(0, i, y)), (X, Y, DISTINCT)),
    "index_fill": Case(bent(lambda x, i: x.index_fill(0, i, 0.3)), (X, REPEATED)),
    "index_fill by data": Case(bent(lambda x: x.index_fill(0, x[:, 0].argmax(0, keepdim=True), 0.3)), (X,)),
    "put": Case(bent(lambda x, y, i: x.put(i, y)), (X, normal(3), integers(7, 0, 2))),
    "put accumulate": Case(
        bent(lambda x, y, i: x.put(i, y, accumulate=True)), (X, normal(3), integers(7, 0, 7))
    ),
    "masked_fill": Case(bent(lambda x, mask: x.masked_fill(mask, 0.3)), (SOURCE, MASK)),
    "masked_fill by data": Case(bent(lambda x: x.masked_fill(x > 0, 0.3)), (SOURCE,)),
    "masked_scatter": Case(bent(lambda x, y, mask: x.masked_scatter(mask, y)), (SOURCE, normal(5), MASK)),
    "masked_scatter of a row": Case(
        bent(lambda x, y, mask: x.masked_scatter(mask, y)), (SOURCE[0], normal(5), MASK)
    ),
    "select_scatter": Case(bent(lambda x, y: torch.select_scatter(x, y, 1, -1)), (normal(3, 2), normal(3))),
    "slice_scatter": Case(
        bent(lambda x, y: torch.slice_scatter(x, y, 0, 1, 4, 2)), (normal(4, 2), normal(2, 2))
    ),
    "diagonal_scatter": Case(bent(lambda x, y: torch.diagonal_scatter(x, y, 1)), (normal(3, 3), normal(2))),
    **{
        f"{name} of a number": Case(squared(function), (normal(), normal()))
        for name, function in {
            "index_add": lambda x, y: x.sin().index_add(0, ZEROTH, y) * x,
            "index_copy": lambda x, y: x.index_copy(0, ZEROTH, y) * x,
            "index_fill": lambda x, y: x.index_fill(0, ZEROTH, 0.7) * x * y,
            "index_reduce": lambda x, y: x.index_reduce(0, ZEROTH, y, "prod") * x,
            "scatter": lambda x, y: x.scatter(0, ZEROTH[0], y) * x,
            "scatter_add": lambda x, y: x.scatter_add(0, ZEROTH[0], y) * x,
            "scatter_reduce": lambda x, y: x.scatter_reduce(0, ZEROTH[0], y, "mean") * x,
            "masked_select": lambda x, y: x.masked_select(torch.tensor(True)) * y,
        }.items()
    },
    "x[mask of bytes] = y": Case(
        bent(lambda x, y: x.index_put((MASK.to(torch.uint8),), y)), (SOURCE, normal(4))
    ),
    "x[nothing] = y": Case(bent(lambda x, y: x.index_put((MASK & False,), y)), (SOURCE, normal(1))),
    "x[0] = y": Case(assigned, (X, normal(2), torch.tensor(0))),
}

CASES: dict[str, Case] = READING | WRITING
