"""What the functions of the tables are called in the array libraries.

Back ends look a name up, exported code is written with it. No library is imported before that.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

MODULES = {"numpy": "numpy", "torch": "torch", "jax": "jax.numpy"}
"""The module of each library that most functions are in."""
SHORT = {"numpy": "np", "torch": "torch", "jax": "jnp"}
"""What that module is called in source code."""


@dataclass(frozen=True, init=False)
class Named:
    """A function by its name, called with some keywords; of several results one `part`."""

    name: str
    part: int | str | None
    keywords: Mapping[str, object]

    def __init__(self, name: str, part: int | str | None = None, **keywords: object) -> None:
        for field, value in (("name", name), ("part", part), ("keywords", keywords)):
            object.__setattr__(self, field, value)

    def function(self) -> Callable[..., Any]:
        """The function; its module is imported."""
        module, _, name = self.name.rpartition(".")
        found: Callable[..., Any] = getattr(importlib.import_module(module), name)
        return functools.partial(found, **self.keywords) if self.keywords else found

    def kernel(self, xp: Any) -> Callable[..., Any]:
        """The kernel `(params, *arrays)` of a record, by a function of a namespace."""
        *modules, name = self.name.split(".")
        module = functools.reduce(getattr, modules, xp)
        part, keywords = self.part, self.keywords

        def computed(params: tuple[Any, ...], *arrays: Any) -> Any:
            found = getattr(module, name)(*arrays, **keywords)
            if part is not None:
                found = found[part] if isinstance(part, int) else getattr(found, part)
            return xp.asarray(found)

        return computed

    def text(self, operands: list[str], axis: str = "axis") -> str:
        """The call in source code, where the keyword for axes has this name."""
        keywords = [
            f"{axis if keyword == 'axis' else keyword}={value!r}" for keyword, value in self.keywords.items()
        ]
        part = (
            "" if self.part is None else f"[{self.part}]" if isinstance(self.part, int) else f".{self.part}"
        )
        return f"{self.name}({', '.join([*operands, *keywords])}){part}"


def _alike(module: str, names: str) -> dict[str, Named]:
    return {name: Named(f"{module}.{name}") for name in names.split()}


_COMMON = (
    "abs arccos arccosh arcsin arcsinh arctan arctan2 arctanh cbrt ceil clip cos cosh exp exp2 expm1 floor "
    "floor_divide fmod hypot log log1p logaddexp maximum minimum remainder round sign sin sinh sqrt tan tanh "
    "trunc"
)

ROWS: dict[str, dict[str, Named]] = {
    "numpy": {
        **_alike("numpy", _COMMON),
        **_alike("scipy.special", "digamma erf erfc erfinv log_ndtr ndtri polygamma xlogy"),
        "lgamma": Named("scipy.special.gammaln"),
    },
    "torch": {
        **_alike("torch", _COMMON),
        **_alike("torch", "digamma erf erfc erfinv lgamma polygamma relu sigmoid xlogy"),
        **{
            f"arc{name}": Named(f"torch.a{name}")
            for name in ("cos", "cosh", "sin", "sinh", "tan", "tan2", "tanh")
        },
        **_alike("torch.special", "log_ndtr ndtri"),
        # torch.floor_divide has no derivative.
        "floor_divide": Named("torch.div", rounding_mode="floor"),
        # From 50 on it is x: log(1 + exp(-50)) is below the rounding. The usual 20 gives only ten digits.
        "softplus": Named("torch.nn.functional.softplus", threshold=50),
        "softsign": Named("torch.nn.functional.softsign"),
    },
    "jax": {
        **_alike("jax.numpy", _COMMON),
        **_alike("jax.scipy.special", "digamma erf erfc erfinv log_ndtr ndtri polygamma xlogy"),
        **_alike("jax.nn", "relu sigmoid softplus"),
        "lgamma": Named("jax.scipy.special.gammaln"),
        "softsign": Named("jax.nn.soft_sign"),
        "stop_gradient": Named("jax.lax.stop_gradient"),
    },
}
"""Element-wise rows that are functions of a library, by their full names."""

RECORDS: dict[str, Named] = {
    "inverse": Named("linalg.inv"),
    "determinant": Named("linalg.det"),
    "log_determinant": Named("linalg.slogdet", "logabsdet"),
    "sign_determinant": Named("linalg.slogdet", "sign"),
    "cholesky": Named("linalg.cholesky"),
    # Not the function eigvalsh: values and vectors that occur in one formula should agree to the last bit.
    "eigvalsh": Named("linalg.eigh", 0),
    "argmax": Named("argmax", axis=-1),
    "argmin": Named("argmin", axis=-1),
    "argsort": Named("argsort", axis=-1, stable=True),
    "cumulative_sum": Named("cumsum", axis=0),
    "cumulative_product": Named("cumprod", axis=0),
    "product": Named("prod", axis=0),
    "kron": Named("kron"),
    "max": Named("max"),
}
"""Records that are one call in every library, by the names of functions in its main module."""

EXPONENTIAL = {
    "numpy": Named("scipy.linalg.expm"),
    "torch": Named("torch.linalg.matrix_exp"),
    "jax": Named("jax.scipy.linalg.expm"),
}
"""The exponential of a matrix."""

WORDS: dict[str, dict[str, str]] = {
    "numpy": {
        "arange": "np.arange({0})",
        "cast": "{0}.astype({1}.dtype)",
        "eye": "np.eye({0}, dtype={1}.dtype)",
        "wide": "np.asarray({0}, dtype=np.int64)",
        "zeros": "np.zeros({0}, dtype={1}.dtype)",
    },
    "torch": {
        "arange": "torch.arange({0}, device={1}.device)",
        "cast": "{0}.to({1}.dtype)",
        "eye": "torch.eye({0}, dtype={1}.dtype, device={1}.device)",
        "wide": "{0}.to(torch.int64)",
        "zeros": "torch.zeros({0}, dtype={1}.dtype, device={1}.device)",
    },
    "jax": {
        "arange": "jnp.arange({0})",
        "cast": "{0}.astype({1}.dtype)",
        "eye": "jnp.eye({0}, dtype={1}.dtype)",
        "wide": "{0}.astype(int)",
        "zeros": "jnp.zeros({0}, dtype={1}.dtype)",
    },
}
"""What the libraries spell differently: see `hesse.backends.records.Namespace`."""


def words(library: str) -> dict[str, Callable[..., Any]]:
    """The functions that a library spells differently."""
    namespace = {SHORT[library]: importlib.import_module(MODULES[library])}
    return {
        name: eval(f"lambda x, like=None: {text.format('x', 'like')}", namespace)
        for name, text in WORDS[library].items()
    }
