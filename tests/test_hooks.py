"""Git's hooks and the workflow run exactly the commands of `make check` and `make test`."""

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from tools.commit_subject import find_problems
from tools.plain_names import banned_names, findings

TOP: Final = Path(__file__).parents[1]
MAKEFILE: Final = (TOP / "Makefile").read_text()
CONFIG: Final = yaml.safe_load((TOP / ".pre-commit-config.yaml").read_text())
EVERY_HOOK: Final = [hook for repo in CONFIG["repos"] for hook in repo["hooks"]]
# The hook of the stage commit-msg checks the message and not the files.
HOOKS: Final = [hook for hook in EVERY_HOOK if hook["stages"] != ["commit-msg"]]
WORKFLOWS: Final = sorted((TOP / ".github" / "workflows").iterdir())


def recipe(target: str) -> list[str]:
    """Return the commands of a target of the Makefile, with the path of its programs."""
    block = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    assert block is not None, target
    return [line.strip().replace("$(BIN)", ".venv/bin") for line in block[1].splitlines()]


def test_the_hooks_run_the_commands_of_make_check() -> None:
    checks = recipe("check")
    assert len(checks) > 5
    assert sorted(hook["entry"] for hook in HOOKS) == sorted(checks)
    assert len({hook["id"] for hook in HOOKS}) == len(HOOKS)


def test_hooks_run_local_programs_on_all_files() -> None:
    assert {repo["repo"] for repo in CONFIG["repos"]} == {"local"}
    for hook in HOOKS:
        assert hook["language"] == "system", hook["id"]
        assert (hook["pass_filenames"], hook["always_run"]) == (False, True), hook["id"]
        assert ".venv/bin/" in hook["entry"]


def test_make_hooks_installs_the_stage_of_each_hook() -> None:
    installed = CONFIG["default_install_hook_types"]
    assert {stage for hook in EVERY_HOOK for stage in hook["stages"]} == set(installed)
    assert all(len(hook["stages"]) == 1 for hook in EVERY_HOOK)
    assert recipe("hooks") == [".venv/bin/pre-commit install"]


def _bin(name: str) -> str:
    return str(Path(sys.executable).parent / name)


def test_pre_commit_accepts_its_configuration() -> None:
    command = [_bin("pre-commit"), "validate-config", str(TOP / ".pre-commit-config.yaml")]
    subprocess.run(command, check=True, capture_output=True, timeout=60)


def test_every_workflow_is_checked() -> None:
    (command,) = [shlex.split(line) for line in recipe("check") if "check-jsonschema" in line]
    assert command[3:] == [str(path.relative_to(TOP)) for path in WORKFLOWS]


# INVALID has replacements in ci.yml that violate the schema of workflows, and UNSAFE those that
# zizmor must report.
INVALID: Final = (("timeout-minutes: 20", "timeout: 20"), ("pull_request:", "pull_requests:"))
UNSAFE: Final = (
    ("permissions: {}", "permissions: write-all"),
    ("persist-credentials: false", "fetch-depth: 1"),
    ("actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1", "actions/checkout@v7"),
)


def test_the_schema_check_finds_invalid_workflows(tmp_path: Path) -> None:
    """All files are checked in one run, because the program starts slowly."""
    (command,) = [shlex.split(line) for line in recipe("check") if "check-jsonschema" in line]
    text = (TOP / ".github" / "workflows" / "ci.yml").read_text()
    (tmp_path / "valid.yml").write_text(text)
    for number, (valid, invalid) in enumerate(INVALID):
        assert valid in text
        (tmp_path / f"invalid{number}.yml").write_text(text.replace(valid, invalid))
    process = subprocess.run(
        [_bin("check-jsonschema"), *command[1:3], *map(str, tmp_path.iterdir())],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    output = process.stdout + process.stderr
    assert process.returncode != 0
    reported = {path.name for path in tmp_path.iterdir() if path.name in output}
    assert reported == {f"invalid{number}.yml" for number in range(len(INVALID))}, output


@pytest.mark.parametrize(("safe", "unsafe"), UNSAFE)
def test_the_linter_of_workflows_reports_unsafe_settings(
    tmp_path: Path, safe: str, unsafe: str
) -> None:
    (command,) = [shlex.split(line) for line in recipe("check") if "zizmor" in line]
    folder = tmp_path / ".github" / "workflows"
    folder.mkdir(parents=True)
    text = (TOP / ".github" / "workflows" / "ci.yml").read_text()
    assert safe in text
    for content, fails in ((text, False), (text.replace(safe, unsafe), True)):
        (folder / "ci.yml").write_text(content)
        process = subprocess.run(
            [_bin("zizmor"), *command[1:]],
            cwd=tmp_path, capture_output=True, timeout=60, check=False,
        )  # fmt: skip
        assert (process.returncode != 0) is fails, (process.stdout, process.stderr)


def _jobs() -> dict[str, Any]:
    return dict(yaml.safe_load((TOP / ".github" / "workflows" / "ci.yml").read_text())["jobs"])


def test_the_workflow_checks_and_tests_on_every_supported_python() -> None:
    project = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
    prefix = "Programming Language :: Python :: "
    supported = [
        text.removeprefix(prefix) for text in project["classifiers"] if text.startswith(prefix)
    ]
    assert project["requires-python"] == f">={supported[0]}"
    jobs = _jobs()
    assert set(jobs) == {"check", "test"}
    for name, job in jobs.items():
        assert job["strategy"]["matrix"]["python"] == supported
        assert job["timeout-minutes"] <= 60
        assert job["steps"][-1]["run"] == f"make {name}"


@pytest.mark.parametrize(
    "source",
    [
        "found = 1",
        "for one in orders: pass",
        "def of(order): pass",
        "def pay(wanted): pass",
        "async def pay(*, _known): pass",
        "with lock() as made: pass",
        "def pay(**given): pass",
        "if (said := read()): pass",
        "[kept for order in orders if (kept := order)]",
    ],
)
def test_a_banned_name_is_reported(source: str) -> None:
    assert len(banned_names(source, "file.py")) == 1


@pytest.mark.parametrize(
    "source",
    ["order = 1", "[one for one in orders]", "{made: 1 for made, _ in pairs}", "order.found = 1"],
)
def test_a_name_is_accepted(source: str) -> None:
    assert banned_names(source, "file.py") == []


def test_a_banned_file_name_is_reported(tmp_path: Path) -> None:
    folder = tmp_path / "src" / "opentill" / "mail"
    folder.mkdir(parents=True)
    for name in ("wording.py", "templates.py"):
        (folder / name).write_text('"""Texts."""\n')
    assert [finding.file for finding in findings(tmp_path)] == ["src/opentill/mail/wording.py"]


@pytest.mark.parametrize(
    "message",
    [
        "Reject a refund that the provider reversed",
        "Bring old Epay numbers back to life\n\nA shop cannot change its number.\n",
        "Pass the reason on\n# a comment of git's\n",
        "Merge branch 'main'",
        "Address-check each redirect",
    ],
)
def test_an_imperative_subject_is_accepted(message: str) -> None:
    assert find_problems(message) == []


@pytest.mark.parametrize(
    "message",
    [
        "",
        "\n\nBody only",
        "A sentence in its lines",
        "What became of all",
        "fix a thing",
        "Fixed a thing",
        "Fixing a thing",
        "Rejects a refund",
        "Reject a refund.",
        "Reject a refund\nthat the provider reversed",
        "Reject " + "a" * 66,
    ],
)
def test_any_other_subject_is_refused(message: str) -> None:
    assert len(find_problems(message)) == 1
