"""The derivation of a derivative, rule by rule."""

from hesse.derivation.steps import Step, steps

__all__ = ["Step", "steps"]
