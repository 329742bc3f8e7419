"""The README's example runs as it stands."""

import linecache
import re
import runpy
from pathlib import Path


def test_the_example_on_your_own_data_runs(tmp_path, monkeypatch):
    text = (Path(__file__).parent.parent / "README.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    namespace: dict = {}
    linecache.cache["README.md"] = len(block), None, block.splitlines(keepends=True), "README.md"
    exec(compile(block, "README.md", "exec"), namespace)
    assert (tmp_path / "pendulum.safetensors").is_file()
    assert namespace["prediction"].in_domain.any()
    assert namespace["certificate"].certified and namespace["certificate"].evidence == "proved"


def test_the_table_of_results_is_what_was_measured():
    """Row by row, from the results that are committed."""
    root = Path(__file__).parent.parent
    table = runpy.run_path(str(root / "benchmarks" / "results_table.py"))
    readme = (root / "README.md").read_text().splitlines()
    expected = [row for study in table["STUDIES"] for row in table["rows"](study)]
    assert len(expected) > 25
    for path, header, lines in table["tables"]():
        text = path.read_text().splitlines()
        first = text.index(header) + 2
        assert text[first : first + len(lines)] == lines, (
            f"python benchmarks/results_table.py --write: {path}"
        )
    assert any(line.startswith("Where Tethered does not win: ") for line in readme)
