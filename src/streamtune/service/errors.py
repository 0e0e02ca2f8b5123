"""What can go wrong in the service, each as one sentence for whoever asked."""

from __future__ import annotations

from streamtune.errors import StreamTuneError


class ServiceError(StreamTuneError):
    """The service cannot do what was asked."""


class StoreError(ServiceError):
    """The store cannot be used."""


class LeaseHeldError(ServiceError):
    """Somebody else acts on this job."""

    def __init__(self, job: str, holder: str, until: str) -> None:
        self.holder = holder
        super().__init__(
            f"'{job}' is in the hands of {holder} until {until}: stop that one, or wait until its lease has run out"
        )


class RequestError(ServiceError):
    """A request that is refused: a status of HTTP, a short code, what is wrong and what to do next."""

    def __init__(self, status: int, code: str, message: str, next_step: str) -> None:
        self.status = status
        self.code = code
        self.message = message
        self.next_step = next_step
        super().__init__(f"{message}: {next_step}")
