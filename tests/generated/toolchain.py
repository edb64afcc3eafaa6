"""Runs the tools that generate, compile and check clients of the API.

All output goes to directories of the test run. Lock files in this folder pin the versions, except
those of the compilers of Go and Java, which belong to the system.
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
    "GOPROXY": "off",  # the generated client needs only Go's own library
    "GOFLAGS": "-mod=mod",
    "GOTOOLCHAIN": "local",
    "REDOCLY_TELEMETRY": "off",
    "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true",
    "PYTHONDONTWRITEBYTECODE": "1",
}


def run(*command: str | Path, cwd: Path, statuses: tuple[int, ...] = (0,), **env: str) -> str:
    """Run a program and return its output; fail on any other exit status."""
    inherited = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    result = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=inherited | _ENVIRONMENT | env,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    output = f"{result.stdout[-4000:]}\n{result.stderr[-4000:]}"
    assert result.returncode in statuses, f"{command}\n{output}"
    return result.stdout


def jar() -> Path:
    """Return openapi-generator's jar, which its Python package contains."""
    (path,) = VENV.glob("lib/python*/site-packages/openapi_generator_cli/openapi-generator.jar")
    return path


def generate(generator: str, document: Path, target: Path, *options: str) -> Path:
    """Generate a client with openapi-generator, without tests and documentation.

    Methods that send events are left out as well, see docs/recipes/generate-a-client.md.
    """
    included = "apis,models,supportingFiles"
    excluded = "apiTests=false,modelTests=false,apiDocs=false,modelDocs=false"
    run(
        *("java", "-jar", jar(), "generate", "-g", generator, "-i", document, "-o", target),
        *("--global-property", f"{included},{excluded}", *options),
        cwd=document.parent,
    )
    return target


def copy_files(place: Path, *names: str) -> None:
    """Copy files of this folder to a place."""
    place.mkdir(parents=True, exist_ok=True)
    for name in names:
        shutil.copy(HERE / name, place)


def install_node_modules(place: Path) -> Path:
    """Install the packages of the lock file, and return the folder of their programs."""
    copy_files(place, "node/package.json", "node/package-lock.json")
    options = ("--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline")
    run("npm", "ci", *options, cwd=place, **_npm())
    return place / "node_modules" / ".bin"


def _npm() -> dict[str, Any]:
    """Return the settings of npm in the environment, such as its registry."""
    return {name: text for name, text in os.environ.items() if name.lower().startswith("npm_")}
