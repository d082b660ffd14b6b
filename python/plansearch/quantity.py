# SPDX-License-Identifier: Apache-2.0
"""Numbers that know their unit. Answers name it in their keys: `step_time_s`, `peak_memory_bytes`."""

from __future__ import annotations

_DECIMAL = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "u"))
_BINARY = ((2.0**40, "Ti"), (2.0**30, "Gi"), (2.0**20, "Mi"), (2.0**10, "Ki"), (1.0, ""))
_UNITS = {"s": "s", "bytes": "B", "w": "W", "j": "J", "usd": "USD", "flops": "FLOP"}


class Quantity(float):
    """A float in `unit` (s, B, W, J, USD, FLOP) that prints as people write it: 7.418 s, 62.1 GiB."""

    unit: str

    def __new__(cls, value: float, unit: str) -> Quantity:
        made = super().__new__(cls, value)
        made.unit = unit
        return made

    def __reduce__(self) -> tuple[type[Quantity], tuple[float, str]]:
        return Quantity, (float(self), self.unit)

    def __str__(self) -> str:
        if self.unit == "USD":
            return f"{float(self):,.2f} USD"
        scales = _BINARY if self.unit == "B" else _DECIMAL
        size = abs(float(self))
        if self.unit == "s" and size >= 1:
            return f"{float(self):.4g} s"
        factor, prefix = next((scale for scale in scales if size >= scale[0]), (1.0, ""))
        return f"{float(self) / factor:.4g} {prefix}{self.unit}"

    __repr__ = __str__


def unit_of(key: str) -> tuple[str, str] | None:
    """The name without its unit, and the unit: ("step_time", "s") of "step_time_s"."""
    name, _, suffix = key.rpartition("_")
    unit = _UNITS.get(suffix)
    return (name, unit) if name and unit and not name.endswith("_per") else None
