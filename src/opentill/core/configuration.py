"""What only the operator can put right: a wrong setting, an unfit directory, an old schema."""


class ConfigurationError(Exception):
    """The text is one line that says what is wrong and what to do; the command line prints it."""
