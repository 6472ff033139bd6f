"""The derivation of a derivative, rule by rule."""
