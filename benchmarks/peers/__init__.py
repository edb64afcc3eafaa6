"""What OpenTill is held against: the same operations as others would write them."""
