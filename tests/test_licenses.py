"""NOTICE, which wheel and image contain, and the SBOM list the licence of every dependency."""

import json
import tomllib
from pathlib import Path

import pytest
from tools import licenses

TOP = Path(__file__).parents[1]


def test_the_notice_has_the_licence_of_every_dependency() -> None:
    assert licenses.NOTICE.read_text() == licenses.format_notice(), "run `make notice`"
    assert (
        "fpdf2 is licensed under the GNU Lesser General Public License" in licenses.format_notice()
    )


def test_wheel_and_image_contain_the_notice() -> None:
    project = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
    assert project["license-files"] == ["LICENSE", "NOTICE"]
    assert "LICENSE NOTICE" in (TOP / "Dockerfile").read_text()
    first, *later = (TOP / ".dockerignore").read_text().splitlines()
    assert first == "*"  # this line ignores all files, and the later ones make exceptions
    assert "!NOTICE" in later


def test_the_error_names_a_package_without_an_spdx_licence() -> None:
    with pytest.raises(LookupError, match="no-such-package has no SPDX expression"):
        licenses.find_license("no-such-package")


def test_the_sbom_has_a_licence_of_every_component(tmp_path: Path) -> None:
    sbom = tmp_path / "sbom.json"
    names = licenses.locked_packages()
    sbom.write_text(json.dumps({"components": [{"name": name} for name in names]}))
    licenses.add_to_sbom(sbom)
    components = json.loads(sbom.read_text())["components"]
    by_name = {component["name"]: component["licenses"] for component in components}
    assert list(by_name) == names
    assert by_name["fpdf2"] == [{"license": {"id": "LGPL-3.0-only"}}]
    assert by_name["cryptography"] == [{"expression": "Apache-2.0 OR BSD-3-Clause"}]
