"""What lies beside an exported source file, and is compiled or shown with it, is verified with it."""

from __future__ import annotations

import json
import sys
import warnings
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

import tether
from compiled import needs_compiler
from tether.export import export
from tether.export.c import form_of
from tether.export.c.source import source
from tether.foundation.errors import CertificateError, StorageError

sys.path.append(str(Path(__file__).parents[1] / "contract"))
from every_model import SUBJECTS

pytestmark = needs_compiler
(SUBJECT,) = (s for s in SUBJECTS if str(s) == "affine, angles, clip")


@pytest.fixture(scope="module")
def model():
    return SUBJECT.model()


def test_another_header_is_refused_and_a_missing_one_named(model, tmp_path):
    export(model, to="c", out=tmp_path, name="cart")
    written = (tmp_path / "cart.h").read_text()
    (tmp_path / "cart.h").write_text(written.replace("#ifdef __cplusplus", "#define isnan(x) 0\n", 1))
    with pytest.raises(CertificateError, match=r"cart.h` is not what Tether writes"):
        tether.verify(tmp_path / "cart.c", SUBJECT.trusted)
    (tmp_path / "cart.h").unlink()
    found = tether.verify(tmp_path / "cart.c", SUBJECT.trusted)
    assert "`cart.h`, which is not beside it" in found.not_vouched


def test_a_name_is_an_identifier(model, tmp_path):
    form = replace(form_of(model, "cart", "float64", {}), name='cart.h"\n#define isnan(x) 0\n//')
    (tmp_path / "cart.c").write_text(source(model, form))
    with pytest.raises(StorageError, match="it says of itself what no export does"):
        tether.verify(tmp_path / "cart.c", SUBJECT.trusted)


CHANGES = {
    "a header that a compiler finds first": {"sources/math.h": b"#define isnan(x) 0\n"},
    "a source that overwrites one": {"sources/./cart.c": b"int x;\n"},
    "a source among binaries": {"binaries/../sources/cart.c": b"int x;\n"},
    "the same name again": {"sources/cart.h": b"#define isnan(x) 0\n"},
}


@pytest.mark.parametrize("form", ["fmu", "fmu3"])
@pytest.mark.parametrize("change", CHANGES)
def test_an_archive_holds_nothing_else(model, tmp_path, change, form):
    (path,) = export(model, to=form, out=tmp_path, name="cart")
    with zipfile.ZipFile(path, "a") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, content in CHANGES[change].items():
            archive.writestr(name, content)
    with pytest.raises((CertificateError, StorageError), match=r"differs|two files of one name"):
        tether.verify(path, SUBJECT.trusted)


@pytest.mark.parametrize("form", ["fmu", "fmu3"])
def test_the_certificate_of_an_archive_is_that_of_its_source(model, tmp_path, form):
    (path,) = export(model, to=form, out=tmp_path, name="cart")
    with zipfile.ZipFile(path) as one, zipfile.ZipFile(tmp_path / "other.fmu", "w") as two:
        for name in one.namelist():
            other = json.dumps({"deltas": {}}).encode()
            two.writestr(name, other if name.endswith("certificate.json") else one.read(name))
    with pytest.raises(CertificateError, match=r"certificate.json` is not what Tether writes"):
        tether.verify(tmp_path / "other.fmu", SUBJECT.trusted)
