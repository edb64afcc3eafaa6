"""API tokens of persons: an access token valid for ten minutes, and a refresh token.

The access token is a JWT (RFC 7519) signed with Ed25519, under a key derived from the deployment's.
Each request reads the login that it names, so that ending a login ends its tokens.

A refresh token has two parts: one identifies the login, the other is replaced at each use. A valid
first part with an outdated second part means that the token was stolen, so the login ends.
"""

import base64
import warnings
from typing import Annotated, Final

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from joserfc import jwt
from joserfc.errors import JoseError, SecurityWarning
from joserfc.jwk import OKPKey
from msgspec import Meta

from opentill.core.errors import Invalid, NotFound, NotLoggedIn, NotPermitted
from opentill.db.database import Db, Tx
from opentill.people import logins, queries, visits
from opentill.people.lifetimes import ACCESS_TOKEN_MS
from opentill.people.logins import Credentials, NewLogin, OfApi
from opentill.people.model import Access, Browser, Login, Person, digest, new_token

# RFC 9864 replaces this name with "Ed25519", but clients do not support that yet.
_ALGORITHM: Final = "EdDSA"
_HEADER: Final = {"typ": "JWT", "alg": _ALGORITHM}
_BEGINNING: Final = (
    base64.urlsafe_b64encode(msgspec.json.encode(_HEADER)).rstrip(b"=").decode() + "."
)
warnings.filterwarnings("ignore", "EdDSA is deprecated", SecurityWarning)


class Tokens(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Tokens of a person at a merchant. ``expiresAt`` is the access token's end, in Unix ms."""

    access_token: Annotated[
        str, Meta(description="What `Authorization: Bearer` takes, for ten minutes.")
    ]
    refresh_token: Annotated[
        str,
        Meta(
            description="A token that can be exchanged for new tokens once. "
            "Each refresh returns another one."
        ),
    ]
    expires_at: Annotated[int, Meta(description="When the access token ends, Unix ms.")]


def _key(secret_key: str) -> OKPKey:
    derive = HKDF(SHA256(), length=32, salt=None, info=b"opentill access token 1")
    seed = derive.derive(secret_key.encode())
    public = Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()
    key_parts = {name: base64.urlsafe_b64encode(value).rstrip(b"=").decode()
             for name, value in (("d", seed), ("x", public))}  # fmt: skip
    return OKPKey.import_key({"kty": "OKP", "crv": "Ed25519", **key_parts})


def _access_token(secret_key: str, login_id: str, access: Access, expires_at: int) -> str:
    claims = {
        "sub": access.login.person_id,
        "sid": login_id,
        "mid": access.merchant_id,
        "role": access.role,
        "exp": expires_at // 1000,
    }
    return jwt.encode(dict(_HEADER), claims, _key(secret_key), algorithms=[_ALGORITHM])


def _verify_access_token(secret_key: str, token: str, now: int) -> str:
    """Verify an access token and return its login's id. Raises NotLoggedIn."""
    if not token.startswith(_BEGINNING):  # the library must not see any header but ours
        raise NotLoggedIn
    try:
        claims = jwt.decode(token, _key(secret_key), algorithms=[_ALGORITHM]).claims
    except (JoseError, ValueError):
        raise NotLoggedIn from None
    ends, login_id = claims.get("exp"), claims.get("sid")
    if not isinstance(ends, int) or not isinstance(login_id, str) or now >= ends * 1000:
        raise NotLoggedIn
    return login_id


async def begin(
    db: Db, credentials: Credentials, merchant_id: str | None, secret_key: str, now: int
) -> Tokens:
    """Log a person in at a merchant, which is optional for a member of a single merchant.

    The credentials of a person with a second factor include a code of the authenticator or a
    recovery code. Raises TooManyRequests and WrongCredentials. After the credentials were verified,
    raises Invalid for a merchant that the person is no member of.
    """
    refresh_token = new_token()
    chosen = ""

    async def begin_as(
        tx: Tx, person: Person, browser: Browser, now: int, /, *, strong: bool
    ) -> NewLogin:
        nonlocal chosen
        chosen = await _choose_merchant(tx, person, merchant_id)
        of_api = OfApi(chosen, refresh_token)
        return await logins.begin(tx, person, browser, now, strong=strong, use=of_api)

    login = await logins.log_in(db, credentials, secret_key, now, begin_as)
    return await _tokens(db, login.id, f"{login.token}.{refresh_token}", secret_key, now)


async def _choose_merchant(tx: Tx, person: Person, merchant_id: str | None) -> str:
    """Return the merchant to log in at. Raises Invalid."""
    workplaces = await queries.WORKPLACES.all(tx, person_id=person.id)
    ids = [workplace.merchant_id for workplace in workplaces]
    if merchant_id in ids or (merchant_id is None and len(ids) == 1):
        return merchant_id or ids[0]
    raise Invalid("merchantId", "merchantId must be a merchant that you are a member of")


async def _tokens(db: Db, login_id: str, refresh_token: str, secret_key: str, now: int) -> Tokens:
    async with db.connection() as tx:
        login = await queries.LOGIN_OF_API.first(tx, id=login_id)
    access = await _access(db, login, now)
    expires_at = (now + ACCESS_TOKEN_MS) // 1000 * 1000
    return Tokens(
        access_token=_access_token(secret_key, login_id, access, expires_at),
        refresh_token=refresh_token,
        expires_at=expires_at,
    )


async def _access(db: Db, login: Login | None, now: int) -> Access:
    if login is None or login.merchant_id is None or login.has_ended(now) or login.is_pending:
        raise NotLoggedIn
    try:
        access = await visits.access(db, login, login.merchant_id, now)
    except NotFound:
        raise NotLoggedIn from None
    if access.role is None:  # the person is staff, but no member of the merchant
        raise NotLoggedIn
    return access


async def refresh(db: Db, token: str, browser: Browser, secret_key: str, now: int) -> Tokens:
    """Exchange a refresh token for new tokens. Raises NotLoggedIn.

    A token that was used before ends the login. The login also ends if the person has set up a
    second factor since, which the login has not proved.
    """
    first, _, second = token.partition(".")
    new_secret = new_token()

    async def work(tx: Tx) -> str | None:
        login = await queries.LOCK_REFRESHED.first(tx, token_sha256=digest(first))
        if login is None:
            return None
        is_reused = login.refresh_sha256 != digest(second)
        if is_reused or login.has_ended(now) or login.is_pending:
            await logins.end(tx, login)
            return None
        await queries.REFRESH.run(
            tx, id=login.id, refresh_sha256=digest(new_secret), now=now, address=browser.address
        )
        return login.id

    login_id = await db.run(work)
    if login_id is None:
        raise NotLoggedIn
    return await _tokens(db, login_id, f"{first}.{new_secret}", secret_key, now)


async def find(db: Db, token: str, secret_key: str, address: str, now: int) -> Access:
    """Return the access that an access token gives. Raises NotLoggedIn."""
    login_id = _verify_access_token(secret_key, token, now)
    async with db.connection() as tx:
        login = await queries.LOGIN_OF_API.first(tx, id=login_id)
        if login is not None and not login.has_ended(now) and not login.is_pending:
            await logins.note_use(tx, login, address, now)
    return await _access(db, login, now)


def check_proved(access: Access, now: int) -> None:
    """Raise NotPermitted unless the person proved their identity within ten minutes."""
    if not access.login.is_proved(now):
        raise NotPermitted(
            "session", "session must be at most ten minutes old for this: log in again"
        )
