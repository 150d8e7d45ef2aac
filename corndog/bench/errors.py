"""What can go wrong with a measurement."""


class BenchError(Exception):
    """It can't be measured; the message says why in a line."""


class RefusedError(BenchError):
    """The server did not do what it was asked for."""


class LeftOut(Exception):
    """This can't be measured here, and the rest can; the message says why."""
