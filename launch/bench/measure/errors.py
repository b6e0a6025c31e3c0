"""What can go wrong with a measurement."""


class BenchError(RuntimeError):
    """A measurement that could not be made; its text is one line."""
