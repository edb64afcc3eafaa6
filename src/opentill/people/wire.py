"""Requests and responses of ``/v1/merchant/…``."""

from typing import Annotated, Any, Literal, Self

import msgspec
from msgspec import Meta

from opentill import agreement, merchants
from opentill.core.settings import Environment
from opentill.http.fields import CreatedAt, DecimalText
from opentill.http.paging import Millis, PageQuery
from opentill.merchants import Key, Merchant, NewKey, version_of
from opentill.people.model import Access, Link, Member
from opentill.people.permissions import MerchantRole, Permission

Role = Annotated[MerchantRole, Meta(description="owner, finance, support, developer or viewer")]
Email = Annotated[str, Meta(max_length=254, description="an email address")]
Token = Annotated[str, Meta(max_length=200, description="as it was given")]


class LoginBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The credentials with which a person logs in."""

    email: Email
    password: Annotated[str, Meta(max_length=256, description="the person's password")]
    code: Annotated[
        str, Meta(max_length=40, description="of the authenticator, or a recovery code")
    ] = ""
    merchant_id: (
        Annotated[str, Meta(description="the id of a merchant that the person is a member of")]
        | None
    ) = None


class RefreshBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A refresh token, which works only once."""

    refresh_token: Token


class CapabilityOut(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Whether the merchant may do something: open sessions, refund, be paid out."""

    capability: Annotated[
        merchants.Capability,
        Meta(
            description="`charge` opens sessions and takes payments, `refund` refunds them, "
            "`payout` sends the available balance to the merchant's bank."
        ),
    ]
    on: Annotated[bool, Meta(description="Whether the merchant may do it.")]
    reason: Annotated[
        str | None, Meta(description="Why it is off, in the operator's words. Null while it is on.")
    ]


class Profile(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Who is logged in, at which merchant, and what they may do there."""

    person_id: Annotated[str, Meta(description="The id of the person who is logged in.")]
    email: Annotated[str, Meta(description="The person's email address, in lower case.")]
    name: Annotated[str, Meta(description="The person's name.")]
    role: Role
    permissions: Annotated[
        list[Permission], Meta(description="What the person may do at this merchant.")
    ]
    merchant_id: Annotated[str, Meta(description="The id of the merchant that the token is for.")]
    merchant_name: Annotated[str, Meta(description="The merchant's name.")]
    display_name: Annotated[
        str | None, Meta(description="The name that customers see. Null: the merchant's name.")
    ]
    accent_color: Annotated[
        str | None, Meta(description="The color of buttons on the payment page: `#rrggbb`.")
    ]
    logo_url: Annotated[
        str | None, Meta(description="The address of the logo. Null if there is none.")
    ]
    support_email: Annotated[
        str | None, Meta(description="The email address that customers see for help.")
    ]
    support_url: Annotated[str | None, Meta(description="The page that customers see for help.")]
    terms_url: Annotated[str | None, Meta(description="The merchant's terms for customers.")]
    time_zone: Annotated[
        str, Meta(description="The zone of the days and times on the merchant's pages.")
    ]
    legal_name: Annotated[
        str | None, Meta(description="The seller's legal name on receipts. Null: none is shown.")
    ]
    legal_address: Annotated[
        str | None, Meta(description="The seller's address on receipts, up to six lines.")
    ]
    tax_number: Annotated[
        str | None, Meta(description="The seller's tax number on receipts, such as a VAT id.")
    ]
    tax_rate: Annotated[
        DecimalText | None,
        Meta(
            description='The rate of the tax that all prices include, as a share such as `"0.19"`. '
            "Null: receipts show no tax."
        ),
    ]
    version: Annotated[
        str,
        Meta(
            description="The version of the profile. Send it with a change, so that it is refused "
            "if the profile has changed."
        ),
    ]
    agreement_status: Annotated[
        agreement.AgreementStatus,
        Meta(
            description="`ACCEPTED` if the version in force was accepted, `OUTDATED` if only an "
            "earlier one was, `NONE` if none was."
        ),
    ]
    status: Annotated[
        merchants.Status,
        Meta(
            description="The merchant's status. `SUSPENDED`: the operator has stopped it for "
            "now. Members of a closed merchant no longer log in to it."
        ),
    ]
    capabilities: Annotated[
        list[CapabilityOut], Meta(description="What the merchant may do, and why not.")
    ]

    @classmethod
    def from_access(
        cls, access: Access, merchant: Merchant, status: agreement.AgreementStatus, url: str
    ) -> Self:
        """Build the profile; ``url`` is the public URL."""
        return cls(
            person_id=access.login.person_id,
            email=access.login.email,
            name=access.login.name,
            role=access.role or "viewer",  # never None here, because only members have tokens
            permissions=access.permissions,
            merchant_id=merchant.id,
            merchant_name=merchant.name,
            display_name=merchant.display_name,
            accent_color=merchant.accent_color,
            logo_url=merchant.logo_path and url.rstrip("/") + merchant.logo_path,
            support_email=merchant.support_email,
            support_url=merchant.support_url,
            terms_url=merchant.terms_url,
            time_zone=merchant.time_zone,
            legal_name=merchant.legal_name,
            legal_address=merchant.legal_address,
            tax_number=merchant.tax_number,
            tax_rate=merchant.tax_rate,
            version=version_of(merchant),
            agreement_status=status,
            status=merchant.status,
            capabilities=[
                CapabilityOut(
                    capability=capability,
                    on=merchant.off(capability) is None,
                    reason=merchant.off(capability),
                )
                for capability in merchants.CAPABILITIES
            ],
        )


KeyScopes = Annotated[
    list[str] | None,
    Meta(description="What it may do, by scope. Null if it may do everything."),
]


class KeyOut(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An API key, without the key itself: its beginning and its last four characters."""

    id: Annotated[str, Meta(description="The id of the key, which is not secret.")]
    name: Annotated[str, Meta(description="The name that it was given, or an empty text.")]
    hint: Annotated[str, Meta(description="The beginning of the key and its last four characters.")]
    environment: Annotated[Environment, Meta(description="The environment that the key is for.")]
    created_at: CreatedAt
    expires_at: Annotated[
        int | None, Meta(description="When it ends, Unix ms. Null if it has no end.")
    ]
    revoked_at: Annotated[
        int | None, Meta(description="When it was revoked, Unix ms. Null if it was not.")
    ]
    last_used_at: Annotated[
        int | None,
        Meta(
            description="When it was last used, Unix ms, to the minute. A use shows within two"
            " minutes. Null if it was never used."
        ),
    ]
    scopes: KeyScopes
    made_by: Annotated[
        str | None,
        Meta(
            description="The id of the person who made it. Null if the operator did, or nobody"
            " knows."
        ),
    ]

    @classmethod
    def from_key(cls, key: Key) -> Self:
        """Build the response from a key."""
        return cls(
            id=key.id,
            name=key.name,
            hint=key.hint,
            environment=key.environment,
            created_at=key.created_at,
            expires_at=key.expires_at,
            revoked_at=key.revoked_at,
            last_used_at=key.last_used_at,
            scopes=key.scopes,
            made_by=key.made_by,
        )


class KeysQuery(PageQuery, frozen=True, kw_only=True, rename="camel"):
    """The filters of the list of API keys."""

    made_by: (
        Annotated[str, Meta(description="the id of a person: only keys that they made")] | None
    ) = None


class RemovalQuery(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What else ends when a member is removed."""

    revoke_keys: Annotated[
        bool, Meta(description="true: the valid API keys that they made are revoked too")
    ] = False


class Replacement(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How an API key is replaced."""

    overlap_hours: Annotated[
        Literal[0, 1, 24, 72, 168],
        Meta(description="the hours for which the old key remains valid: 0, 1, 24, 72 or 168"),
    ] = 0


class KeyBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The body that makes an API key."""

    name: Annotated[str, Meta(max_length=100, description="a text of at most 100 characters")] = ""
    expires_at: Annotated[Millis, Meta(description="the key's end, in Unix ms")] | None = None
    scopes: (
        Annotated[
            list[str],
            Meta(min_length=1, max_length=64, description="a list of scopes, such as orders:read"),
        ]
        | None
    ) = None


class KeyUpdate(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Changes of an API key."""

    name: Annotated[
        str, Meta(max_length=100, description="a text of at most 100 characters, empty for none")
    ]


class LogoBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A logo: a PNG, JPEG or WebP picture."""

    content: Annotated[
        str,
        Meta(
            max_length=64_000,
            description="the picture in base64 (RFC 4648, section 4): at most 48,000 bytes of it."
            " A larger one, up to 256 kB, is uploaded in the dashboard",
        ),
    ]


class KeyWithSecret(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A new API key; ``key`` is shown this once."""

    id: Annotated[str, Meta(description="The id of the key, which is not secret.")]
    name: Annotated[str, Meta(description="The name that it was given, or an empty text.")]
    key: Annotated[str, Meta(description="The key itself. It is shown only here.")]
    expires_at: Annotated[
        int | None, Meta(description="When it ends, Unix ms. Null if it has no end.")
    ]
    scopes: KeyScopes

    @classmethod
    def from_key(cls, new: NewKey) -> Self:
        """Build the response from a new key."""
        return cls(
            id=new.id, name=new.name, key=new.key, expires_at=new.expires_at, scopes=new.scopes
        )


class MemberOut(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A member of the merchant's team. ``id`` is the id of the person."""

    id: Annotated[str, Meta(description="The id of the person.")]
    email: Annotated[str, Meta(description="The person's email address, in lower case.")]
    name: Annotated[str, Meta(description="The person's name.")]
    role: Role
    created_at: Annotated[int, Meta(description="When the person became a member, Unix ms.")]

    @classmethod
    def from_member(cls, member: Member) -> Self:
        """Build the response from a member."""
        return cls(
            id=member.person_id,
            email=member.email,
            name=member.name,
            role=member.role,
            created_at=member.created_at,
        )


class MemberUpdate(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A member's new role, and whether the API keys beyond it end."""

    role: Role
    revoke_keys: Annotated[
        bool,
        Meta(
            description="true: the valid API keys that they made and that may do more than the"
            " new role are revoked too"
        ),
    ] = False


class InvitationBody(msgspec.Struct, frozen=True, kw_only=True):
    """The email address of the person to invite, and their role."""

    email: Email
    role: Role


class InvitationOut(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An invitation that can still be accepted."""

    id: Annotated[str, Meta(description="The id of the invitation.")]
    email: Annotated[str, Meta(description="The email address that was invited, in lower case.")]
    role: Role
    created_at: CreatedAt
    expires_at: Annotated[int, Meta(description="Until when it can be accepted, Unix ms.")]

    @classmethod
    def from_link(cls, link: Link) -> Self:
        """Build the response from an invitation to a merchant."""
        return cls(**_invitation_fields(link))


class InvitationWithUrl(InvitationOut, frozen=True, kw_only=True, rename="camel"):
    """A new invitation; ``url`` is shown this once, for the person who is invited."""

    url: Annotated[
        str | None,
        Meta(
            description="The link that accepts the invitation, once. It is shown only here. Null "
            "where it is mailed: only the person who is invited sees it then."
        ),
    ]

    @classmethod
    def new(cls, link: Link, url: str | None) -> Self:
        """Build the response from a new invitation and its URL."""
        return cls(**_invitation_fields(link), url=url)


def _invitation_fields(link: Link) -> dict[str, Any]:
    names = ("id", "email", "role", "created_at", "expires_at")
    return {name: getattr(link, name) for name in names}


class AcceptanceBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Which document is accepted: exactly the one that was read."""

    rendered_document_sha256: Annotated[
        str,
        Meta(
            max_length=64,
            description="`renderedDocumentSha256` of the agreement that was read",
        ),
    ] = msgspec.field(name="renderedDocumentSha256")


class AcceptanceOut(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Which version of the agreement was accepted: what, by whom, when and from where."""

    agreement_version: Annotated[
        str, Meta(description="The version of the agreement that was accepted.")
    ]
    template_sha256: Annotated[
        str,
        Meta(
            description="The digest of the template, before the operator's name and address were "
            "filled in."
        ),
    ] = msgspec.field(name="templateSha256")
    rendered_document_sha256: Annotated[
        str, Meta(description="The digest of the document that was read and accepted.")
    ] = msgspec.field(name="renderedDocumentSha256")
    person_id: Annotated[str, Meta(description="The id of the person who accepted it.")]
    person: Annotated[
        str, Meta(description="Name and email address of that person, as they were then.")
    ]
    accepted_at: Annotated[int, Meta(description="When it was accepted, Unix ms.")]
    address: Annotated[str, Meta(description="The IP address that it was accepted from.")]
    user_agent: Annotated[
        str,
        Meta(description="The `User-Agent` of the browser or program that it was accepted with."),
    ]

    @classmethod
    def from_acceptance(cls, acceptance: agreement.Acceptance) -> Self:
        """Build the response from an acceptance."""
        return cls(
            agreement_version=acceptance.agreement_version,
            template_sha256=acceptance.template_sha256,
            rendered_document_sha256=acceptance.document_sha256,
            person_id=acceptance.person_id,
            person=acceptance.person,
            accepted_at=acceptance.accepted_at,
            address=acceptance.address,
            user_agent=acceptance.device,
        )
