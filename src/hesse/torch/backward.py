"""Derivatives of a tensor of any order, after the fact."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor

from hesse.torch.controller import Controller


def backward(
    tensor: Tensor,
    order: int,
    gradient: Tensor | None = None,
    crossings: bool = False,
    groups: Iterable[Iterable[Tensor]] | None = None,
    keep_batch: bool = False,
    keep_schwarz: bool = False,
    create_graph: bool = False,
) -> Controller:
    """The derivatives of a tensor by the leaves of its graph, up to an order.

    Each leaf `x` gets `x.hgrad`, one tensor for each order `o`, of shape `(tensor.numel(), *x.shape * o)`,
    and `x.hdata` with what is known of their axes. With `gradient`, which has the shape of the tensor, the
    entries of the tensor are weighted with it and added up: the first axis has size 1 then.

    Mixed derivatives by different leaves are computed if `crossings` is set, or for the leaves of a group in
    `groups`; they are fetched from the controller that is returned. `keep_batch` leaves out entries that
    are zero because a dimension is independent (a batch): it is one axis, right after the first one.
    `keep_schwarz` leaves mixed derivatives in the order in which they were computed. With `create_graph` the
    derivatives are differentiable themselves.

    >>> import torch, hesse.torch
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> controller = hesse.torch.backward((x**3).sum(), order=2)
    >>> x.hgrad[1]
    tensor([[[ 6.,  0.],
             [ 0., 12.]]])
    """
    controller = Controller(tensor)
    controller.backward(order, gradient, crossings, groups, keep_batch, keep_schwarz, create_graph)
    return controller
