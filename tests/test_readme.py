"""The README's example runs as it stands."""

import re
from pathlib import Path


def test_the_example_on_your_own_data_runs(tmp_path, monkeypatch):
    text = (Path(__file__).parent.parent / "README.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    namespace: dict = {}
    exec(compile(block, "README.md", "exec"), namespace)
    assert (tmp_path / "pendulum.safetensors").is_file()
    assert namespace["prediction"].in_domain.any()
    assert namespace["certificate"].certified and namespace["certificate"].evidence == "proved"
