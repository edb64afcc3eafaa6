"""Payment attempts: starting them, applying their outcomes, and returning second payments."""
