"""A tool of the project's own: it breaks one thing at a time and sees whether a test notices."""
