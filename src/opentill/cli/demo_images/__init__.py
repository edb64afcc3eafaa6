"""Pictures of the demonstration's products, drawn for it: WebP of 480 by 480 pixels."""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Final

from opentill import products

if TYPE_CHECKING:
    from opentill.db.database import Tx

_FOLDER: Final = Path(__file__).parent


async def store(tx: "Tx", merchant_id: str, now: int) -> None:
    """Store all pictures as uploads of the merchant."""
    for file in sorted(_FOLDER.glob("*.webp")):
        await products.store_image(tx, merchant_id, file.read_bytes(), now)


def url(public_url: str, merchant_id: str, name: str) -> str:
    """Return the address of a picture, once it is stored."""
    digest = hashlib.sha256((_FOLDER / f"{name}.webp").read_bytes()).hexdigest()
    return f"{public_url.rstrip('/')}{products.image_path(merchant_id, digest)}"
