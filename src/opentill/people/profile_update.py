"""The body of ``PATCH /v1/merchant/profile``."""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType


class ProfileUpdate(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Changes of a merchant's profile: only fields that are sent change; null removes a value."""

    display_name: (
        Annotated[str, Meta(max_length=80, description="the name that customers see")]
        | UnsetType
        | None
    ) = UNSET
    accent_color: (
        Annotated[str, Meta(pattern=r"^#[0-9a-fA-F]{6}\Z", description="a color such as #0d5c49")]
        | UnsetType
        | None
    ) = UNSET
    support_email: (
        Annotated[str, Meta(max_length=254, description="an email address")] | UnsetType | None
    ) = UNSET
    support_url: (
        Annotated[str, Meta(max_length=2048, description="an http or https address")]
        | UnsetType
        | None
    ) = UNSET
    terms_url: (
        Annotated[str, Meta(max_length=2048, description="an http or https address")]
        | UnsetType
        | None
    ) = UNSET
    time_zone: (
        Annotated[
            str, Meta(max_length=64, description="a zone of the IANA database: Europe/Berlin")
        ]
        | UnsetType
    ) = UNSET
    legal_name: (
        Annotated[str, Meta(max_length=120, description="the seller's legal name on receipts")]
        | UnsetType
        | None
    ) = UNSET
    legal_address: (
        Annotated[
            str,
            Meta(
                max_length=400,
                description="the seller's address: up to six lines of at most 60 characters",
            ),
        ]
        | UnsetType
        | None
    ) = UNSET
    tax_number: (
        Annotated[str, Meta(max_length=40, description="the seller's tax number, such as a VAT id")]
        | UnsetType
        | None
    ) = UNSET
    tax_rate: (
        Annotated[
            str,
            Meta(
                pattern=r"^0(\.[0-9]{1,5})?\Z",
                description='the rate of the tax that all prices include, as a share: "0.19"',
            ),
        ]
        | UnsetType
        | None
    ) = UNSET
    version: (
        Annotated[
            str,
            Meta(
                max_length=16,
                description="the `version` of the profile that was read: if it has changed since, "
                "nothing is done",
            ),
        ]
        | UnsetType
    ) = UNSET
