"""Images of products that merchants upload: their files, and the paths that serve them."""

import hashlib
from typing import Final

import msgspec

from opentill.core.errors import or_not_found
from opentill.db.database import Tx
from opentill.merchants import recognize_picture
from opentill.products import queries
from opentill.products.model import StoredImage

MAX_IMAGE_BYTES: Final = 1024 * 1024
MOST_IMAGES: Final = 1000  # of a merchant, so that its uploads have a bounded size
_MOST_SIDE: Final = 4096  # pixels


class TooManyImages(Exception):
    """The merchant has uploaded as many images as it may."""


def image_path(merchant_id: str, digest: str) -> str:
    """Return the path of an image; its address stays the same for the same file."""
    return f"/images/{merchant_id}/{digest}"


async def store_image(tx: Tx, merchant_id: str, content: bytes, now: int) -> str:
    """Store an image and return its path. Idempotent.

    Raises LogoRefused and TooManyImages.
    """
    picture = recognize_picture(content, max_bytes=MAX_IMAGE_BYTES, most_side=_MOST_SIDE)
    digest = hashlib.sha256(content).hexdigest()
    if await queries.IMAGE.first(tx, merchant_id=merchant_id, sha256=digest) is None:
        if (await queries.COUNT_IMAGES.get(tx, merchant_id=merchant_id) or 0) >= MOST_IMAGES:
            raise TooManyImages
        image = StoredImage(
            merchant_id=merchant_id,
            sha256=digest,
            content=content,
            created_at=now,
            **msgspec.structs.asdict(picture),
        )
        await queries.INSERT_IMAGE.run(tx, image)
    return image_path(merchant_id, digest)


async def find_image(tx: Tx, merchant_id: str, digest: str) -> StoredImage:
    """Return an image. Raises NotFound."""
    image = await queries.IMAGE.first(tx, merchant_id=merchant_id, sha256=digest)
    return or_not_found(image)
