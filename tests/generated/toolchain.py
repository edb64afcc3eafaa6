"""The tools that make, compile and check clients of the API, and how they are run.

Everything is made in directories of the test run. Versions are pinned by the lock files beside this
file, but for the compilers of Go and Java, which are the system's.
"""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).parent
VENV: Final = Path(__file__).parents[2] / ".venv-clients"
PYTHON: Final = VENV / "bin" / "python"
_ENVIRONMENT: Final = {
    "NO_PROXY": "*",
    "GOPROXY": "off",  # the generated client needs nothing but Go's own library
    "GOFLAGS": "-mod=mod",
    "GOTOOLCHAIN": "local",
    "REDOCLY_TELEMETRY": "off",
    "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true",
    "PYTHONDONTWRITEBYTECODE": "1",
}


def run(*words: str | Path, cwd: Path, taken: tuple[int, ...] = (0,), **env: str) -> str:
    """Run a program and return what it printed; an exit status that is not taken is a failure."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env=kept | _ENVIRONMENT | env,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode in taken, f"{words}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def jar() -> Path:
    """Return openapi-generator's jar, which its Python package carries."""
    (found,) = VENV.glob("lib/python*/site-packages/openapi_generator_cli/openapi-generator.jar")
    return found


def generate(generator: str, document: Path, target: Path, *options: str) -> Path:
    """Make a client with openapi-generator, without the tests it would make.

    Nor with methods that send events, see docs/recipes/generate-a-client.md.
    """
    wanted = "apis,models,supportingFiles"
    unwanted = "apiTests=false,modelTests=false,apiDocs=false,modelDocs=false"
    run(
        *("java", "-jar", jar(), "generate", "-g", generator, "-i", document, "-o", target),
        *("--global-property", f"{wanted},{unwanted}", *options),
        cwd=document.parent,
    )
    return target


def copied(place: Path, *names: str) -> None:
    """Copy files from beside this file into a place."""
    place.mkdir(parents=True, exist_ok=True)
    for name in names:
        shutil.copy(HERE / name, place)


def install_node_modules(place: Path) -> Path:
    """Install what the lock file says, and return where its programs are."""
    copied(place, "node/package.json", "node/package-lock.json")
    options = ("--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline")
    run("npm", "ci", *options, cwd=place, **_npm())
    return place / "node_modules" / ".bin"


def _npm() -> dict[str, Any]:
    """The settings of npm that are in the environment: where to install from."""
    return {name: text for name, text in os.environ.items() if name.lower().startswith("npm_")}
