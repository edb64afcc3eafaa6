"""The pages of a merchant for its members; staff can read them."""
