"""Generate ``deploy/grafana/opentill.json`` from the table of panels: `make board`."""

import json
from pathlib import Path
from typing import Any, Final

TARGET: Final = Path(__file__).parents[1] / "deploy" / "grafana" / "opentill.json"
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH: Final = 24
_HEIGHT: Final = 8
# Rows of panels, each with title, unit, width, and the expressions by legend. Metrics that are read
# from the database have the same value on every instance: use `max`. Metrics that processes count
# are added up by `sum`.
ROWS: Final[tuple[tuple[str, tuple[tuple[str, str, int, dict[str, str]], ...]], ...]] = (
    (
        "Payments",
        (
            (
                "Confirmed each minute, by settlement currency",
                "short",
                8,
                {
                    "{{currency}}": "max by (currency)"
                    " (rate(opentill_payments_confirmed_total[$__rate_interval])) * 60"
                },
            ),
            (
                "Success by gateway and method",
                "percentunit",
                8,
                {
                    "{{gateway}} {{method}}": "sum by (gateway, method)"
                    ' (rate(opentill_payment_attempts_total{outcome="succeeded"}[30m])) / sum by'
                    " (gateway, method) (rate(opentill_payment_attempts_total[30m]))"
                },
            ),
            (
                "Attempts by outcome, each minute",
                "short",
                8,
                {
                    "{{outcome}}": "sum by (outcome)"
                    " (rate(opentill_payment_attempts_total[$__rate_interval])) * 60",
                    "started": "sum"
                    " (rate(opentill_payment_attempts_started_total[$__rate_interval])) * 60",
                },
            ),
        ),
    ),
    (
        "Money (minor units, by settlement currency)",
        (
            (
                "Confirmed in 24 hours",
                "short",
                8,
                {
                    "{{currency}}": "max by (currency)"
                    " (increase(opentill_money_confirmed_minor_total[24h]))"
                },
            ),
            (
                "Paid to merchants' own accounts in 24 hours",
                "short",
                8,
                {
                    "{{currency}}": "max by (currency)"
                    " (increase(opentill_money_paid_directly_minor_total[24h]))"
                },
            ),
            (
                "Refunded in 24 hours",
                "short",
                8,
                {"{{currency}}": "max by (currency) (delta(opentill_money_refunded_minor[24h]))"},
            ),
            (
                "Lost to disputes, and fees, so far",
                "short",
                8,
                {
                    "{{currency}} disputes": "max by (currency) (opentill_money_disputed_minor)",
                    "{{currency}} fees": "max by (currency) (opentill_fees_minor)",
                },
            ),
        ),
    ),
    (
        "Gateways",
        (
            (
                "Time for a payment, 95 of 100",
                "s",
                8,
                {
                    "{{gateway}}": "histogram_quantile(0.95, sum by (gateway, le)"
                    ' (rate(opentill_gateway_call_seconds_bucket{operation="pay"}'
                    "[$__rate_interval])))"
                },
            ),
            (
                "Requests by outcome, each minute",
                "short",
                8,
                {
                    "{{gateway}} {{outcome}}": "sum by (gateway, outcome)"
                    " (rate(opentill_gateway_calls_total[$__rate_interval])) * 60"
                },
            ),
            (
                "Payments stuck, disputes unmatched, foreign events, unreadable accounts",
                "short",
                8,
                {
                    "stuck": "max(opentill_orders_stuck)",
                    "unmatched": "max(opentill_disputes_unmatched)"
                    " + max(opentill_refunds_unmatched)",
                    "foreign {{gateway}}": "sum by (gateway)"
                    " (increase(opentill_foreign_gateway_events_total[1h]))",
                    "unreadable {{account}}": "sum by (account)"
                    " (increase(opentill_gateway_account_failures_total[1h]))",
                },
            ),
        ),
    ),
    (
        "Queues and jobs",
        (
            (
                "Age of the oldest row",
                "s",
                8,
                {"{{queue}}": "max by (queue) (opentill_queue_age_seconds)"},
            ),
            (
                "Due now",
                "short",
                8,
                {
                    "attempts": "max(opentill_attempts_due)",
                    "refunds": "max(opentill_refunds_due)",
                    "deliveries": "max(opentill_webhook_deliveries_waiting)",
                    "mails": "max(opentill_mails_waiting)",
                },
            ),
            (
                "Jobs that failed, each hour",
                "short",
                8,
                {
                    "{{kind}}": "sum by (kind)"
                    ' (increase(opentill_jobs_total{outcome!="done"}[1h])) > 0'
                },
            ),
        ),
    ),
    (
        "Requests and webhooks",
        (
            (
                "Requests by status, each second",
                "reqps",
                8,
                {"{{status}}": "sum by (status) (rate(opentill_requests_total[$__rate_interval]))"},
            ),
            (
                "Slowest routes, 95 of 100",
                "s",
                8,
                {
                    "{{route}}": "topk(8, histogram_quantile(0.95, sum by (route, le)"
                    " (rate(opentill_request_seconds_bucket[$__rate_interval]))))"
                },
            ),
            (
                "Deliveries by outcome, each minute",
                "short",
                8,
                {
                    "{{outcome}}": "sum by (outcome)"
                    " (rate(opentill_webhook_deliveries_total[$__rate_interval])) * 60"
                },
            ),
        ),
    ),
    (
        "Books and processes",
        (
            (
                "Violations of the ledger",
                "short",
                8,
                {"violations": "max(opentill_ledger_violations)"},
            ),
            (
                "Entries checked",
                "short",
                8,
                {"entries": "max(opentill_ledger_entries_checked)"},
            ),
            (
                "Versions, database, replica",
                "short",
                8,
                {
                    "{{version}}": "count by (version) (opentill_build_info)",
                    "database up": "min(opentill_database_up)",
                    "replica lag": "max(opentill_replica_lag_seconds)",
                },
            ),
        ),
    ),
)


def build_board() -> dict[str, Any]:
    """Return the dashboard as Grafana imports it."""
    panels: list[dict[str, Any]] = []
    y = 0
    for title, row in ROWS:
        panels.append(
            {
                "id": len(panels) + 1,
                "type": "row",
                "title": title,
                "collapsed": False,
                "gridPos": {"x": 0, "y": y, "w": _WIDTH, "h": 1},
                "panels": [],
            }
        )
        x = 0
        for name, unit, width, expressions in row:
            position = {"x": x, "y": y + 1, "w": width, "h": _HEIGHT}
            panels.append(_panel(len(panels) + 1, name, unit, position, expressions))
            x += width
        y += 1 + _HEIGHT
    return {
        "title": "OpenTill",
        "uid": "opentill",
        "tags": ["opentill", "payments"],
        "editable": True,
        "schemaVersion": 39,
        "version": 1,
        "timezone": "browser",
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {
            "list": [
                {
                    "name": "datasource",
                    "label": "Prometheus",
                    "type": "datasource",
                    "query": "prometheus",
                    "current": {},
                }
            ]
        },
        "annotations": {"list": []},
        "panels": panels,
    }


def _panel(
    number: int, title: str, unit: str, position: dict[str, int], expressions: dict[str, str]
) -> dict[str, Any]:
    return {
        "id": number,
        "type": "timeseries",
        "title": title,
        "datasource": _SOURCE,
        "gridPos": position,
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": _SOURCE,
                "expr": expression,
                "legendFormat": legend,
            }
            for index, (legend, expression) in enumerate(expressions.items())
        ],
    }


def format_board() -> str:
    """Return the content of the file."""
    return json.dumps(build_board(), indent=2) + "\n"


if __name__ == "__main__":
    TARGET.write_text(format_board())
