"""The reviewer's script says what is met and what is not, from the results of studies."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

SCRIPT = runpy.run_path(str(Path(__file__).parents[1] / "benchmarks" / "artifact.py"))


def test_expectations_are_met_or_not(tmp_path, capsys):
    good = [
        {"method": "Vanilla", "approximation_loss_D": 10.0},
        {"method": "Tethered", "evidence_level": "proved", "coverage_D": 0.999, "approximation_loss_D": 1.0},
    ]
    (tmp_path / "drones").mkdir()
    made, over, missing = SCRIPT["Expectation"], SCRIPT["over"], SCRIPT["missing"]
    wanted = [
        made("proved", "drones", SCRIPT["unproved"], 0.0),
        made("covers", "drones", missing("Tethered", "coverage_D"), 0.01),
        made("below", "drones", over("Tethered", "Vanilla", "approximation_loss_D"), 0.5),
    ]
    for spoilt, failures in (({}, 0), ({"coverage_D": 0.5, "evidence_level": "sampled"}, 2)):
        runs = [good[0], good[1] | spoilt]
        (tmp_path / "drones" / "results.json").write_text(json.dumps({"runs": runs}))
        assert SCRIPT["check"](tmp_path, wanted) == failures
    assert "✗ NOT MET: drones: covers: 0.5, at most 0.01" in capsys.readouterr().out
    with pytest.raises(KeyError, match="no run of Direct has coverage_D"):
        SCRIPT["missing"]("Direct", "coverage_D")(good)


def test_every_expectation_is_of_a_study_that_is_run():
    from tether_studies.reproduction import plan_reproduction

    planned = plan_reproduction("smoke", (0,), Path("out"), traces="t", flights="f").plans
    wanted = SCRIPT["expectations"](traces=True, flights=True)
    assert {each.folder for each in wanted} <= set(planned) and len(wanted) == 24
