"""What hesse offers users of PyTorch beyond the functions that take any array; `import hesse.torch`."""

from hesse.torch.functional import buffers_of, functional, parameters_of

__all__ = ["buffers_of", "functional", "parameters_of"]
