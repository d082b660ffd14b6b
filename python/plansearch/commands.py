# SPDX-License-Identifier: Apache-2.0
"""The commands of `plansearch` as functions. Arguments are flags; the words are made here."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _core
from .answer import Answer
from .errors import NotExpressible, PlansearchError

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .settings import Degrees, Search, Settings

    _Name = str | os.PathLike[str] | None

_INTERNAL, _INEXPRESSIBLE = 1, 4  # exit codes


def _text(value: Any) -> str:
    if isinstance(value, (str, int, float)):
        return f"{int(value)}" if isinstance(value, bool) else f"{value}"
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Iterable):
        return ",".join(map(_text, value))
    raise TypeError(f"{value!r} is not the value of a flag: give text, a number or a list of them")


_SWITCHES = {"anyway", "exhaustive", "pareto", "recipes", "force", "no_cards", "timeline", "sensitivity"}
_REPEATED = {"set", "known", "plot", "sbatch"}  # several of them are several flags


def _words(flags: Mapping[str, Any]) -> list[str]:
    """`micro_batch=4, recipes=True` as ["--micro-batch=4", "--recipes"]; None is left out."""
    words = []
    for name, value in flags.items():
        flag = "--" + name.replace("_", "-")
        if name in _SWITCHES:
            words += [flag] if value else []
        elif name in _REPEATED and not isinstance(value, (str, os.PathLike)):
            words += [f"{flag}={_text(one)}" for one in value]
        elif value is not None:
            words.append(f"{flag}={_text(value)}")
    return words


def _run(*words: str) -> tuple[int, str, list[str]]:
    code, text, remarks = _core.run([*words])
    if code == _INEXPRESSIBLE:
        raise NotExpressible("\n".join(remarks))
    if code == _INTERNAL:
        raise PlansearchError("\n".join(remarks))
    return code, text, remarks


def _question(flags: Mapping[str, Any], hw: Any, model: Any) -> dict[str, Any]:
    """The flags with those that stood first."""
    first = {key: value for key, value in (("hw", hw), ("model", model)) if value is not None}
    for key in first.keys() & flags.keys():
        raise TypeError(f"{key} is given twice: first and by its name")
    return {**first, **flags}


def _answer(command: str, arguments: Iterable[Any], flags: Mapping[str, Any]) -> Answer:
    words = [command, *map(_text, arguments), *_words({**flags, "format": "json"})]
    code, text, remarks = _run(*words)
    return Answer(text, code, remarks)


def search(hw: _Name = None, model: _Name = None, /, **flags: Unpack[Search]) -> Answer:
    """Ranked plans of a question; without `gpus` those of a ladder of sizes."""
    return _answer("search", [], _question(flags, hw, model))


def predict(hw: _Name = None, model: _Name = None, /, **flags: Unpack[Search]) -> Answer:
    """One plan, priced. What degrees leave open takes the framework's own values."""
    return _answer("predict", [], _question(flags, hw, model))


def compare(*plans: str | os.PathLike[str], **flags: Unpack[Search]) -> Answer:
    """Best plans of several machines, models or settings (lists), or several plan files."""
    return _answer("compare", plans, flags)


def capacity(hw: _Name = None, model: _Name = None, /, **flags: Any) -> Answer:
    """Time and cost of training on `tokens` on every size of every machine, within a deadline or a budget."""
    return _answer("capacity", [], _question(flags, hw, model))


def fits(model: _Name = None, /, **flags: Any) -> Answer:
    """Whether a model fits on the machine `on`, and the fewest of every kind of card; `method` is the task."""
    return _answer("fits", [], _question(flags, None, model))


def diagnose(*, measured: str | float | None = None, log: str | os.PathLike[str] | None = None,
             profile: str | os.PathLike[str] | None = None, profile_steps: float | None = None,
             **flags: Unpack[Search]) -> Answer:
    """Whether a measured step (seconds, or text with a unit) is normal, and what would explain it.

    `log` is the output of the training program, `profile` what a profiler saw of `profile_steps` steps; they say how long a
    step took where `measured` does not.
    """
    given: dict[str, Any] = {**flags}
    if measured is not None:
        given["measured"] = measured if isinstance(measured, str) else f"{measured} s"
    for name, value in {"log": log, "profile": profile, "profile_steps": profile_steps}.items():
        if value is not None:
            given[name] = value
    return _answer("diagnose", [], given)


def explain(*plans: str | os.PathLike[str], **flags: Unpack[Search]) -> Answer:
    """Why a plan (file, "result.json#2"; default: the best) takes its time, against another."""
    return _answer("explain", plans, flags)


def sweep(questions: str | os.PathLike[str], *, out: str | os.PathLike[str],
          known: Iterable[str | os.PathLike[str]] = (), **flags: Any) -> None:
    """Answers every question of a file into `out` (.csv, .jsonl, .sqlite or .db); after it was ended, the same call goes on."""
    code, _, remarks = _run("sweep", _text(questions), *_words({**flags, "out": out, "known": known}))
    if code != 0:
        raise PlansearchError("\n".join(remarks))


def validate(table: str | os.PathLike[str], **flags: Any) -> Answer:
    """Every measured row of a CSV, predicted."""
    return _answer("validate", [table], flags)


def reproduce(seed: str, **flags: Any) -> Answer:
    """Published figures of a paper ("axonn", "alpa", ...) beside predicted ones."""
    return _answer("reproduce", [seed], flags)


def list(what: str) -> Answer:  # noqa: A001 - the name of the command
    """Names of shipped things: "models", "hw", "frameworks", "settings", ..."""
    return _answer("list", [what], {})


def show(what: str, name: str) -> Answer:
    """The fields of one file: show("hw", "perlmutter")."""
    return _answer("show", [what, name], {})


def export(*plans: str | os.PathLike[str], to: str, **flags: Any) -> str:
    """A plan as configuration of the program `to`, as text."""
    code, text, remarks = _run("export", *map(_text, plans), *_words({**flags, "to": to}))
    if code != 0:
        raise PlansearchError("\n".join(remarks))
    return text


class Imported(NamedTuple):
    """The plan and remarks that `import_` made of a launch file."""

    plan: str  # a plan file
    notes: tuple[str, ...]  # what was not read, and what was decided


def import_(*files: str | os.PathLike[str], from_: str | None = None, define: Mapping[str, Any] | None = None,
            **flags: Unpack[Search]) -> Imported:
    """The plan of a launch script or configuration; settings and degrees win over the files.

    `from_` is the framework (default: told by the keys), `define` has variables of scripts and keys that no file has.
    """
    words = [*map(_text, files), *_words(flags)]
    words += [f"--from={from_}"] if from_ is not None else []
    words += [f"--define={name}={_text(value)}" for name, value in (define or {}).items()]
    code, text, remarks = _run("import", *words)
    if code != 0:
        raise PlansearchError("\n".join(remarks))
    return Imported(text, tuple(remarks))


def version() -> str:
    return _run("--version")[1].split()[-1]


class Question:
    """One machine, model and framework, whose files are read once, for thousands of predictions.

    question = plansearch.Question(hw="dgx-h100", model="llama3-8b", gpus=64)
    steps = {tp: question.predict(tp=tp).best.step_time for tp in (1, 2, 4, 8)}

    `predict` takes degrees only, and threads may share a question. Its answers are those of
    `plansearch.predict`, but for remedies of plans that do not fit.
    """

    def __init__(self, **settings: Unpack[Settings]) -> None:
        self._core = _core.Question(_words(settings))

    def predict(self, **degrees: Unpack[Degrees]) -> Answer:
        pairs = [(name, _text(value)) for name, value in degrees.items() if value is not None]
        return Answer(self._core.predict(pairs))
