"""Certificates of convexity: ranges, normal forms, positive semidefinite Hessians, composition."""

from hesse.convexity.certificate import Convexity, Verdict, convexity

__all__ = ["Convexity", "Verdict", "convexity"]
