"""The pages for people who log in: a merchant's dashboard, logging in, and one's own account."""
