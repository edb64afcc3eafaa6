"""The page of everyday jobs promises that none takes more than three actions."""

from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs/jobs.md"


def test_every_job_takes_at_most_three_actions() -> None:
    rows = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in PAGE.read_text("utf-8").splitlines()
        if line.startswith("| ") and not line.startswith("| job |")
    ]
    assert len(rows) > 100
    for job, how, actions in rows:
        assert how, job
        # A recipe of several steps has no number.
        assert actions in {"1", "2", "3"} or (not actions and "](recipes/" in how), job
