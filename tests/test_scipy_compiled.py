"""Compiled code of SciPy, and modules of Python, meet traced values: hesse's error, at the user's line."""

from __future__ import annotations

import cmath
import re
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.cluster.vq
import scipy.fft
import scipy.interpolate
import scipy.linalg
import scipy.ndimage
import scipy.optimize
import scipy.signal
import scipy.sparse
import scipy.sparse.linalg
import scipy.spatial
import scipy.spatial.distance
import scipy.spatial.transform
import scipy.special
import scipy.stats

import hesse
from hesse.errors import TracingError

POINTS = np.random.default_rng(0).standard_normal((6, 2))
PLACE = np.zeros((1, 2))
TREE, COMPILED_TREE = scipy.spatial.KDTree(POINTS), scipy.spatial.cKDTree(POINTS)
MESH = scipy.spatial.Delaunay(POINTS)
SECTIONS = scipy.signal.butter(2, 0.1, output="sos")
REFUSED: dict[str, Callable[[Any], Any]] = {
    "scipy.spatial.ConvexHull": lambda t: scipy.spatial.ConvexHull(t).volume,
    "scipy.spatial.Delaunay": lambda t: scipy.spatial.Delaunay(t).points,
    "scipy.spatial.Delaunay.find_simplex": lambda t: MESH.find_simplex(t)[0],
    "scipy.spatial.Voronoi": lambda t: scipy.spatial.Voronoi(t).vertices,
    "scipy.spatial.HalfspaceIntersection": lambda t: scipy.spatial.HalfspaceIntersection(t, PLACE[0]),
    "scipy.spatial.KDTree": lambda t: scipy.spatial.KDTree(t).data,
    "scipy.spatial.cKDTree": lambda t: scipy.spatial.cKDTree(t).data,
    "scipy.spatial.KDTree.query": lambda t: TREE.query(t)[0],
    "scipy.spatial.cKDTree.query": lambda t: COMPILED_TREE.query(t)[0],
    "scipy.spatial.transform.Rotation.from_rotvec": lambda t: scipy.spatial.transform.Rotation.from_rotvec(
        t[:3, 0]
    ),
    "scipy.spatial.transform.Rotation.from_quat": lambda t: scipy.spatial.transform.Rotation.from_quat(
        t[:4, 0]
    ),
    "scipy.interpolate.griddata": lambda t: scipy.interpolate.griddata(t, t[:, 0], PLACE),
    "scipy.interpolate.LinearNDInterpolator": lambda t: scipy.interpolate.LinearNDInterpolator(
        POINTS, t[:, 0]
    ),
    "scipy.interpolate.NearestNDInterpolator": lambda t: scipy.interpolate.NearestNDInterpolator(
        POINTS, t[:, 0]
    ),
    "scipy.interpolate.RBFInterpolator": lambda t: scipy.interpolate.RBFInterpolator(POINTS, t[:, 0]),
    "scipy.signal.sosfilt": lambda t: scipy.signal.sosfilt(SECTIONS, t[:, 0]),
    "scipy.signal.upfirdn": lambda t: scipy.signal.upfirdn([1.0, 2.0], t[:, 0]),
    "scipy.ndimage.label": lambda t: scipy.ndimage.label(t)[0],
    "scipy.sparse.dok_matrix": lambda t: scipy.sparse.dok_matrix(t).sum(),
    "scipy.stats.moment": lambda t: scipy.stats.moment(t[:, 0]),
    "scipy.stats.norm.fit": lambda t: scipy.stats.norm.fit(t[:, 0])[0],
    "scipy.cluster.vq.kmeans": lambda t: scipy.cluster.vq.kmeans(t, 2)[1],
    "scipy.spatial.distance.directed_hausdorff": lambda t: scipy.spatial.distance.directed_hausdorff(
        t, PLACE
    ),
    "scipy.optimize.nnls": lambda t: scipy.optimize.nnls(t, t[:, 0]),
    "scipy.special.spherical_jn": lambda t: scipy.special.spherical_jn(1, t[0, 0]),
    "scipy.special.sph_harm_y": lambda t: scipy.special.sph_harm_y(1, 1, t[0, 0], t[0, 1]),
}


def check(function: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(TracingError, match=message) as caught:
        hesse.grad(function)(POINTS)
    lines = range(function.__code__.co_firstlineno, function.__code__.co_firstlineno + 3)
    assert any(f"(at {__file__}:{line})" in str(caught.value) for line in lines)


@pytest.mark.parametrize("name", REFUSED)
def test_compiled_code_is_refused_by_its_public_name(name: str) -> None:
    check(REFUSED[name], rf"{re.escape(name)}, which computes with numbers.*(custom_derivative|formula|loop)")


def test_sparse_matrices_and_transforms_name_the_way_out() -> None:
    check(lambda t: (scipy.sparse.eye(6).tocsr() @ t).sum(), r"csr_matrix\.__matmul__.*A\.toarray\(\) @ x")
    check(lambda t: scipy.fft.dctn(t).sum(), r"scipy\.fft\.dctn, which computes with numbers")
    # of six rows and three columns, the last rows empty: as many sums as rows
    matrix = scipy.sparse.coo_matrix(([2.0, 3.0], ([0, 2], [1, 2])), shape=(6, 3))
    way_out = hesse.compile(
        lambda x: np.bincount(matrix.row, matrix.data * x[matrix.col], minlength=matrix.shape[0])
    )
    np.testing.assert_allclose(way_out(np.arange(1.0, 4.0)), matrix @ np.arange(1.0, 4.0))
    check(lambda t: (scipy.sparse.eye(6).tocsr() @ t).sum(), r"minlength=A\.shape\[0\]")


def test_factors_of_sparse_matrices_name_the_way_out() -> None:
    solve = scipy.sparse.linalg.factorized(scipy.sparse.eye(6).tocsc())
    check(lambda t: solve(t[:, 0]).sum(), r"a compiled function .*hesse\.custom_derivative")


class Held:
    """An object that NumPy can make an array of."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.values


def test_objects_that_hold_traced_values_are_no_arrays() -> None:
    check(
        lambda t: np.sum(np.asarray(Held(t))),
        r"whose __array__ returns a traced value.*what the object holds",
    )


def test_constructors_are_back_in_their_places() -> None:
    before = scipy.spatial.ConvexHull.__init__
    area = scipy.spatial.ConvexHull(POINTS).volume
    found = hesse.grad(lambda x: scipy.spatial.ConvexHull(POINTS).volume * x[0] + TREE.query(POINTS[0])[0])
    np.testing.assert_allclose(found(np.ones(2)), [area, 0.0])
    assert scipy.spatial.ConvexHull.__init__ is before


def test_what_is_refused_is_not_advised() -> None:
    for function in (scipy.linalg.eig, scipy.linalg.eigvals):
        check(lambda t, f=function: f(t[:2])[0], r"Write np\.linalg\.eigv?a?l?s?h\(a\) if the matrix is symm")
    for function in (scipy.linalg.lu, scipy.linalg.lu_factor):
        check(lambda t, f=function: f(t[:2])[0], r"Write np\.linalg\.solve\(a, b\)")
    check(
        lambda t: scipy.optimize.least_squares(lambda z: z * t[0, 0] - 1.0, [1.0]).x,
        r"scipy\.optimize\.least_squares, .*hesse\.argmin",
    )


def test_modules_of_python() -> None:
    check(lambda t: statistics.mean(t[:, 0]), r"np\.mean\(x\) instead of statistics\.mean")
    check(lambda t: statistics.NormalDist(t[0, 0]).pdf(0.3), "cannot be traced")
    check(lambda t: cmath.exp(1j * t[0, 0]).real, r"np\.exp\(z\) instead of cmath\.exp")


def test_other_errors_in_compiled_code_pass_unchanged() -> None:
    with pytest.raises(ValueError, match="x must consist of vectors of length 2"):
        hesse.grad(lambda x: np.sum(x) * COMPILED_TREE.query(np.ones(3))[0])(np.ones(2))
