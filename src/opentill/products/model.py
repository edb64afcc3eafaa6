"""What a product is, and its shapes on the wire."""

from typing import Annotated, Literal, Self

import msgspec
from msgspec import UNSET, Meta, UnsetType

from opentill.core import money, structs

Status = Literal["ACTIVE", "ARCHIVED"]

# The length is checked after trimming, so the limits stand in the document only.
Name = Annotated[
    str,
    Meta(
        description="text of 1 to 200 characters",
        extra_json_schema={"minLength": 1, "maxLength": 200, "pattern": r"\S"},
    ),
]
Description = Annotated[str, Meta(max_length=1000, description="text of at most 1000 characters")]
Image = Annotated[
    str,
    Meta(
        max_length=2048,
        description="an absolute http or https URL of at most 2048 characters",
        extra_json_schema={"pattern": r"^[Hh][Tt][Tt][Pp][Ss]?://\S+$"},
    ),
]
Price = Annotated[
    str,
    Meta(
        max_length=32,
        pattern=money.PRICE_PATTERN,
        description="decimal text from 0.01 to 99999999.99 with at most two fraction digits",
    ),
]
Currency = Annotated[
    str, Meta(pattern="^[A-Z]{3}$", description="an active ISO 4217 currency code in capitals")
]
Metadata = Annotated[
    msgspec.Raw,
    Meta(
        description="a JSON object of at most 50 keys of at most 64 characters, 16 KiB in all",
        extra_json_schema={
            "type": ["object", "null"],
            "maxProperties": 50,
            "propertyNames": {"maxLength": 64},
            "additionalProperties": True,
        },
    ),
]
MetadataShown = Annotated[msgspec.Raw, Meta(extra_json_schema={"type": "object"})]


class Product(msgspec.Struct, frozen=True, kw_only=True):
    """A product as it is stored."""

    merchant_id: str
    id: str
    name: str
    description: str
    image: str | None
    price_minor: int
    currency: str
    status: Status
    metadata: str
    created_at: int
    updated_at: int


class Saved(Product, frozen=True, kw_only=True):
    """A product that was just stored, and the currencies to which it lacks an exchange rate."""

    unrated: list[str]


class ProductBody(msgspec.Struct, frozen=True, kw_only=True):
    """The body that creates a product (contract.md#product-fields)."""

    name: Name
    price: Price
    currency: Currency
    description: Description | None = None
    image: Image | None = None
    metadata: Metadata = msgspec.field(default_factory=msgspec.Raw)


class ProductUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """The body that changes a product; what is not sent stays."""

    name: Name | UnsetType = UNSET
    price: Price | UnsetType = UNSET
    currency: Currency | UnsetType = UNSET
    description: Description | UnsetType | None = UNSET
    image: Image | UnsetType | None = UNSET
    metadata: Metadata = msgspec.field(default_factory=msgspec.Raw)


class ProductOut(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is sold (contract.md#product-fields)."""

    id: str
    name: str
    description: str
    image: str | None
    price: str
    currency: str
    status: Status
    metadata: MetadataShown
    created_at: int
    updated_at: int

    @classmethod
    def of(cls, product: Product) -> Self:
        """Show a product."""
        return structs.convert(
            product,
            cls,
            price=money.show(product.price_minor, product.currency),
            metadata=msgspec.Raw(product.metadata.encode()),
        )
