"""What all exports have in common: what is refused, and that nothing is overwritten or half-written."""

from __future__ import annotations

from pathlib import Path

import pytest

import tether
from tether.export import FORMATS, Request, export, exporting


def two_files(request: Request) -> dict[str, bytes]:
    return {f"{request.name}.h": b"header", f"{request.name}.txt": request.dtype.encode()}


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FORMATS, "two", f"{__name__}:two_files")


@pytest.mark.usefixtures("known")
def test_all_files_of_a_format_are_written(tmp_path: Path) -> None:
    written = export(None, to="two", out=tmp_path / "a" / "b", name="car", dtype="float32")  # type: ignore[arg-type]
    assert [path.name for path in written] == ["car.h", "car.txt"]
    assert written[1].read_bytes() == b"float32"


@pytest.mark.usefixtures("known")
def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "model.txt").write_text("mine")
    with pytest.raises(ValueError, match="must be a new file"):
        export(None, to="two", out=tmp_path)  # type: ignore[arg-type]
    assert [path.name for path in tmp_path.iterdir()] == ["model.txt"]


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"to": "fortran"}, r"`to` must be one of .*'two'; got 'fortran'"),
        ({"dtype": "float16"}, r"`dtype` must be one of 'float64', 'float32'; got 'float16'"),
        ({"name": "../x"}, r"`name` must be a letter"),
    ],
)
def test_what_is_asked_must_exist(given: dict[str, str], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        export(None, **({"to": "two", "out": tmp_path} | given))  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_a_missing_package_is_one_line() -> None:
    with pytest.raises(ValueError, match=r"must have nosuchpackage.*pip install nosuchpackage"):
        exporting.needed("nosuchpackage")


def test_what_is_verified_is_a_file():
    message = r"`path` must be a file, .*; got Schema\. Write a model with `tether\.save` first"
    with pytest.raises(TypeError, match=message):
        tether.verify(tether.make_schema(["x"], []), lambda states, controls: states)  # type: ignore[arg-type]
