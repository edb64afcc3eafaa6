"""The pages for logging in, second factors, invitations, and a person's own security settings."""
