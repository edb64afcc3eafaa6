"""Reads CSV downloads as a spreadsheet program does."""

import codecs
import csv
import io

import httpx2


def csv_rows(response: httpx2.Response) -> list[dict[str, str]]:
    """Parse a CSV file; assert that it has a byte order mark, which spreadsheets need."""
    assert response.headers["content-type"] == "text/csv; charset=utf-8"
    assert response.content.startswith(codecs.BOM_UTF8)
    assert response.content.count(codecs.BOM_UTF8) == 1
    return list(csv.DictReader(io.StringIO(response.content.decode("utf-8-sig"))))
