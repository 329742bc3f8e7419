"""Packages that only some of Tether needs, and how one gets them."""

from __future__ import annotations

EXTRAS = {
    "casadi": "casadi",
    "distributed": "cluster",
    "fmpy": "fmu",
    "gymnasium": "gymnasium",
    "jax": "jax",
    "mujoco": "mujoco",
    "onnx": "onnx",
    "onnxruntime": "onnx",
    "pyarrow": "parquet",
    "sympy": "sympy",
    "ziglang": "compile",
}
"""Of each package, the extra of `pyproject.toml` that brings it in a version that works."""


def installing(package: str) -> str:
    """The command that installs a package, between backticks."""
    if package in EXTRAS:
        return f"`pip install 'tether-dynamics[{EXTRAS[package]}]'`"
    return f"`pip install {package}`"
