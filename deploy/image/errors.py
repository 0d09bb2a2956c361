"""What goes wrong in a build, in words for the person who started it."""


class ImageError(Exception):
    """Printed without a traceback."""
