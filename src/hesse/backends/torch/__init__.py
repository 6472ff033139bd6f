"""PyTorch: programs as straight-line functions."""

from hesse.backends.torch.target import TARGET, TorchTarget

__all__ = ["TARGET", "TorchTarget"]
