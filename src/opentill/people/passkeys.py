"""Passkeys (WebAuthn): created and used in the browser, verified by the library ``webauthn``.

Each ceremony begins with a challenge that is valid once, for five minutes. It is stored for its
person; the challenge of a login with only a passkey is signed instead (``login_challenges``).
"""

from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

import msgspec
from webauthn import (
    generate_authentication_options,
    generate_registration_options,
    options_to_json,
    verify_authentication_response,
    verify_registration_response,
)
from webauthn.helpers import base64url_to_bytes, parse_client_data_json
from webauthn.helpers.exceptions import WebAuthnException
from webauthn.helpers.structs import (
    AuthenticatorSelectionCriteria,
    PublicKeyCredentialDescriptor,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from opentill import merchants
from opentill.core.errors import Invalid
from opentill.core.ids import new_id
from opentill.db.database import Db, Tx
from opentill.people import login_challenges, logins, lost_factors, queries, second_factor
from opentill.people.lifetimes import CHALLENGE_MS
from opentill.people.logins import NewLogin, Proof, WrongCredentials
from opentill.people.model import (
    Browser,
    Challenge,
    Login,
    Passkey,
    Person,
    new_token,
)
from opentill.people.second_factor import actor_of

_MOST: Final = 20  # a person may have this many passkeys
_LONGEST_NAME: Final = 100
_REFUSED: Final = ("credential", "credential must be a passkey that your browser has just made")
# These are raised for credentials that no browser produces, such as wrong types or deep nesting.
_UNREADABLE: Final = (
    WebAuthnException, msgspec.DecodeError, AttributeError, LookupError, RecursionError, TypeError,
    ValueError,
)  # fmt: skip


class Site(msgspec.Struct, frozen=True):
    """The host that passkeys are bound to, and the origin of the pages."""

    host: str
    origin: str

    @classmethod
    def from_url(cls, public_url: str, requested_host: str) -> "Site | None":
        """Return the site of a deployment, None if browsers create no passkeys for it.

        They create none for IP addresses. On loopback the page must be open as ``localhost``,
        as the Host header ``requested_host`` shows.
        """
        parts = urlsplit(public_url)
        host = parts.hostname or ""
        try:
            address = ip_address(host)
        except ValueError:
            return cls(host, f"{parts.scheme}://{parts.netloc}")
        local = f"localhost:{parts.port}" if parts.port else "localhost"
        if not address.is_loopback or requested_host.lower() != local:
            return None
        return cls("localhost", f"{parts.scheme}://{local}")


async def _store_challenge(tx: Tx, challenge: bytes, person_id: str, now: int) -> None:
    await queries.INSERT_CHALLENGE.run(
        tx, challenge=challenge, person_id=person_id, expires_at=now + CHALLENGE_MS
    )


async def new_options(tx: Tx, login: Login, site: Site, now: int) -> str:
    """Return the JSON options with which a browser creates a passkey for a person."""
    await second_factor.lock_for_change(tx, login)
    passkeys = await queries.PASSKEYS.all(tx, person_id=login.person_id)
    options = generate_registration_options(
        rp_id=site.host,
        rp_name="OpenTill",
        user_id=login.person_id.encode(),
        user_name=login.email,
        user_display_name=login.name,
        authenticator_selection=AuthenticatorSelectionCriteria(
            resident_key=ResidentKeyRequirement.REQUIRED,
            user_verification=UserVerificationRequirement.REQUIRED,
        ),
        exclude_credentials=[
            PublicKeyCredentialDescriptor(id=passkey.credential) for passkey in passkeys
        ],
    )
    await _store_challenge(tx, options.challenge, login.person_id, now)
    return options_to_json(options)


async def _use_challenge(db: Db, challenge: bytes, now: int) -> Challenge | None:
    """Consume a challenge, even if its response turns out invalid. None if it does not exist."""
    return await db.run(lambda tx: queries.USE_CHALLENGE.first(tx, challenge=challenge, now=now))


async def add(db: Db, login: Login, credential: str, name: str, site: Site, now: int) -> list[str]:
    """Store a new passkey; return recovery codes if it is the person's first factor.

    Raises Invalid for an invalid credential, and NotLoggedIn like ``second_factor.begin``.
    """
    challenge = _read_challenge(credential)
    stored_challenge = await _use_challenge(db, challenge, now)
    if stored_challenge is None or stored_challenge.person_id != login.person_id:
        raise Invalid(*_REFUSED)
    return await db.run(lambda tx: _add(tx, login, credential, challenge, name, site, now))


async def _add(
    tx: Tx, login: Login, credential: str, challenge: bytes, name: str, site: Site, now: int
) -> list[str]:
    await second_factor.lock_for_change(tx, login)
    is_first = not await queries.HAS_FACTOR.get(tx, id=login.person_id)
    if len(await queries.PASSKEYS.all(tx, person_id=login.person_id)) >= _MOST:
        raise Invalid("credential", f"credential must be one of at most {_MOST} passkeys")
    try:
        verified = verify_registration_response(
            credential=credential,
            expected_challenge=challenge,
            expected_rp_id=site.host,
            expected_origin=site.origin,
            require_user_verification=True,
        )
    except _UNREADABLE:
        raise Invalid(*_REFUSED) from None
    passkey = Passkey(
        id=new_id("pk"),
        person_id=login.person_id,
        credential=verified.credential_id,
        public_key=verified.credential_public_key,
        sign_count=verified.sign_count,
        name=name.strip()[:_LONGEST_NAME] or "Passkey",
        created_at=now,
        used_at=None,
    )
    if not await queries.INSERT_PASSKEY.run(tx, passkey):  # the passkey is already registered
        raise Invalid(*_REFUSED)
    await queries.STRENGTHEN.run(tx, id=login.id)
    actor, subject = actor_of(login, "on the page about security"), f"{passkey.id} {passkey.name}"
    await merchants.record_audit(tx, actor, "people passkey add", "", subject, now)
    return await second_factor.new_codes(tx, login.person_id) if is_first else []


def login_options(site: Site, secret_key: str, now: int) -> str:
    """Return the JSON options with which a browser logs somebody in by passkey."""
    request_options = generate_authentication_options(
        rp_id=site.host,
        challenge=login_challenges.create(secret_key, now),
        user_verification=UserVerificationRequirement.REQUIRED,
    )
    return options_to_json(request_options)


async def options(tx: Tx, site: Site, now: int, person_id: str) -> str:
    """Return the JSON options with which a person proves their identity by passkey."""
    passkeys = await queries.PASSKEYS.all(tx, person_id=person_id)
    request_options = generate_authentication_options(
        rp_id=site.host,
        user_verification=UserVerificationRequirement.REQUIRED,
        allow_credentials=[
            PublicKeyCredentialDescriptor(id=passkey.credential) for passkey in passkeys
        ]
        or None,
    )
    await _store_challenge(tx, request_options.challenge, person_id, now)
    return options_to_json(request_options)


async def log_in(
    db: Db, credential: str, site: Site, browser: Browser, secret_key: str, now: int
) -> NewLogin:
    """Log in the person whose passkey was used. Raises WrongCredentials."""
    challenge = await _login_challenge(db, credential, secret_key, now)

    async def work(tx: Tx) -> NewLogin:
        person = await _verify_assertion(tx, credential, challenge, site, now)
        return await logins.begin(tx, person, browser, now, strong=True)

    return await db.run(work)


async def prove(db: Db, login: Login, credential: str, site: Site, now: int) -> Proof:
    """Verify that a login's person used one of their passkeys, and give the login a new token.

    Raises WrongCredentials, and NotLoggedIn if the login has ended meanwhile.
    """
    challenge, token = await _challenge_for(db, credential, login.person_id, now), new_token()

    async def work(tx: Tx) -> Proof:
        person = await _verify_assertion(tx, credential, challenge, site, now, login.person_id)
        if person.id != login.person_id:  # the passkey belongs to another person
            raise WrongCredentials
        await logins.renew(tx, login, token, now, strong=True)
        return Proof(person, token)

    return await db.run(work)


async def prove_person(db: Db, person_id: str, credential: str, site: Site, now: int) -> None:
    """Verify that a person used one of their passkeys. Raises WrongCredentials."""
    challenge = await _challenge_for(db, credential, person_id, now)
    person = await db.run(
        lambda tx: _verify_assertion(tx, credential, challenge, site, now, person_id)
    )
    if person.id != person_id:
        raise WrongCredentials


async def _login_challenge(db: Db, credential: str, secret_key: str, now: int) -> bytes:
    """Consume the challenge of a login with a passkey. Raises WrongCredentials.

    A challenge with an unknown passkey is not stored: it leads to no login, and an attacker
    could fill the table.
    """
    try:
        challenge = _read_challenge(credential)
        raw_id = base64url_to_bytes(msgspec.json.decode(credential)["rawId"])
    except (Invalid, *_UNREADABLE):
        raise WrongCredentials from None
    expires_at = login_challenges.expires_at(secret_key, challenge, now)
    if expires_at is None:
        raise WrongCredentials

    async def work(tx: Tx) -> bool:
        if await queries.PASSKEY.first(tx, credential=raw_id) is None:
            return False
        digest = login_challenges.used_digest(challenge)
        return (
            await queries.INSERT_USED_CHALLENGE.run(tx, challenge=digest, expires_at=expires_at) > 0
        )

    if not await db.run(work):
        raise WrongCredentials
    return challenge


async def _challenge_for(db: Db, credential: str, person_id: str, now: int) -> bytes:
    """Consume the stored challenge that was issued to a person. Raises WrongCredentials."""
    try:
        challenge = _read_challenge(credential)
    except Invalid:
        raise WrongCredentials from None
    stored_challenge = await _use_challenge(db, challenge, now)
    if stored_challenge is None or stored_challenge.person_id != person_id:
        raise WrongCredentials
    return challenge


async def _verify_assertion(
    tx: Tx, credential: str, challenge: bytes, site: Site, now: int, person_id: str | None = None
) -> Person:
    """Verify an assertion, and lock and return the passkey's person. Raises WrongCredentials.

    ``person_id`` is the person who was asked; without it the passkey's user handle identifies
    the person. A signature counter that went backwards means a cloned passkey, which is refused.
    """
    try:
        decoded = msgspec.json.decode(credential)
        raw_id = base64url_to_bytes(decoded["rawId"])
        user_handle = decoded["response"].get("userHandle")
        owner = None if user_handle is None else base64url_to_bytes(user_handle).decode()
    except _UNREADABLE:
        raise WrongCredentials from None
    passkey = await queries.PASSKEY.first(tx, credential=raw_id)
    if passkey is None or (owner or person_id) != passkey.person_id:
        raise WrongCredentials
    # Lock the person's row, as operations do that end all passkeys and logins of a person.
    person = await queries.LOCKED.first(tx, id=passkey.person_id)
    if person is None or await lost_factors.suspended_until(tx, person.id) is not None:
        raise WrongCredentials
    try:
        verified = verify_authentication_response(
            credential=credential,
            expected_challenge=challenge,
            expected_rp_id=site.host,
            expected_origin=site.origin,
            credential_public_key=passkey.public_key,
            credential_current_sign_count=passkey.sign_count,
            require_user_verification=True,
        )
    except _UNREADABLE:
        raise WrongCredentials from None
    if not await queries.SET_PASSKEY_USED.run(
        tx, id=passkey.id, sign_count=verified.new_sign_count, now=now
    ):  # the passkey was removed meanwhile
        raise WrongCredentials
    await lost_factors.stop_by_proof(tx, person, now)
    return person


async def remove(
    tx: Tx, login: Login, passkey_id: str, now: int, *, keep_one: bool = False
) -> None:
    """Remove a passkey. Idempotent.

    Raises LastFactor if ``keep_one`` and it is the last factor.
    """
    # Without this lock, two concurrent removals could remove the last two factors.
    await second_factor.lock_for_change(tx, login)
    if await queries.REMOVE_PASSKEY.run(tx, person_id=login.person_id, id=passkey_id):
        await second_factor.delete_unused_codes(tx, login, keep_one=keep_one)
        actor = actor_of(login, "on the page about security")
        await merchants.record_audit(tx, actor, "people passkey remove", "", passkey_id, now)


def _read_challenge(credential: str) -> bytes:
    """Return the challenge that a credential responds to. Raises Invalid."""
    try:
        client_data = msgspec.json.decode(credential)["response"]["clientDataJSON"]
        return parse_client_data_json(base64url_to_bytes(client_data)).challenge
    except _UNREADABLE:
        raise Invalid(*_REFUSED) from None
