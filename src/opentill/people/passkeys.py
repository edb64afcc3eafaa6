"""Passkeys (WebAuthn): made and used in the browser, checked here by the library ``webauthn``.

Each ceremony begins with a challenge that is stored, counts for five minutes, and once.
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
from opentill.db.database import Tx
from opentill.people import queries
from opentill.people.logins import WrongCredentials
from opentill.people.model import MINUTE_MS, Login, Passkey, Person
from opentill.people.second_factor import actor_of

_CHALLENGE_MS: Final = 5 * MINUTE_MS
_MOST: Final = 20  # of one person
_LONGEST_NAME: Final = 100
_REFUSED: Final = ("credential", "credential must be a passkey that your browser has just made")
# What is raised about text that no browser has made: of other types, or nested without an end.
_UNREADABLE: Final = (
    WebAuthnException, msgspec.DecodeError, AttributeError, LookupError, RecursionError, TypeError,
    ValueError,
)  # fmt: skip


class Site(msgspec.Struct, frozen=True):
    """Where passkeys are made and used: the host they are bound to, and the pages' origin."""

    host: str
    origin: str

    @classmethod
    def of(cls, public_url: str, shown: str) -> "Site | None":
        """Return the site of a deployment, None where browsers make no passkeys.

        They make none for addresses that are numbers. ``shown`` is the Host header: on loopback
        the page has to be open as ``localhost``.
        """
        parts = urlsplit(public_url)
        host = parts.hostname or ""
        try:
            number = ip_address(host)
        except ValueError:
            return cls(host, f"{parts.scheme}://{parts.netloc}")
        local = f"localhost:{parts.port}" if parts.port else "localhost"
        if not number.is_loopback or shown.lower() != local:
            return None
        return cls("localhost", f"{parts.scheme}://{local}")


async def _note(tx: Tx, challenge: bytes, person_id: str | None, now: int) -> None:
    await queries.NOTE_CHALLENGE.run(
        tx, challenge=challenge, person_id=person_id, expires_at=now + _CHALLENGE_MS
    )


async def new_options(tx: Tx, login: Login, site: Site, now: int) -> str:
    """Return, in JSON, what a browser needs to make a passkey for a person."""
    known = await queries.PASSKEYS.all(tx, person_id=login.person_id)
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
        exclude_credentials=[PublicKeyCredentialDescriptor(id=one.credential) for one in known],
    )
    await _note(tx, options.challenge, login.person_id, now)
    return options_to_json(options)


async def add(tx: Tx, login: Login, credential: str, name: str, site: Site, now: int) -> Passkey:
    """Keep a passkey that a browser has made. Raises Invalid for anything else."""
    challenge = _challenge_in(credential)
    used = await queries.USE_CHALLENGE.first(tx, challenge=challenge, now=now)
    if used is None or used.person_id != login.person_id:
        raise Invalid(*_REFUSED)
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
    if not await queries.INSERT_PASSKEY.run(tx, passkey):  # somebody has it already
        raise Invalid(*_REFUSED)
    await queries.STRENGTHEN.run(tx, id=login.id)
    actor, subject = actor_of(login, "on the page about security"), f"{passkey.id} {passkey.name}"
    await merchants.record_audit(tx, actor, "people passkey add", "", subject, now)
    return passkey


async def options(tx: Tx, site: Site, now: int) -> str:
    """Return, in JSON, what a browser needs to log somebody in whose passkey it has."""
    made = generate_authentication_options(
        rp_id=site.host, user_verification=UserVerificationRequirement.REQUIRED
    )
    await _note(tx, made.challenge, None, now)
    return options_to_json(made)


async def use(tx: Tx, credential: str, site: Site, now: int) -> Person:
    """Return the person whose passkey a browser has used. Raises WrongCredentials.

    A passkey that counts its uses and has counted back was copied: it is refused.
    """
    try:
        challenge = _challenge_in(credential)
        raw_id = base64url_to_bytes(msgspec.json.decode(credential)["rawId"])
    except (Invalid, *_UNREADABLE):
        raise WrongCredentials from None
    used = await queries.USE_CHALLENGE.first(tx, challenge=challenge, now=now)
    passkey = await queries.PASSKEY.first(tx, credential=raw_id)
    if used is None or used.person_id is not None or passkey is None:
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
    ):  # it was removed meanwhile
        raise WrongCredentials
    return await queries.PERSON.one(tx, id=passkey.person_id)


async def remove(tx: Tx, login: Login, passkey_id: str, now: int) -> None:
    """Take a passkey away; one that is not there is gone already."""
    # Locked, so that of two last factors that are removed at once one sees that it is the last.
    await queries.LOCKED.first(tx, id=login.person_id)
    if await queries.REMOVE_PASSKEY.run(tx, person_id=login.person_id, id=passkey_id):
        await queries.WEAKEN.run(tx, person_id=login.person_id)
        actor = actor_of(login, "on the page about security")
        await merchants.record_audit(tx, actor, "people passkey remove", "", passkey_id, now)


def _challenge_in(credential: str) -> bytes:
    """Return the challenge that a credential says it is for. Raises Invalid."""
    try:
        client_data = msgspec.json.decode(credential)["response"]["clientDataJSON"]
        return parse_client_data_json(base64url_to_bytes(client_data)).challenge
    except _UNREADABLE:
        raise Invalid(*_REFUSED) from None
