"""Adding a gateway account in the console, and replacing its credentials."""

import re
from collections.abc import Callable, Iterator
from typing import Final

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from console.console_pages import hidden_fields, visible_text
from console.gateway_account_pages import ACCOUNTS, SECRET, AccountsSite, running_site
from opentill.gateways import accounts, registry
from opentill.gateways.accounts import stored_credentials
from opentill.portal.gateway_labels import CREDENTIAL, GATEWAY_TITLE
from opentill.sandbox.alipay import keys
from support.alipay_shop import AlipayShop
from support.epay_v2_bank import EpayV2BankShop, stranger_public_key
from support.people import PASSWORD, TESTER
from support.sandbox_accounts import start_payment

LATER_MS: Final = 11 * 60_000


@pytest.fixture(scope="module")
def site(
    postgres_url: str,
    template: str,
    tmp_path_factory: pytest.TempPathFactory,
    pooler_url: Callable[[str], str],
) -> Iterator[AccountsSite]:
    """The server and bank of this module."""
    directory = tmp_path_factory.mktemp("accounts")
    with running_site(postgres_url, template, directory, pooler_url) as running:
        yield running


@pytest.fixture
def late_site(site: AccountsSite) -> Iterator[AccountsSite]:
    """The site eleven minutes later, when the login proves nothing any more."""
    clock = site.server.app.clock
    site.server.app.clock = lambda: clock() + LATER_MS
    yield site
    site.server.app.clock = clock


def alipay_form(bank: AlipayShop, label: str, **changes: str) -> dict[str, str]:
    """Return the form that adds an account at the bank with Alipay's dialect."""
    return {
        "gateway": "alipay",
        "label": label,
        "mode": "test",
        "suffix": "",
        "credential_app_id": keys.APP_ID,
        "secret_private_key": bank.file("app_private_key.pem"),
        "secret_public_key": bank.file("alipay_public_key.pem"),
        "credential_url": bank.url,
    } | changes


def count_accounts(site: AccountsSite) -> int:
    return len(site.server.tx(accounts.list_accounts))


def test_every_credential_of_a_gateway_has_a_name_on_the_page() -> None:
    names = {
        option.name
        for gateway in registry.account_gateways()
        for option in registry.credential_options(gateway) or ()
    }
    assert names == set(CREDENTIAL)
    assert set(registry.account_gateways()) | {"bank"} == set(GATEWAY_TITLE)


def test_an_account_is_added_once_with_encrypted_credentials(site: AccountsSite) -> None:
    page = site.admin.get(f"{ACCOUNTS}/new?gateway=sandbox")
    form = site.form("New bank", form_id=hidden_fields(page.text)["form_id"])
    results = [site.admin.post(f"{ACCOUNTS}/add", form) for _ in range(2)]  # a double click
    (path,) = {result.headers["location"] for result in results}
    account = site.find(re.findall(r"gat_\w+", path)[0])
    assert (account.label, account.livemode, account.merchant_id) == ("New bank", False, None)
    assert account.id in site.server.app.gateways  # payments can go there at once
    stored = site.server.tx(lambda tx: accounts.find_stored(tx, account.id))
    assert stored_credentials.decrypt(site.server.settings, account.id, stored.credentials) == (
        site.bank.credentials
    )
    assert site.audit(account.id) == [("gateways add", site.admin.audit_name)]
    shown = site.admin.get(path).text
    assert (SECRET in shown, "…bank" in shown, site.bank.url in shown) == (False, True, True)


@pytest.mark.parametrize(
    ("changes", "field", "status"),
    [
        ({"label": ""}, "label", 400),
        ({"label": "x" * 61}, "label", 400),
        ({"secret_secret": ""}, "secret_secret", 400),
        ({"credential_url": ""}, "credential_url", 400),
        ({"merchant": "Nobody"}, "merchant", 400),
        ({"mode": "live"}, "mode", 400),
        ({"secret_secret": "w" * 32}, "secret_secret", 409),
    ],
)
def test_an_account_is_refused_at_its_field_and_secrets_are_not_shown_again(
    site: AccountsSite, changes: dict[str, str], field: str, status: int
) -> None:
    before = count_accounts(site)
    form = site.form("Refused") | changes
    refusal = site.admin.post(f"{ACCOUNTS}/add", form)
    assert refusal.status_code == status
    assert f'id="{field}-error"' in refusal.text or f'href="#{field}"' in refusal.text
    assert f'value="{form["label"]}"' in refusal.text
    assert SECRET not in refusal.text
    assert "w" * 32 not in refusal.text
    assert count_accounts(site) == before


def test_a_provider_that_cannot_be_asked_may_be_left_out(site: AccountsSite) -> None:
    form = site.form("Unasked", secret_secret="w" * 32)
    assert 'name="unchecked"' in site.admin.post(f"{ACCOUNTS}/add", form).text
    assert site.admin.post(f"{ACCOUNTS}/add", form | {"unchecked": "1"}).status_code == 303


def test_a_merchant_may_own_an_account(site: AccountsSite) -> None:
    shop = site.server.create_shop()
    form = site.form("Owned", merchant=shop.id)
    path = site.admin.post(f"{ACCOUNTS}/add", form).headers["location"]
    assert site.find(re.findall(r"gat_\w+", path)[0]).merchant_id == shop.id


def test_alipay_says_which_credential_it_refuses(
    site: AccountsSite, alipay_shop: AlipayShop
) -> None:
    other_key = rsa.generate_private_key(65537, 2048).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    form = alipay_form(alipay_shop, "Wrong key", secret_private_key=other_key.decode())
    refusal = site.admin.post(f"{ACCOUNTS}/add", form)
    assert refusal.status_code == 409
    (error,) = re.findall(
        r'<p class="error" id="secret_private_key-error">(.*?)</p>', refusal.text, re.DOTALL
    )
    assert "isv.invalid-signature" in error
    assert "PRIVATE KEY" not in refusal.text
    for name, text, reason in (
        ("credential_app_id", "x", "must be the number of the application"),
        ("secret_private_key", "nothing", "is not acceptable"),
        ("secret_public_key", "", "must be set"),
        ("credential_seller_id", "2088", "must be the number of an account"),
    ):
        refusal = site.admin.post(f"{ACCOUNTS}/add", alipay_form(alipay_shop, "X", **{name: text}))
        assert refusal.status_code == 400, name
        (error,) = re.findall(
            rf'<p class="error" id="{name}-error">(.*?)</p>', refusal.text, re.DOTALL
        )
        assert reason in error


def test_an_epay_v2_account_is_added_after_the_server_has_shown_it(
    site: AccountsSite, epay_v2_shop: EpayV2BankShop
) -> None:
    """The check is signed by the pasted key, and its response is verified by the other one."""
    page = site.admin.get(f"{ACCOUNTS}/new?gateway=epay_v2").text
    for text in ("Your private key", "The platform’s public key", "Account number"):
        assert text in page, text
    private_key = epay_v2_shop.file("private_key.txt")
    form = {
        "gateway": "epay_v2", "label": "Upstream", "mode": "test", "suffix": "",
        "credential_url": f"{epay_v2_shop.bank_url}/epay_v2/api/pay/create",
        "credential_pid": "1001", "secret_private_key": private_key,
        "secret_public_key": epay_v2_shop.file("platform_public_key.txt"),
    }  # fmt: skip
    for changes, field, status, reason in (
        ({"secret_public_key": stranger_public_key()}, "secret_public_key", 409, "signature"),
        ({"credential_pid": "1002"}, "credential_pid", 409, "RSA签名校验失败"),
        ({"secret_public_key": private_key}, "secret_public_key", 400, "not a private one"),
        ({"secret_private_key": "x"}, "secret_private_key", 400, "your private RSA key"),
    ):
        refusal = site.admin.post(f"{ACCOUNTS}/add", form | changes)
        assert refusal.status_code == status, changes
        pattern = rf'<p class="error" id="{field}-error">(.*?)</p>'
        (error,) = re.findall(pattern, refusal.text, re.DOTALL)
        assert reason in error
        assert private_key[:40] not in refusal.text
    path = site.admin.post(f"{ACCOUNTS}/add", form).headers["location"]
    account = site.find(re.findall(r"gat_\w+", path)[0])
    assert (account.gateway, account.label) == ("epay_v2", "Upstream")
    assert private_key[:40] not in site.admin.get(path).text


def test_a_key_is_accepted_as_files_and_terminals_wrap_it(
    site: AccountsSite, alipay_shop: AlipayShop
) -> None:
    private_key = alipay_shop.file("app_private_key.pem")
    base64 = "".join(line for line in private_key.splitlines() if not line.startswith("-----"))
    wrapped = "\r\n".join(base64[start : start + 60] for start in range(0, len(base64), 60))
    crlf = alipay_shop.file("alipay_public_key.pem").replace("\n", "\r\n")
    form = alipay_form(alipay_shop, "Wrapped", secret_private_key=wrapped, secret_public_key=crlf)
    assert site.admin.post(f"{ACCOUNTS}/add", form).status_code == 303


def test_the_proof_of_identity_comes_before_the_credentials(late_site: AccountsSite) -> None:
    path = f"{ACCOUNTS}/new?gateway=sandbox"
    page = late_site.admin.get(path)
    assert "Confirm that it is you" in page.text
    assert 'name="label"' not in page.text
    confirmed = late_site.admin.post(path, {"proof_password": PASSWORD})
    assert confirmed.headers["location"] == path
    assert 'name="label"' in late_site.admin.get(path).text
    assert late_site.admin.post(f"{ACCOUNTS}/add", late_site.form("Proved")).status_code == 303


def test_the_page_that_asks_for_the_proof_does_not_have_the_credentials(
    late_site: AccountsSite,
) -> None:
    late_site.server.app.clock = lambda clock=late_site.server.app.clock: clock() + LATER_MS
    proof_page = late_site.admin.post(f"{ACCOUNTS}/add", late_site.form("Late"))
    assert "Confirm that it is you" in proof_page.text
    assert SECRET not in proof_page.text
    assert "You will be asked for them again" in visible_text(proof_page.text)
    kept_fields = hidden_fields(proof_page.text)
    assert (kept_fields["label"], kept_fields["credential_url"]) == ("Late", late_site.bank.url)
    form = {**kept_fields, "proof_password": PASSWORD}
    refusal = late_site.admin.post(f"{ACCOUNTS}/add", form)
    assert (refusal.status_code, 'id="secret_secret-error"' in refusal.text) == (400, True)


def test_a_form_whose_login_has_ended_does_not_keep_the_credentials(site: AccountsSite) -> None:
    form = site.form("Logged out", form_person=site.admin.person_id)
    admin = site.staff("admin")
    admin.http.cookies.clear()
    proof_page = admin.post(f"{ACCOUNTS}/add", form)
    assert "Please log in again" in proof_page.text
    assert SECRET not in proof_page.text
    assert hidden_fields(proof_page.text)["label"] == "Logged out"


def test_credentials_are_replaced_after_the_provider_has_accepted_them(site: AccountsSite) -> None:
    account = site.add("Replaced")
    path = f"{ACCOUNTS}/{account.id}/credentials"
    page = site.admin.get(path)
    assert (page.status_code, SECRET in page.text) == (200, False)
    form = {"credential_url": site.bank.url, "secret_secret": "w" * 32}
    refusal = site.admin.post(f"{path}/replace", form)
    assert (refusal.status_code, "w" * 32 in refusal.text) == (409, False)
    missing = site.admin.post(f"{path}/replace", {"secret_secret": SECRET})
    assert (missing.status_code, 'id="credential_url-error"' in missing.text) == (400, True)
    assert site.find(account.id) == account
    replaced = site.admin.post(f"{path}/replace", form | {"secret_secret": SECRET})
    assert replaced.headers["location"] == f"{ACCOUNTS}/{account.id}?done=rotated"
    assert site.find(account.id).previous_until is not None
    assert site.audit(account.id)[-1] == ("gateways rotate", site.admin.audit_name)
    text = visible_text(site.admin.get(replaced.headers["location"]).text)
    assert "The credentials before verify callbacks until" in text


def test_a_new_account_is_tested_by_a_payment_that_only_it_takes(site: AccountsSite) -> None:
    account, shop = site.add("Tested"), site.server.create_shop()
    page = site.admin.get(f"{ACCOUNTS}/{account.id}").text
    assert 'action="/console/gateways/test"' in page
    form = {
        "gateway": account.id, "merchant": shop.id, "amount": "1.50", "currency": "USD",
        "method": "CREDIT_CARD", "form_id": hidden_fields(page)["form_id"],
    }  # fmt: skip
    result_url = site.admin.post("/console/gateways/test", form).headers["location"]
    (session_id,) = re.findall(r"opened=(cs_\w+)", result_url)
    attempt = start_payment(site.server, session_id)
    assert attempt.gateway == account.id
    now = site.server.app.clock()
    site.server.tx(lambda tx: accounts.set_status(tx, account.id, "PAUSED", now, actor=TESTER))
    site.server.run(accounts.load_changes(site.server.app.gateways))
    refusal = site.admin.post("/console/gateways/test", form | {"form_id": ""})
    assert (refusal.status_code, "The account is paused" in refusal.text) == (409, True)
    assert 'action="/console/gateways/test"' not in site.admin.get(f"{ACCOUNTS}/{account.id}").text


def test_a_gateway_that_cannot_have_accounts_leads_to_the_choice(site: AccountsSite) -> None:
    for gateway in ("manual", "nope", ""):
        page = site.admin.get(f"{ACCOUNTS}/new?gateway={gateway}")
        assert page.headers["location"] == f"{ACCOUNTS}#add"
    refused = site.admin.post(f"{ACCOUNTS}/add", site.form("X", gateway="manual"))
    assert refused.headers["location"] == f"{ACCOUNTS}#add"
    assert f'href="{ACCOUNTS}/new?gateway=alipay"' in site.admin.get(ACCOUNTS).text


def test_an_account_of_the_own_sandbox_bank_needs_no_secret_from_the_form(
    site: AccountsSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = msgspec.structs.replace(
        site.server.settings, sandbox_url=site.bank.url, sandbox_secret=SECRET
    )
    monkeypatch.setattr(site.server.app, "settings", own)
    page = site.admin.get(f"{ACCOUNTS}/new?gateway=sandbox").text
    assert f'name="credential_url" type="text" dir="ltr" value="{site.bank.url}"' in page
    assert SECRET not in page
    response = site.admin.post(f"{ACCOUNTS}/add", site.form("Own bank", secret_secret=""))
    (account_id,) = re.findall(r"(gat_\w+)\?done=added$", response.headers["location"])
    stored = site.server.tx(lambda tx: accounts.find_stored(tx, account_id))
    assert stored_credentials.decrypt(own, account_id, stored.credentials)["secret"] == SECRET
    other = site.form("Other bank", credential_url="http://127.0.0.1:1", secret_secret="")
    refusal = site.admin.post(f"{ACCOUNTS}/add", other)
    assert (refusal.status_code, 'id="secret_secret-error"' in refusal.text) == (400, True)
    assert "Enter it again: pages keep no secrets." in visible_text(refusal.text)


def test_a_provider_that_does_not_respond_has_checked_nothing(site: AccountsSite) -> None:
    """The secrets are kept encrypted, and the account can be saved paused."""
    form = site.form("Unreached", credential_url="http://127.0.0.1:9")
    answer = site.admin.post(f"{ACCOUNTS}/add", form)
    text = visible_text(answer.text)
    assert (answer.status_code, "The credentials were not checked" in text) == (502, True)
    assert 'aria-invalid="true"' not in answer.text
    assert SECRET not in answer.text
    hidden = hidden_fields(answer.text)
    without_secret = form | {"secret_secret": "", "secret_encrypted": hidden["secret_encrypted"]}
    saved = site.admin.post(f"{ACCOUNTS}/add", without_secret | {"unchecked": "1"})
    path = saved.headers["location"]
    assert path.endswith("?done=unchecked"), path
    account = site.find(re.findall(r"gat_\w+", path)[0])
    stored = site.server.tx(lambda tx: accounts.find_stored(tx, account.id))
    credentials = stored_credentials.decrypt(site.server.settings, account.id, stored.credentials)
    assert (account.status, credentials["secret"]) == ("PAUSED", SECRET)
    stranger = site.staff("admin")
    refusal = stranger.post(f"{ACCOUNTS}/add", without_secret | {"label": "Stolen"})
    assert (refusal.status_code, 'id="secret_secret-error"' in refusal.text) == (400, True)


def test_the_callback_address_is_shown_before_the_account_exists(site: AccountsSite) -> None:
    page = site.admin.get(f"{ACCOUNTS}/new?gateway=stripe").text
    assert "https://dashboard.stripe.com/webhooks" in page
    (suffix,) = re.findall(r"/gateways/stripe/gat_(\w+)/callback", page)
    form = site.form("Announced", suffix=suffix)
    path = site.admin.post(f"{ACCOUNTS}/add", form).headers["location"]
    assert path == f"{ACCOUNTS}/gat_{suffix}?done=added"
    refusal = site.admin.post(f"{ACCOUNTS}/add", site.form("Forged", suffix="x"))
    assert refusal.status_code == 400
