"""CSV files of pages, as a spreadsheet reads them."""

import codecs
import csv
import io

import httpx2


def rows_of(response: httpx2.Response) -> list[dict[str, str]]:
    """Return the rows of a file, after checking that a spreadsheet sees that it is UTF-8."""
    assert response.headers["content-type"] == "text/csv; charset=utf-8"
    assert response.content.startswith(codecs.BOM_UTF8)
    assert response.content.count(codecs.BOM_UTF8) == 1
    return list(csv.DictReader(io.StringIO(response.content.decode("utf-8-sig"))))
