"""Functions of JAX arrays with complex values between real arguments and real results."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jax_cases import POSITIVE, Case

FILTER = jnp.array([1.0, 0.5, 0.2j, 0.0])
TABLE = jnp.asarray(np.random.default_rng(1).normal(size=(6, 800)) + 1j)
"""So large that arrays of real numbers would be inputs."""


def rotated(x: jax.Array) -> jax.Array:
    """Turns one after the other, in loops."""
    last, states = lax.scan(lambda z, a: (z * jnp.exp(1j * a) + a, z), 1.0 + 0j, x[:3])
    return jnp.abs(last) + jnp.sum(jnp.abs(lax.fori_loop(0, 2, lambda _, z: z * z + 1j, states)))


def written(x: jax.Array) -> jax.Array:
    """Frequencies read and written by number."""
    z = jnp.fft.fft(x)[jnp.array([0, 2, -1])]
    return jnp.abs(z.at[0].set(2.0 + x[0]).at[1].add(1j))


VECTORS = {
    "spectrum": lambda x: jnp.abs(jnp.fft.fft(x)),
    "power spectrum": lambda x: jnp.abs(jnp.fft.rfft(x)) ** 2,
    "parts": lambda x: jnp.fft.rfft(x).real * jnp.sum(jnp.fft.rfft(x**2).imag),
    "filter": lambda x: jnp.fft.irfft(jnp.fft.rfft(x) * FILTER, n=6) ** 2,
    "angle": lambda x: jnp.angle(jnp.fft.fft(x))[1:3],
    "spectral derivative": lambda x: jnp.fft.ifft(1j * jnp.fft.fftfreq(6) * jnp.fft.fft(x)).real ** 2,
    "shifted": lambda x: jnp.abs(jnp.fft.fftshift(jnp.fft.fft(x, norm="ortho"))),
    "conjugate": lambda x: jnp.real(jnp.sum(jnp.conj(jnp.fft.fft(x)) * jnp.fft.fft(x**2))),
    "waves": lambda x: jnp.abs(jnp.sum(jnp.exp(1j * x))),
    "rational": lambda x: jnp.real((x[0] + 1j * x[1]) ** 3 / (x[2] - 1j * x[3])),
    "root and logarithm": lambda x: jnp.real(
        jnp.sqrt(lax.complex(x[:3], x[3:])) * jnp.log(lax.complex(x[:3], x[3:]))
    ),
    "powers": lambda x: jnp.abs((x + 2.0 + 1j) ** 2.5) + jnp.real((x + 2.0 + 1j) ** (x * 1j)),
    "trigonometric": lambda x: jnp.real(
        jnp.sin(x + 1j) * jnp.cos(x * 1j) * jnp.tanh(x + 0.5j) * jnp.cosh(1j * x) * jnp.sinh(x + 1j)
    ),
    "choice": lambda x: jnp.abs(jnp.where(x > 1, jnp.exp(1j * x), x * (2 + 1j))),
    "branches": lambda x: jnp.abs(lax.cond(x[0] > 1, lambda z: z * 2, lambda z: z * 1j, x * (1 + 1j))),
    "loops": rotated,
    "written": written,
    "scaled": lambda x: jnp.abs(jnp.fft.rfft(x).at[1:-1].multiply(2.0).at[jnp.array([0, 0])].multiply(-0.5)),
    "joined": lambda x: jnp.abs(
        jnp.concatenate([jnp.cumsum(jnp.exp(1j * x)), jnp.split(x * (1 + 0j), 2)[1]])
    ),
    "product": lambda x: jnp.abs(jnp.prod(x[0] * jnp.exp(1j * jnp.arange(3.0)) - x[1])),
    "product of arrays": lambda x: jnp.real(jnp.vdot(jnp.exp(1j * x), x * 1j)),
    "captured": lambda x: jnp.sum(jnp.abs(x @ TABLE)),
    "captured and known": lambda x: x**2 * jnp.imag(TABLE[:, 0]) * jnp.abs(TABLE[:, 1]),
    "cosine transform": lambda x: jax.scipy.fft.dct(x) ** 2,
}
CASES: dict[str, Case] = {
    **{name: Case(name, function, ((6,),), POSITIVE, 2) for name, function in VECTORS.items()},
    "convolution": Case(
        "convolution", lambda x, k: jnp.fft.ifft(jnp.fft.fft(x) * jnp.fft.fft(k)).real ** 2, ((4,), (4,))
    ),
    "two axes": Case(
        "two axes", lambda x: jnp.fft.irfftn(jnp.fft.rfftn(x) * 2.0, s=(2, 3)) ** 2, ((2, 3),), order=2
    ),
    "each row": Case("each row", jax.vmap(lambda r: jnp.abs(jnp.fft.fft(r))), ((2, 3),), order=2),
    "matrix product": Case(
        "matrix product", lambda a, b: jnp.abs((a + 1j * b) @ (b - 1j * a)), ((2, 2), (2, 2)), order=2
    ),
}
