"""Products and their representation in the API."""

from typing import Annotated, Literal, Self

import msgspec
from msgspec import UNSET, Meta, UnsetType

from opentill.core import money, structs
from opentill.core.errors import Invalid
from opentill.http import inputs
from opentill.http.fields import CreatedAt, DecimalText, MetadataShown, UpdatedAt, meaning

Status = Literal["ACTIVE", "ARCHIVED"]

# These limits only appear in the API document. The code checks the length after trimming the text.
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
        extra_json_schema={"pattern": inputs.URL_PATTERN},
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
    str, Meta(pattern=r"^[A-Z]{3}\Z", description="an active ISO 4217 currency code in capitals")
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


class Product(msgspec.Struct, frozen=True, kw_only=True):
    """A stored product."""

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


class StoredImage(msgspec.Struct, frozen=True, kw_only=True):
    """An uploaded image: the file, its type, and its size in pixels."""

    merchant_id: str
    sha256: str
    media_type: str
    width: int
    height: int
    content: bytes
    created_at: int


class Outdated(Invalid):
    """The product has changed since the caller read it; nothing was written."""

    def __init__(self) -> None:
        """Report the field ``version``."""
        super().__init__("version", "version must be that of the product as it is now")


class Saved(Product, frozen=True, kw_only=True):
    """A product after a write, with the currencies for which an exchange rate is missing."""

    unrated: list[str]


class ProductBody(msgspec.Struct, frozen=True, kw_only=True):
    """The body that creates a product (contract.md#product-fields)."""

    name: Annotated[
        Name, meaning("What the customer reads on the payment page: 1 to 200 characters.")
    ]
    price: Annotated[
        Price,
        meaning(
            "What one costs: decimal text from `0.01` to `99999999.99`. A currency "
            "without cents takes `1200` or `1200.00`."
        ),
    ]
    currency: Annotated[
        Currency, meaning("The currency of the price: an active ISO 4217 code in capitals.")
    ]
    description: Annotated[
        Description | None, meaning("More words for the payment page: at most 1000 characters.")
    ] = None
    image: Annotated[
        Image | None,
        meaning(
            "The address of a picture for the payment page: http or https, at most 2048 characters."
        ),
    ] = None
    metadata: Annotated[
        Metadata,
        meaning(
            "Keys and values of your own, returned as you sent them: at most 50 "
            "keys of at most 64 characters, 16 KiB in all."
        ),
    ] = msgspec.field(default_factory=msgspec.Raw)


class ProductUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """The body that changes a product; what is not sent stays."""

    name: Name | UnsetType = UNSET
    price: Price | UnsetType = UNSET
    currency: Currency | UnsetType = UNSET
    description: Annotated[
        Description | UnsetType | None,
        meaning("More words for the payment page: at most 1000 characters. Null: none."),
    ] = UNSET
    image: Annotated[
        Image | UnsetType | None,
        meaning(
            "The address of a picture for the payment page: http or https, at most 2048 "
            "characters. Null: none."
        ),
    ] = UNSET
    metadata: Annotated[
        Metadata,
        meaning(
            "Keys and values of your own in place of those that are there: at most 50 keys of at "
            "most 64 characters, 16 KiB in all. Null: none, `{}`."
        ),
    ] = msgspec.field(default_factory=msgspec.Raw)


class ProductOut(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A product, for which checkout sessions are opened (contract.md#product-fields)."""

    id: Annotated[str, Meta(description="The product's id. Open checkout sessions with it.")]
    name: Annotated[str, Meta(description="Shown to customers on the payment page.")]
    description: Annotated[
        str, Meta(description="More words about it for the payment page. Empty if there are none.")
    ]
    image: Annotated[
        str | None,
        Meta(description="The address of the picture on the payment page. Null if there is none."),
    ]
    price: Annotated[DecimalText, Meta(description="What one costs, with two decimals.")]
    currency: Annotated[str, Meta(description="The currency of the price, an ISO 4217 code.")]
    status: Annotated[
        Status,
        Meta(description="`ACTIVE`: sessions can be opened for it. `ARCHIVED`: no new ones can."),
    ]
    metadata: MetadataShown
    created_at: CreatedAt
    updated_at: UpdatedAt

    @classmethod
    def from_product(cls, product: Product) -> Self:
        """Convert a product."""
        return structs.convert(
            product,
            cls,
            price=money.show(product.price_minor, product.currency),
            metadata=msgspec.Raw(product.metadata.encode()),
        )
