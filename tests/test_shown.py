"""What a person sees at a prompt and in a notebook, and gets for a data frame."""

from __future__ import annotations

import sys

import numpy as np
import pandas
import polars
import pytest
import torch

import tether
from conftest import frictionless
from tether.data import Transitions
from tether.foundation.progress import silent, watched
from tether.foundation.shown import Shown
from tether.model.networks import few_threads

TINY = {"memories": 10, "leaves": 50, "hidden": (8,), "training": tether.TrainingConfig(steps=5)}


@pytest.fixture(scope="module")
def model(cart: Transitions) -> tether.Model:
    return tether.fit(cart, trusted=frictionless, **TINY)


@pytest.fixture(scope="module")
def shown(model: tether.Model, tmp_path_factory) -> dict[str, Shown]:
    path = tmp_path_factory.mktemp("shown") / "model.safetensors"
    tether.save(model, path)
    start, controls = np.zeros(len(model.schema.states)), np.zeros((3, len(model.schema.controls)))
    return {
        "Model: affine bounds": model,
        "Certificate: distance to": tether.certify(model, frictionless),
        "Attack: withstood": tether.attack(model, frictionless, evaluations=100),
        "Verification: VERIFIED": tether.verify(path, frictionless),
        "Tube: 3 steps": tether.tube(model, frictionless, start, controls),
    }


def test_each_says_what_it_is_in_a_few_lines(shown: dict[str, Shown]) -> None:
    for headline, thing in shown.items():
        lines = repr(thing).splitlines()
        assert lines[0].startswith(headline) and 2 <= len(lines) <= 10
        page = thing._repr_html_()
        assert headline in page and page.count("<tr>") == len(lines) - 1
    assert "proved" in repr(shown["Model: affine bounds"])


def test_names_of_users_are_no_markup(cart: Transitions) -> None:
    class Named(Shown):
        def facts(self):
            return "a<b>\n", {"x<y": "<script>\x1b[31m"}

    assert "<script>" not in Named()._repr_html_() and "<b>\n" not in Named()._repr_html_()
    assert "\x1b" not in repr(Named()) and len(repr(Named()).splitlines()) == 2


@pytest.mark.parametrize("details", [False, True])
def test_a_frame_is_answered_by_a_frame(model: tether.Model, cart: Transitions, details: bool) -> None:
    names, rows = model.schema.inputs, cart.inputs[:4]
    frame = pandas.DataFrame(rows, columns=names, index=list("wxyz")).assign(note="kept out")
    plain = model.predict(cart.states[:4], cart.controls[:4])
    found = model.predict(frame, details=details)
    assert list(found.index) == list("wxyz") and list(found.columns[: len(names)]) == list(names)
    next_names = [f"next_{name}" for name in model.schema.outputs]
    assert np.array_equal(found[next_names].to_numpy(), plain)
    assert ("in_domain" in found.columns) == details
    other = model.predict(polars.DataFrame(rows, schema=list(names), orient="row"), details=details)
    assert isinstance(other, polars.DataFrame) and list(other.columns) == list(found.columns)
    assert np.array_equal(other[next_names].to_numpy(), plain)


def test_what_is_no_frame_or_lacks_a_column_is_named(model: tether.Model, cart: Transitions) -> None:
    with pytest.raises(
        TypeError, match="`controls` must be given with arrays of states; got none and ndarray"
    ):
        model.predict(cart.states)
    lacking = pandas.DataFrame(cart.states[:2], columns=model.schema.states)
    with pytest.raises(ValueError, match=f"no '{model.schema.controls[0]}'"):
        model.predict(lacking)


def test_progress_is_shown_to_who_looks(monkeypatch, capsys) -> None:
    assert watched() is silent
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with watched()("Some step") as report:
        report(1, 2)
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    with watched()("Another step") as report:
        report(1, 2)
    printed = capsys.readouterr()
    assert "Some step" in printed.err and "Another step: done" in printed.err and printed.out == ""


def test_three_ways_to_episodes_are_named_in_order(cart: Transitions) -> None:
    with pytest.raises(ValueError, match=r"`--episode COLUMN`.*`--block ROWS`.*`--independent-rows`"):
        cart.take(cart.episodes == cart.episodes[0]).split()


def test_small_batches_take_one_thread(monkeypatch) -> None:
    asked = []
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    monkeypatch.setattr(torch, "set_num_threads", asked.append)
    network = tether.mlp(3, 2, (100, 100))
    for rows in (1, 1024, 1_000_000):
        with few_threads(network, rows):
            asked.append(rows)
    assert asked == [1, 1, 4, 1, 1024, 4, 1_000_000]


@pytest.mark.parametrize(
    ("setting", "home"),
    [("steps", "training=tether.TrainingConfig"), ("epsilon", "evidence=tether.Statistical")],
)
def test_a_setting_of_a_part_is_sent_there(cart: Transitions, setting: str, home: str) -> None:
    with pytest.raises(TypeError, match=rf"got {setting}\. Give {setting} as `{home}\({setting}=\.\.\.\)`"):
        tether.fit(cart, trusted=frictionless, **{setting: 1})
