"""The API publishes the merchant services agreement (contract.md#agreement)."""

import hashlib
import re
from datetime import date
from pathlib import Path

import opentill.agreement
from support.api_server import ApiServer, Shop

PATH = "/v1/config/legal/merchant-services-agreement"


def test_the_agreement_needs_no_key_and_is_not_cacheable(api_server: ApiServer, shop: Shop) -> None:
    for headers in ({}, {"x-api-key": "nonsense"}, {"x-api-key": shop.key}):
        response = api_server.http.get(PATH, headers=headers)
        assert response.status_code == 200
        assert response.headers["cache-control"] == "no-store"


def test_digests_and_dates_match_the_document(api_server: ApiServer) -> None:
    data = api_server.http.get(PATH).json()["data"]
    template = Path(opentill.agreement.__file__).parent / f"{data['agreementVersion']}.md"
    assert data["templateSha256"] == hashlib.sha256(template.read_bytes()).hexdigest()
    content = data["markdownContent"].encode()
    assert data["renderedDocumentSha256"] == hashlib.sha256(content).hexdigest()
    assert "{{" not in data["markdownContent"]
    assert api_server.settings.operator_name in data["markdownContent"]
    day = date.fromisoformat(data["effectiveDate"])
    assert data["effectiveDateDisplay"] == f"{day:%B} {day.day}, {day.year}"
    assert re.fullmatch(r"\d+\.\d+", data["agreementVersion"])


def test_the_document_is_a_public_page(api_server: ApiServer) -> None:
    url = api_server.http.get(PATH).json()["data"]["documentUrl"]
    assert url.startswith(api_server.url)
    assert api_server.http.get(url).status_code == 200


def test_reading_the_agreement_does_not_accept_it(api_server: ApiServer, shop: Shop) -> None:
    before = api_server.sql("select * from merchants where id = $1", shop.id)
    shop.get(PATH)
    assert api_server.sql("select * from merchants where id = $1", shop.id) == before
