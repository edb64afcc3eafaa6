"""The sandbox bank, a slow one, their shops and the receiver of callbacks."""

from support.sandbox_bank import receiver, shop, slow_bank_shop, slow_bank_url

__all__ = ["receiver", "shop", "slow_bank_shop", "slow_bank_url"]
