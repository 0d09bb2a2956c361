"""What goes wrong in a lab, in words for the person who started it."""


class LabError(Exception):
    """Printed without a traceback: says which program failed, or what to install."""
