"""hesse."""
