"""The pages of logging in, second factors, invitations, and a person's own login."""
