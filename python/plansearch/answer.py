# SPDX-License-Identifier: Apache-2.0
"""Answers as objects. They hold the JSON of the command line and add nothing to it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .quantity import Quantity, unit_of

if TYPE_CHECKING:
    import pandas


_ALWAYS_SHOWN = {"rank", "dp", "pp", "tp", "micro_batch"}


def _wrap(value: Any) -> Any:
    if isinstance(value, dict):
        return Record(value)
    if isinstance(value, list):
        return [_wrap(item) for item in value]
    return value


class Record(Mapping):
    """A JSON object: `plan["step_time_s"]` is the number, `plan.step_time` the quantity."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields

    def __getitem__(self, key: str) -> Any:
        return _wrap(self._fields[key])

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_fields":
            raise AttributeError(name)
        if name in self._fields:
            return self[name]
        for key, value in self._fields.items():
            parts = unit_of(key)
            if parts and parts[0] == name:
                return None if value is None else Quantity(value, parts[1])
        raise AttributeError(f"no {name}; there are {', '.join(self._fields)}")

    def __dir__(self) -> list[str]:
        names = [parts[0] for parts in map(unit_of, self._fields) if parts]
        return [*super().__dir__(), *self._fields, *names]

    def __repr__(self) -> str:
        return f"Record({self._fields!r})"

    def to_dict(self) -> dict[str, Any]:
        return self._fields


def _flat(fields: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Nested objects as dotted columns; lists are left out, as a row has one value each."""
    row: dict[str, Any] = {}
    for key, value in fields.items():
        if isinstance(value, dict):
            row.update(_flat(value, f"{before}{key}."))
        elif not isinstance(value, list):
            row[before + key] = value
    return row


class Answer(Record):
    """The answer of a command.

    `text` is the JSON as printed, `code` the exit code (0, or 3: nothing fits), `remarks` what the
    command wrote beside it.
    """

    def __init__(self, text: str, code: int = 0, remarks: list[str] | None = None) -> None:
        fields = json.loads(text)
        super().__init__(fields if isinstance(fields, dict) else {"rows": fields})
        self.text = text
        self.code = code
        self.remarks = remarks or []

    @cached_property
    def rows(self) -> list[Record]:
        """The plans of a search, or the lines of a table."""
        for key in ("plans", "rows"):
            if isinstance(self._fields.get(key), list):
                return [Record(row) for row in self._fields[key]]
        return [Record(self._fields)]

    @property
    def best(self) -> Record | None:
        """The first plan; of a ladder, that of the size it recommends. None: nothing fits."""
        plans = self._fields.get("plans")
        return Record(plans[0]) if plans else None

    def to_dataframe(self) -> pandas.DataFrame:
        """One row each of `rows`, nested objects as dotted columns (`config.tp`, `step.compute_s`)."""
        import pandas

        return pandas.DataFrame([_flat(row.to_dict()) for row in self.rows])

    def _shown(self) -> list[dict[str, str]]:
        degrees = ("dp", "pp", "vpp", "cp", "tp", "ep", "zero", "micro_batch", "recompute", "schedule")
        shown = []
        for row in self.rows:
            fields = row.to_dict()
            config = fields.get("config", fields)
            cells = {"rank": fields.get("rank"), **{key: config.get(key) for key in degrees}}
            if config.get("recompute_layers"):
                cells["recompute"] = f"first {config['recompute_layers']}"  # of every chunk
            for key in ("step_time_s", "peak_memory_bytes"):
                parts = unit_of(key)
                if fields.get(key) is not None and parts:
                    cells[parts[0]] = Quantity(fields[key], parts[1])
            cells["mfu"] = None if fields.get("mfu") is None else f"{100 * fields['mfu']:.1f} %"
            shown.append({key: str(value) for key, value in cells.items() if value is not None})
        told = [
            key
            for key in (shown[0] if shown else ())
            if key in _ALWAYS_SHOWN or any(row[key] not in ("0", "1", "none", "1f1b") for row in shown)
        ]
        return [{key: row[key] for key in told} for row in shown]

    def __repr__(self) -> str:
        if "plans" not in self._fields:
            return super().__repr__()
        shown = self._shown()
        if not shown:
            return "Answer(no plan fits)"
        widths = {key: max(len(key), *(len(row.get(key, "")) for row in shown)) for key in shown[0]}
        lines = ["  ".join(key.rjust(width) for key, width in widths.items())]
        for row in shown:
            lines.append("  ".join(row.get(key, "").rjust(width) for key, width in widths.items()))
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from html import escape

        if "plans" not in self._fields:
            return f"<pre>{escape(json.dumps(self._fields, indent=1)[:4000])}</pre>"
        shown = self._shown()
        if not shown:
            return "<p>No plan fits.</p>"
        head = "".join(f"<th>{escape(key)}</th>" for key in shown[0])
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(row.get(key, ''))}</td>" for key in shown[0]) + "</tr>"
            for row in shown
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
