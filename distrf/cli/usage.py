"""The error of a command line that is wrong itself."""


class UsageError(Exception):
    """The command line itself is wrong: exit code 2."""
