"""The HTTP client for external addresses, and the policy of addresses that it may call."""
