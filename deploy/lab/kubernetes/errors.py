"""What goes wrong in the lab, in words for the person who started it."""


class LabError(Exception):
    """Printed without a traceback: says which program failed, or what to install."""


class ApiError(LabError):
    """The API server's answer was not a success."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"the API server answered {status}: {message}")
        self.status = status
