"""The one client that calls addresses of others, and the policy of what it may reach."""
