"""The pages of a merchant, for its members; staff look at them."""
