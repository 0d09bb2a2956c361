"""Who made the request, as far as the transport knows. Kept in a context variable, so that services need no request
object."""

from contextvars import ContextVar
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address, ip_network


@dataclass(frozen=True)
class RequestInfo:
    request_id: str = ""
    ip: str | None = None

    @property
    def network(self) -> str:
        """What one client has: its address, or the /64 of an IPv6 one. "-" where nobody knows."""
        if not self.ip:
            return "-"
        if isinstance(ip_address(self.ip), IPv6Address):
            return str(ip_network(f"{self.ip}/64", strict=False))
        return self.ip


current_request: ContextVar[RequestInfo] = ContextVar("current_request", default=RequestInfo())  # noqa: B039  frozen
