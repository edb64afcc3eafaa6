"""Runs the tools that generate, compile and check clients of the API.

All output goes to directories of the test run. Lock files in this folder pin the versions, except
those of the compilers of Go and Java, which belong to the system.
"""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parent
VENV: Final = Path(__file__).parents[2] / ".venv-clients"
PYTHON: Final = VENV / "bin" / "python"
_ENVIRONMENT: Final = {
    "NO_PROXY": "*",
    "GOPROXY": "off",  # the generated client needs only Go's standard library
    "GOFLAGS": "-mod=mod",
    "GOTOOLCHAIN": "local",
    "REDOCLY_TELEMETRY": "off",
    "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true",
    "PYTHONDONTWRITEBYTECODE": "1",
}


def run(*command: str | Path, cwd: Path, statuses: tuple[int, ...] = (0,), **env: str) -> str:
    """Run a program; return its output. Fail if its exit status is not in ``statuses``."""
    inherited_environment = {
        name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ
    }
    result = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=inherited_environment | _ENVIRONMENT | env,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    output = f"{result.stdout[-4000:]}\n{result.stderr[-4000:]}"
    assert result.returncode in statuses, f"{command}\n{output}"
    return result.stdout


def jar() -> Path:
    """Return the jar that the Python package of openapi-generator contains."""
    (path,) = VENV.glob("lib/python*/site-packages/openapi_generator_cli/openapi-generator.jar")
    return path


def generate(generator: str, document: Path, target: Path, *options: str) -> Path:
    """Generate a client with openapi-generator, without tests and documentation.

    Its methods that send webhooks are not generated either, see docs/recipes/generate-a-client.md.
    """
    generated_parts = "apis,models,supportingFiles"
    omitted_parts = "apiTests=false,modelTests=false,apiDocs=false,modelDocs=false"
    run(
        *("java", "-jar", jar(), "generate", "-g", generator, "-i", document, "-o", target),
        *("--global-property", f"{generated_parts},{omitted_parts}", *options),
        cwd=document.parent,
    )
    return target


def copy_files(folder: Path, *names: str) -> None:
    """Copy files next to this module into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        shutil.copy(FOLDER / name, folder)


def install_node_modules(folder: Path) -> Path:
    """Install the npm packages of the lock file; return the folder of their programs."""
    copy_files(folder, "node/package.json", "node/package-lock.json")
    options = ("--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline")
    run("npm", "ci", *options, cwd=folder, **_npm_settings())
    return folder / "node_modules" / ".bin"


def _npm_settings() -> dict[str, Any]:
    """Return npm's settings from the environment, such as its registry."""
    return {name: text for name, text in os.environ.items() if name.lower().startswith("npm_")}
