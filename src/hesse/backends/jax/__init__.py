"""JAX: programs as pure functions, jitted."""

from hesse.backends.jax.target import TARGET, JaxTarget

__all__ = ["TARGET", "JaxTarget"]
