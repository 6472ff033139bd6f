"""Recording operations from the start."""

from __future__ import annotations

from hesse.frontends.aten.recording import Recording


def record() -> Recording:
    """A block of code whose operations are written down, so that `backward` needs no graph.

    Autograd's graph does not tell how parts of tensors were changed in place, and some constants. A
    recording has all of it. It lives as long as a tensor that was computed in it from others that require
    grad, and holds what the block read from outside.

    >>> import torch, hesse.torch
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> with hesse.torch.record():
    ...     y = torch.zeros(3)
    ...     y[1:] = x**3
    ...     z = y.sum()
    >>> controller = hesse.torch.backward(z, order=2)
    >>> x.hgrad[1]
    tensor([[[ 6.,  0.],
             [ 0., 12.]]])
    """
    return Recording()
