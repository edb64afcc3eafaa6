"""The agreement: contract.md#agreement."""

import hashlib
import re
from datetime import date
from pathlib import Path

import opentill.agreement
from api import Shop, Till

PATH = "/v1/config/legal/merchant-services-agreement"


def test_it_needs_no_key_and_is_never_stored(till: Till, shop: Shop) -> None:
    for headers in ({}, {"x-api-key": "nonsense"}, {"x-api-key": shop.key}):
        answer = till.http.get(PATH, headers=headers)
        assert answer.status_code == 200
        assert answer.headers["cache-control"] == "no-store"


def test_its_digests_and_dates_are_true(till: Till) -> None:
    data = till.http.get(PATH).json()["data"]
    template = Path(opentill.agreement.__file__).parent / f"{data['agreementVersion']}.md"
    assert data["templateSha256"] == hashlib.sha256(template.read_bytes()).hexdigest()
    content = data["markdownContent"].encode()
    assert data["renderedDocumentSha256"] == hashlib.sha256(content).hexdigest()
    assert "{{" not in data["markdownContent"]
    assert till.settings.operator_name in data["markdownContent"]
    day = date.fromisoformat(data["effectiveDate"])
    assert data["effectiveDateDisplay"] == f"{day:%B} {day.day}, {day.year}"
    assert re.fullmatch(r"\d+\.\d+", data["agreementVersion"])


def test_its_document_is_a_public_page(till: Till) -> None:
    url = till.http.get(PATH).json()["data"]["documentUrl"]
    assert url.startswith(till.url)
    assert till.http.get(url).status_code == 200


def test_reading_it_changes_nothing_for_the_merchant(till: Till, shop: Shop) -> None:
    before = till.sql("select * from merchants where id = $1", shop.id)
    shop.get(PATH)
    assert till.sql("select * from merchants where id = $1", shop.id) == before
