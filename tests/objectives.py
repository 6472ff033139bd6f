"""Test functions of optimisation, written as people write them: loops, in-place updates, lists, constants.

The first are of the sets with which global optimisers are compared (Jamil and Yang, A literature survey of
benchmark functions, 2013), the others are the residuals of Moré, Garbow and Hillstrom, Testing unconstrained
optimization software (1981), whose loops fill arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from math import pi
from typing import Any

import numpy as np
from numpy import abs, arange, cos, exp, log, prod, sin, sqrt, sum

import hesse


def ackley(x: Any) -> Any:
    n = len(x)
    return -20 * exp(-0.2 * sqrt(sum(x**2) / n)) - exp(sum(cos(2 * pi * x)) / n) + 20 + exp(1)


def adjiman(x: Any) -> Any:
    return cos(x[0]) * sin(x[1]) - x[0] / (x[1] ** 2 + 1)


def alpine(x: Any) -> Any:
    return sum(abs(x * sin(x) + 0.1 * x))


def beale(x: Any) -> Any:
    return (
        (1.5 - x[0] + x[0] * x[1]) ** 2
        + (2.25 - x[0] + x[0] * x[1] ** 2) ** 2
        + (2.625 - x[0] + x[0] * x[1] ** 3) ** 2
    )


def bohachevsky(x: Any) -> Any:
    x0, x1 = x[:-1], x[1:]
    return sum(x0**2 + 2 * x1**2 - 0.3 * cos(3 * pi * x0) - 0.4 * cos(4 * pi * x1) + 0.7)


def booth(x: Any) -> Any:
    return (x[0] + 2 * x[1] - 7) ** 2 + (2 * x[0] + x[1] - 5) ** 2


def branin(x: Any) -> Any:
    return (
        (x[1] - 5.1 / (4 * pi**2) * x[0] ** 2 + 5 / pi * x[0] - 6) ** 2
        + 10 * (1 - 1 / (8 * pi)) * cos(x[0])
        + 10
    )


def brown(x: Any) -> Any:
    a, b = x[:-1], x[1:]
    return sum((a**2.0) ** (b**2.0 + 1.0) + (b**2.0) ** (a**2.0 + 1.0))


def camel(x: Any) -> Any:
    return (4 - 2.1 * x[0] ** 2 + x[0] ** 4 / 3) * x[0] ** 2 + x[0] * x[1] + (4 * x[1] ** 2 - 4) * x[1] ** 2


def chichinadze(x: Any) -> Any:
    return (
        x[0] ** 2
        - 12 * x[0]
        + 11
        + 10 * cos(pi * x[0] / 2)
        + 8 * sin(5 * pi * x[0] / 2)
        - 1.0 / sqrt(5) * exp(-((x[1] - 0.5) ** 2) / 2)
    )


def colville(x: Any) -> Any:
    return (
        100 * (x[0] - x[1] ** 2) ** 2
        + (1 - x[0]) ** 2
        + (1 - x[2]) ** 2
        + 90 * (x[3] - x[2] ** 2) ** 2
        + 10.1 * ((x[1] - 1) ** 2 + (x[3] - 1) ** 2)
        + 19.8 * (x[1] - 1) * (x[3] - 1)
    )


def cosine_mixture(x: Any) -> Any:
    return -0.1 * sum(cos(5.0 * pi * x)) + sum(x**2.0)


def cross_in_tray(x: Any) -> Any:
    inside = abs(sin(x[0]) * sin(x[1]) * exp(abs(100 - sqrt(x[0] ** 2 + x[1] ** 2) / pi))) + 1
    return -0.0001 * inside**0.1


def deckkers_aarts(x: Any) -> Any:
    r = x[0] ** 2 + x[1] ** 2
    return 1e5 * x[0] ** 2 + x[1] ** 2 - r**2 + 1e-5 * r**4


def dixon_price(x: Any) -> Any:
    i = arange(2, len(x) + 1)
    return sum(i * (2.0 * x[1:] ** 2.0 - x[:-1]) ** 2.0) + (x[0] - 1.0) ** 2.0


def drop_wave(x: Any) -> Any:
    norm_x = sum(x**2)
    return -(1 + cos(12 * sqrt(norm_x))) / (0.5 * norm_x + 2)


def easom(x: Any) -> Any:
    a = (x[0] - pi) ** 2 + (x[1] - pi) ** 2
    return -cos(x[0]) * cos(x[1]) * exp(-a)


def egg_holder(x: Any) -> Any:
    vec = -(x[1:] + 47) * sin(sqrt(abs(x[1:] + x[:-1] / 2.0 + 47))) - x[:-1] * sin(
        sqrt(abs(x[:-1] - (x[1:] + 47)))
    )
    return sum(vec)


def exponential(x: Any) -> Any:
    return -exp(-0.5 * sum(x**2.0))


def freudenstein_roth(x: Any) -> Any:
    f1 = (-13.0 + x[0] + ((5.0 - x[1]) * x[1] - 2.0) * x[1]) ** 2
    return f1 + (-29.0 + x[0] + ((x[1] + 1.0) * x[1] - 14.0) * x[1]) ** 2


def goldstein_price(x: Any) -> Any:
    a = 1 + (x[0] + x[1] + 1) ** 2 * (
        19 - 14 * x[0] + 3 * x[0] ** 2 - 14 * x[1] + 6 * x[0] * x[1] + 3 * x[1] ** 2
    )
    b = 30 + (2 * x[0] - 3 * x[1]) ** 2 * (
        18 - 32 * x[0] + 12 * x[0] ** 2 + 48 * x[1] - 36 * x[0] * x[1] + 27 * x[1] ** 2
    )
    return a * b


def griewank(x: Any) -> Any:
    i = arange(1.0, np.size(x) + 1.0)
    return sum(x**2 / 4000) - prod(cos(x / sqrt(i))) + 1


HARTMANN_A = np.array([[3.0, 10, 30], [0.1, 10, 35], [3.0, 10, 30], [0.1, 10, 35]])
HARTMANN_P = np.array(
    [
        [0.3689, 0.1170, 0.2673],
        [0.4699, 0.4387, 0.7470],
        [0.1091, 0.8732, 0.5547],
        [0.03815, 0.5743, 0.8828],
    ]
)


def hartmann(x: Any) -> Any:
    c = np.array([1.0, 1.2, 3.0, 3.2])
    d = sum(HARTMANN_A * (np.atleast_2d(x) - HARTMANN_P) ** 2, axis=1)
    return -sum(c * exp(-d))


def himmelblau(x: Any) -> Any:
    return (x[0] ** 2 + x[1] - 11) ** 2 + (x[0] + x[1] ** 2 - 7) ** 2


def holder_table(x: Any) -> Any:
    return -abs(sin(x[0]) * cos(x[1]) * exp(abs(1 - sqrt(x[0] ** 2 + x[1] ** 2) / pi)))


def keane(x: Any) -> Any:
    val = sin(x[0] - x[1]) ** 2 * sin(x[0] + x[1]) ** 2
    return val / sqrt(x[0] ** 2 + x[1] ** 2)


def langermann(x: Any) -> Any:
    a, b, c = [3, 5, 2, 1, 7], [5, 2, 1, 4, 9], [1, 2, 5, 2, 3]
    total = 0.0
    for i in range(5):
        distance = (x[0] - a[i]) ** 2 + (x[1] - b[i]) ** 2
        total += c[i] * exp(-(1 / pi) * distance) * cos(pi * distance)
    return -total


def levy(x: Any) -> Any:
    z = 1 + (x - 1) / 4
    return (
        sin(pi * z[0]) ** 2
        + sum((z[:-1] - 1) ** 2 * (1 + 10 * sin(pi * z[:-1] + 1) ** 2))
        + (z[-1] - 1) ** 2 * (1 + sin(2 * pi * z[-1]) ** 2)
    )


def matyas(x: Any) -> Any:
    return 0.26 * (x[0] ** 2 + x[1] ** 2) - 0.48 * x[0] * x[1]


def michalewicz(x: Any) -> Any:
    i = arange(1, len(x) + 1)
    return -sum(sin(x) * sin(i * x**2 / pi) ** (2 * 10))


def paviani(x: Any) -> Any:
    y = x + 3.0
    return sum(log(y) ** 2.0 + log(10.0 - y) ** 2.0) - prod(y) ** 0.2


def powell_sum(x: Any) -> Any:
    return sum([abs(x[i]) ** (i + 2) for i in range(len(x))])


def qing(x: Any) -> Any:
    return sum((x**2.0 - arange(1, len(x) + 1)) ** 2.0)


def rastrigin(x: Any) -> Any:
    return 10.0 * len(x) + np.sum(x**2.0 - 10.0 * np.cos(2.0 * pi * x))


def rosenbrock(x: Any) -> Any:
    total = 0.0
    for i in range(len(x) - 1):
        total += 100.0 * (x[i + 1] - x[i] ** 2.0) ** 2.0 + (x[i] - 1.0) ** 2.0
    return total


def salomon(x: Any) -> Any:
    u = sqrt(sum(x**2))
    return 1 - cos(2 * pi * u) + 0.1 * u


def schaffer(x: Any) -> Any:
    num = sin(x[0] ** 2 + x[1] ** 2) ** 2 - 0.5
    return 0.5 + num / (1 + 0.001 * (x[0] ** 2 + x[1] ** 2)) ** 2


def schwefel(x: Any) -> Any:
    return 418.982887 * len(x) - sum(x * sin(sqrt(abs(x))))


def shekel(x: Any) -> Any:
    a = np.asarray([[4.0, 4, 4, 4], [1.0, 1, 1, 1], [8.0, 8, 8, 8], [6.0, 6, 6, 6]])
    c = np.asarray([0.1, 0.2, 0.2, 0.4])
    return -sum(1 / (sum((x - a) ** 2, axis=1) + c))


def styblinski_tang(x: Any) -> Any:
    return sum(x**4 - 16 * x**2 + 5 * x) / 2


def trid(x: Any) -> Any:
    return sum((x - 1.0) ** 2) - sum(x[1:] * x[:-1])


def vincent(x: Any) -> Any:
    return -sum(sin(10.0 * log(x + 3.0)))


def zakharov(x: Any) -> Any:
    i = arange(1.0, np.size(x) + 1)
    u, v = sum(x**2), sum(0.5 * i * x)
    return u + v**2 + v**4


POINT = np.array([0.37, -0.61, 0.84, 0.22])
TWO = (adjiman, beale, booth, branin, camel, chichinadze, cross_in_tray, deckkers_aarts, easom)
TWO = (
    *TWO,
    freudenstein_roth,
    goldstein_price,
    himmelblau,
    holder_table,
    keane,
    langermann,
    matyas,
    schaffer,
)
ANY = (ackley, alpine, bohachevsky, brown, colville, cosine_mixture, dixon_price, drop_wave, egg_holder)
ANY = (*ANY, exponential, griewank, levy, michalewicz, paviani, powell_sum, qing, rastrigin, rosenbrock)
ANY = (*ANY, salomon, schwefel, shekel, styblinski_tang, trid, vincent, zakharov)
GLOBAL: dict[str, tuple[Callable[[Any], Any], np.ndarray]] = {
    **{function.__name__: (function, POINT[:2]) for function in TWO},
    **{function.__name__: (function, POINT) for function in ANY},
    "hartmann": (hartmann, POINT[:3]),
}
"""Functions of a vector, and where they are tried."""


# Residuals of least squares. The loops fill arrays; hesse.zeros is np.zeros outside of traced functions.


def helical_valley(x: Any) -> Any:
    f = hesse.zeros(3)
    theta = np.arctan2(x[1], x[0]) / (2 * pi)
    f[0] = 10 * (x[2] - 10 * theta)
    f[1] = 10 * (sqrt(x[0] ** 2 + x[1] ** 2) - 1)
    f[2] = x[2]
    return f


def powell_singular(x: Any) -> Any:
    f = np.zeros_like(x)
    f[0] = x[0] + 10 * x[1]
    f[1] = sqrt(5.0) * (x[2] - x[3])
    f[2] = (x[1] - 2 * x[2]) ** 2
    f[3] = sqrt(10.0) * (x[0] - x[3]) ** 2
    return f


def freudenstein(x: Any) -> Any:
    f = np.zeros_like(x)
    f[0] = -13 + x[0] + ((5 - x[1]) * x[1] - 2) * x[1]
    f[1] = -29 + x[0] + ((x[1] + 1) * x[1] - 14) * x[1]
    return f


BARD = np.array([14, 18, 22, 25, 29, 32, 35, 39, 37, 58, 73, 96, 134, 210, 439]) / 100.0


def bard(x: Any) -> Any:
    f = hesse.zeros(15)
    for i in range(15):
        u, v = i + 1, 15 - i
        w = min(u, v)
        f[i] = BARD[i] - (x[0] + u / (v * x[1] + w * x[2]))
    return f


KOWALIK_U = [4.0, 2.0, 1.0, 0.5, 0.25, 0.167, 0.125, 0.1, 0.0833, 0.0714, 0.0625]
KOWALIK_Y = [0.1957, 0.1947, 0.1735, 0.1600, 0.0844, 0.0627, 0.0456, 0.0342, 0.0323, 0.0235, 0.0246]


def kowalik_osborne(x: Any) -> Any:
    f = hesse.zeros(11)
    for i, (u, y) in enumerate(zip(KOWALIK_U, KOWALIK_Y, strict=True)):
        f[i] = y - x[0] * (u**2 + u * x[1]) / (u**2 + u * x[2] + x[3])
    return f


def box_three_dimensional(x: Any) -> Any:
    f = hesse.zeros(10)
    for i in range(10):
        t = 0.1 * (i + 1)
        f[i] = exp(-t * x[0]) - exp(-t * x[1]) - x[2] * (exp(-t) - exp(-10 * t))
    return f


def jennrich_sampson(x: Any) -> Any:
    f = hesse.zeros(10)
    for i in range(1, 11):
        f[i - 1] = 2 + 2 * i - (exp(i * x[0]) + exp(i * x[1]))
    return f


def brown_dennis(x: Any) -> Any:
    f = hesse.zeros(20)
    for i in range(20):
        t = (i + 1) / 5
        f[i] = (x[0] + t * x[1] - exp(t)) ** 2 + (x[2] + x[3] * sin(t) - cos(t)) ** 2
    return f


def biggs(x: Any) -> Any:
    f = hesse.zeros(13)
    for i in range(13):
        t = 0.1 * (i + 1)
        y = exp(-t) - 5 * exp(-10 * t) + 3 * exp(-4 * t)
        f[i] = x[2] * exp(-t * x[0]) - x[3] * exp(-t * x[1]) + exp(-t) - y
    return f


def watson(x: Any) -> Any:
    n = len(x)
    f = hesse.zeros(31)
    for i in range(29):
        t = (i + 1) / 29
        first, second = 0.0, 0.0
        for j in range(n):
            if j:
                first += j * x[j] * t ** (j - 1)
            second += x[j] * t**j
        f[i] = first - second**2 - 1
    f[29], f[30] = x[0], x[1] - x[0] ** 2 - 1
    return f


def variably_dimensioned(x: Any) -> Any:
    n = len(x)
    f = hesse.zeros(n + 2)
    f[:n] = x - 1
    for j in range(n):
        f[n] += (j + 1) * (x[j] - 1)
    f[n + 1] = f[n] ** 2
    return f


def trigonometric(x: Any) -> Any:
    n = len(x)
    f = np.zeros_like(x)
    total = 0.0
    for j in range(n):
        total = total + cos(x[j])
    for i in range(n):
        f[i] = n - total + (i + 1) * (1 - cos(x[i])) - sin(x[i])
    return f


def brown_almost_linear(x: Any) -> Any:
    n = len(x)
    f = np.empty_like(x)
    f[:-1] = x[:-1] + sum(x) - (n + 1)
    f[-1] = 1.0
    for j in range(n):
        f[-1] *= x[j]
    f[-1] -= 1
    return f


def discrete_boundary_value(x: Any) -> Any:
    n = len(x)
    h = 1 / (n + 1)
    f = 2 * x
    f[1:] -= x[:-1]
    f[:-1] -= x[1:]
    t = h * arange(1, n + 1)
    f += h**2 * (x + t + 1) ** 3 / 2
    return f


def discrete_integral(x: Any) -> Any:
    n = len(x)
    h = 1 / (n + 1)
    f = x.copy()
    for i in range(n):
        t = (i + 1) * h
        for j in range(n):
            s = (j + 1) * h
            weight = (1 - t) * s if j <= i else t * (1 - s)
            f[i] += h / 2 * weight * (x[j] + s + 1) ** 3
    return f


def broyden_tridiagonal(x: Any) -> Any:
    f = (3 - 2 * x) * x + 1
    f[1:] -= x[:-1]
    f[:-1] -= 2 * x[1:]
    return f


def broyden_banded(x: Any) -> Any:
    n = len(x)
    f = np.zeros_like(x)
    for i in range(n):
        f[i] = x[i] * (2 + 5 * x[i] ** 2) + 1
        for j in range(max(0, i - 5), min(n, i + 2)):
            if j != i:
                f[i] -= x[j] * (1 + x[j])
    return f


def chebyquad(x: Any) -> Any:
    n = len(x)
    f = np.zeros_like(x)
    for j in range(n):
        before, now = 1.0, 2 * x[j] - 1
        twice = 2 * now
        for i in range(n):
            f[i] += now
            before, now = now, twice * now - before
    f /= n
    for i in range(1, n, 2):
        f[i] += 1 / ((i + 1) ** 2 - 1)
    return f


LEAST_SQUARES: dict[str, tuple[Callable[[Any], Any], np.ndarray]] = {
    **{f.__name__: (f, POINT[:2]) for f in (freudenstein, jennrich_sampson)},
    **{f.__name__: (f, POINT[:3] + 1.0) for f in (helical_valley, bard, box_three_dimensional)},
    **{f.__name__: (f, POINT) for f in (powell_singular, kowalik_osborne, brown_dennis, biggs, watson)},
    **{f.__name__: (f, POINT) for f in (variably_dimensioned, trigonometric, brown_almost_linear)},
    **{f.__name__: (f, POINT) for f in (discrete_boundary_value, discrete_integral, broyden_tridiagonal)},
    **{f.__name__: (f, POINT) for f in (broyden_banded, chebyquad)},
}
"""Residuals, and where they are tried."""
