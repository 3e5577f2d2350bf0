"""Errors of this package. Each message says what failed, on what, why, and what to do."""

from __future__ import annotations

from typing import Optional


class HoptaxError(Exception):
    """Base class of all errors of this package."""


class BinaryNotFound(HoptaxError):
    """There is no hoptax program."""


class CommandFailed(HoptaxError):
    """hoptax ended with an error. `status` is its exit status, `output` what it printed to standard error."""

    def __init__(self, message: str, status: int, output: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.output = output


class PlanError(CommandFailed):
    """The plan or an argument is wrong. The message is hoptax's own: it has the line, the column and the fix."""


class NotMeasured(HoptaxError):
    """The run has no such figure. The message says why."""


class Ambiguous(HoptaxError):
    """Several load points match. The message lists them."""


class UnknownName(HoptaxError, KeyError):
    """The run has no such gateway, load point or metric."""

    def __str__(self) -> str:
        # `KeyError` would print the message in quotes.
        return str(self.args[0])


class NotInstalled(HoptaxError):
    """A gateway is not installed. The message says how to install it."""

    def __init__(self, message: str, gateway: Optional[str] = None) -> None:
        super().__init__(message)
        self.gateway = gateway
