"""Writes every example as a Jupyter notebook: its docstring as text, a cell for each part, and its picture.

Usage: python site/notebooks.py [FOLDER]
"""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "examples"


def cells_of(source: str) -> list[tuple[str, str]]:
    """(kind, text) of each cell; a statement is never cut."""
    tree = ast.parse(source)
    lines = source.splitlines()
    words = ast.get_docstring(tree) or ""
    body = tree.body[1:] if words else tree.body
    starts = [min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))]) for node in body]
    cells, begin = [("markdown", words)], tree.body[0].end_lineno if words else 0
    for node, start in zip(body[1:], starts[1:], strict=True):
        if isinstance(node, ast.Import | ast.ImportFrom):  # together in one cell
            continue
        blank = [k for k in range(begin, start - 1) if not lines[k].strip()]
        between = blank and not any(node.lineno - 1 <= blank[-1] < (node.end_lineno or 0) for node in body)
        if between and "\n".join(lines[begin : blank[-1]]).strip():
            cells.append(("code", "\n".join(lines[begin : blank[-1]]).strip("\n")))
            begin = blank[-1]
    return [*cells, ("code", "\n".join(lines[begin:]).strip("\n"))]


def notebook(source: str, picture: str) -> dict[str, object]:
    """A notebook, as its file holds it, that shows a picture its last part has written."""
    shown = ("code", f'from IPython.display import Image\n\nImage("{picture}")')
    cells = []
    for number, (kind, text) in enumerate([*cells_of(source), shown]):
        cell = {
            "cell_type": kind,
            "id": f"cell-{number}",
            "metadata": {},
            "source": text.splitlines(keepends=True),
        }
        cells.append(cell | ({"outputs": [], "execution_count": None} if kind == "code" else {}))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def main(out: Path) -> None:
    """Writes all of them."""
    out.mkdir(parents=True, exist_ok=True)
    for path in sorted(EXAMPLES.glob("*.py")):
        (out / f"{path.stem}.ipynb").write_text(
            json.dumps(notebook(path.read_text(), f"{path.stem}.png"), indent=1) + "\n"
        )
        print(out / f"{path.stem}.ipynb")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("build/notebooks"))
