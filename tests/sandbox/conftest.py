"""The bank and its surroundings as fixtures."""

from support.sandbox_bank import receiver, shop, slow_bank_shop, slow_bank_url

__all__ = ["receiver", "shop", "slow_bank_shop", "slow_bank_url"]
