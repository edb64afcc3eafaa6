"""Licences of what runs: in NOTICE, which wheel and image have, and in the SBOM."""

import json
import tomllib
from pathlib import Path

import pytest
from tools import licenses

TOP = Path(__file__).parents[1]


def test_the_notice_has_the_licence_of_every_package_that_runs() -> None:
    assert licenses.NOTICE.read_text() == licenses.notice(), "run `make notice`"
    assert "fpdf2 is licensed under the GNU Lesser General Public License" in licenses.notice()


def test_wheel_and_image_have_the_notice() -> None:
    project = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
    assert project["license-files"] == ["LICENSE", "NOTICE"]
    assert "LICENSE NOTICE" in (TOP / "Dockerfile").read_text()
    first, *others = (TOP / ".dockerignore").read_text().splitlines()
    assert first == "*"  # in .dockerignore, the last pattern that matches a file decides
    assert "!NOTICE" in others


def test_a_package_without_a_licence_in_spdx_words_is_named() -> None:
    with pytest.raises(LookupError, match="no-such-package states no licence"):
        licenses.license_of("no-such-package")


def test_the_sbom_has_a_licence_of_every_component(tmp_path: Path) -> None:
    sbom = tmp_path / "sbom.json"
    names = licenses.packages()
    sbom.write_text(json.dumps({"components": [{"name": name} for name in names]}))
    licenses.add_to_sbom(sbom)
    written = {one["name"]: one["licenses"] for one in json.loads(sbom.read_text())["components"]}
    assert list(written) == names
    assert written["fpdf2"] == [{"license": {"id": "LGPL-3.0-only"}}]
    assert written["cryptography"] == [{"expression": "Apache-2.0 OR BSD-3-Clause"}]
