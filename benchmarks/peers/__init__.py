"""Peers that OpenTill is compared with: the same operations, as others would write them."""
