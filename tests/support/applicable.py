"""Which tests say nothing about a cluster, and why: one row for each reason.

A run on a cluster (``make test-citus``) shows that the product does there what it does on one
PostgreSQL. What is left out of it is what asks no database, and what is about one server alone.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

import pytest

from support import citus

BEGIN: Final = "not applicable: "
NO_DATABASE: Final = "asks no database, or starts a PostgreSQL of its own"
# Tests by how their names begin, by what they are about.
REASONS: Final[Mapping[str, tuple[str, ...]]] = {
    "the catalogue and plans of one PostgreSQL": (
        "tests/db/test_query_plans.py",
        "tests/figures/test_figures.py::test_reading_a_boundary_uses_one_index_lookup",
        "tests/merchants/test_standing.py::test_what_is_switched_off_is_known",
        "tests/payment_links/test_usage.py::test_sales_of_a_link_are_read",
        "tests/test_owners.py",
        "tests/test_queries.py",
        "tests/test_schema.py",
        "tests/test_spread.py",
    ),
    "the collation of one server's database": (
        "tests/cli/test_doctor.py::test_a_collation_of_a_column",
        "tests/cli/test_doctor.py::test_a_database_made_by_the_recipe",
        "tests/cli/test_doctor.py::test_an_order_of_another_version",
    ),
    "what one server has locked": (
        "tests/cli/test_survey.py::test_what_is_about_all_merchants",
        "tests/db/test_row_locks.py",
    ),
    "copies of merchants by functions and triggers of one server": (
        "tests/db/test_tenant_isolation.py",
    ),
    "pg_dump: a cluster is backed up by restore points": (
        "tests/deploy/test_backup.py",
    ),
    "constraints that a superuser drops, and the SQLSTATE of an error, which Citus keeps back": (
        "tests/ledger/test_check.py::test_the_check_finds_a_corruption",
        "tests/ledger/test_check.py::test_two_connections_report_the_same_violations_of_one_snapshot",
        "tests/ledger/test_check.py::test_the_books_are_consistent_after_a_rollback",
        "tests/ledger/test_postings.py::test_each_movement_of_a_cause_is_posted_once",
        "tests/ledger/test_postings.py::test_the_database_refuses_every_other",
    ),
    "batches of several merchants: there a batch is one merchant's": (
        "tests/ledger/test_postings.py::test_posting_to_many_books_at_once_equals_posting_one_by_one",
        "tests/orders/payments/test_confirmation.py::test_together_is_as_alone",
        "tests/orders/payments/test_confirmation.py::test_what_is_not_usual_is_left_as_it_was",
    ),
    "a trigger is switched off, which Citus refuses": (
        "tests/adjustments/test_audit.py::test_tampering_is_reported[statements16",
        "tests/ledger/test_statement.py::test_a_download_of_inconsistent_books_is_aborted",
        "tests/orders/test_retention.py::test_a_gap_in_young_history",
        "tests/orders/test_retention.py::test_a_process_may_begin",
        "tests/orders/test_retention.py::test_an_order_that_changes_after",
        "tests/orders/test_retention.py::test_each_turn_reads_some",
        "tests/orders/test_retention.py::test_old_history_goes",
        "tests/orders/test_retention.py::test_the_database_lets_only_old_rows",
        "tests/orders/test_retention.py::test_time_moved_ahead",
        "tests/orders/test_retention.py::test_what_older_versions_left",
    ),
    "a trigger of the test's own, which Citus refuses": (
        "tests/epay/test_refunds.py::test_the_epay_gateway_reports_errors_as_unknown_and_limits_as_unreachable",
        "tests/epay/test_refunds.py::test_a_failure_before_the_commit_leaves_no_refund",
        "tests/gateways/test_bank_faults.py::test_a_row_that_raises",
    ),
    "partitions of one PostgreSQL's tables": (
        "tests/db/test_partitions.py",
    ),
    "a database without Citus": (
        "tests/db/test_distribution.py::test_one_machine_is_told_what_is_missing",
    ),
    "an address that is the path of a socket": (
        "tests/cli/test_running.py::test_migrate_waits_for_the_database",
    ),
    "a pooler, or what one connection is told": (
        "tests/db/test_pooler.py",
        "tests/db/test_database.py",
        "tests/db/test_query.py",
    ),
    "serializable transactions: Citus promises them for one node alone": (
        "tests/db/test_serializable.py",
    ),
    "the bench and its figures": (
        "tests/test_benchmarks.py",
    ),
}  # fmt: skip


def mark(items: Iterable[pytest.Item]) -> None:
    """Skip what is not applicable, with its reason."""
    for item in items:
        if (reason := _reason(item)) is not None:
            item.add_marker(pytest.mark.skip(reason=BEGIN + reason))


def _reason(item: pytest.Item) -> str | None:
    for reason, names in REASONS.items():
        if item.nodeid.startswith(names):
            return reason
    fixtures: list[str] = getattr(item, "fixturenames", [])
    if "postgres_url" in fixtures or citus.needed.mark in item.iter_markers():
        return None
    return NO_DATABASE


def summarize(reporter: pytest.TerminalReporter) -> None:
    """Write the reasons, and how many tests each has left out."""
    reasons = (report.longrepr[2] for report in reporter.stats.get("skipped", ()))
    counts = Counter(
        reason.removeprefix("Skipped: ").removeprefix(BEGIN)
        for reason in reasons
        if BEGIN in reason
    )
    if not counts:
        return
    reporter.section("not applicable on a cluster")
    for reason, count in counts.most_common():
        reporter.line(f"{count:6}  {reason}")
