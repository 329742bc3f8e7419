"""Numbers of a tether as tables, in C."""

from __future__ import annotations

from typing import Any

import numpy as np

from tether.export.c.numbers import table


def tables_code(kind: str, tables: dict[str, np.ndarray]) -> str:
    """By name."""
    return "".join(table(kind, f"@_{name}", values) for name, values in tables.items())


def buffers(module: Any) -> dict[str, np.ndarray]:
    """Of a module, by name."""
    return {name: values.detach().cpu().numpy() for name, values in module.named_buffers()}
