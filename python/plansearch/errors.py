# SPDX-License-Identifier: Apache-2.0
"""Errors, as exceptions with their place and a remedy."""

from __future__ import annotations

from typing import NamedTuple


class Problem(NamedTuple):
    """One wrong input. `line` and `column` count from 1; 0: the whole file; no file: an argument."""

    message: str
    remedy: str
    file: str
    line: int
    column: int


class PlansearchError(Exception):
    """Base of everything that this package raises."""


class InputError(PlansearchError, ValueError):
    """Wrong input; all of one kind at once in `problems`."""

    def __init__(self, text: str, problems: list[tuple[str, str, str, int, int]]) -> None:
        super().__init__(text)
        self.problems = [Problem(*problem) for problem in problems]

    @property
    def remedy(self) -> str:
        return self.problems[0].remedy

    @property
    def file(self) -> str:
        return self.problems[0].file

    @property
    def line(self) -> int:
        return self.problems[0].line

    @property
    def column(self) -> int:
        return self.problems[0].column


class NotExpressible(PlansearchError):
    """The framework of `target` cannot express the plan (exit code 4 of the command)."""


class Stopped(PlansearchError):
    """A time or memory limit was reached before there was an answer."""
