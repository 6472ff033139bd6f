"""JAX and torch on a device: full precision, and each with its share of the memory."""

from __future__ import annotations

import os
from importlib import import_module

from benchmarks.speed.libraries import Jax, Torch, jax_library

SHARE = 0.32
"""Of the memory of the device, for each of JAX, torch and compiled torch."""


def torch_alone(device: str, memory: float = SHARE) -> Torch:
    """torch, with a share of the memory and without TF32."""
    torch = import_module("torch")
    if device != "cpu":
        torch.set_default_device(device)
        torch.cuda.set_per_process_memory_fraction(memory)
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    return Torch(torch, device)


def jax_alone(device: str) -> Jax:
    """JAX, with a share of the memory (set before it is imported) and without TF32."""
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = str(SHARE)
    jax = jax_library().jax
    jax.config.update("jax_default_matmul_precision", "highest")
    if device == "cpu":
        jax.config.update("jax_platforms", "cpu")
    jax.block_until_ready(jax.jit(lambda x: x @ x)(jax.numpy.ones((2, 2))))  # starts the compiler
    return Jax(jax)


def versions(torch: Torch) -> dict[str, str]:
    """Versions, and the device in words."""
    found = {name: str(import_module(name).__version__) for name in ("hesse", "numpy", "jax", "torch")}
    if torch.device != "cpu":
        found["device"] = torch.xp.cuda.get_device_name()
        found["CUDA"] = str(torch.xp.version.cuda)
    return found
