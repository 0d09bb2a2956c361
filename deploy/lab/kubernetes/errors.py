"""The API server's refusals."""

from deploy.lab.errors import LabError


class ApiError(LabError):
    """The API server's answer was not a success."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"the API server answered {status}: {message}")
        self.status = status
