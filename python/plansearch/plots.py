# SPDX-License-Identifier: Apache-2.0
"""Pictures of answers by matplotlib. Each draws on `axes` (default: a new figure) and returns them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .answer import Answer, Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_GIB = 2.0**30


def _axes(axes: Axes | None) -> Axes:
    if axes is not None:
        return axes
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(7, 4), layout="constrained")[1]


def _name(plan: Record) -> str:
    config = plan.config
    kept = [f"{key} {config[key]}" for key in ("tp", "pp", "cp", "ep") if config[key] > 1]
    return " ".join(kept) or f"dp {config['dp']}"


def _bars(axes: Axes, plans: list[Record], parts: list[dict[str, float]]) -> None:
    names = [f"{plan.rank}: {_name(plan)}" for plan in plans]
    left = [0.0] * len(plans)
    for part in dict.fromkeys(key for one in parts for key in one):
        widths = [one.get(part, 0.0) for one in parts]
        if not any(widths):
            continue
        axes.barh(names, widths, left=left, label=part)
        left = [start + width for start, width in zip(left, widths)]
    axes.invert_yaxis()
    axes.legend(fontsize="small")


def plot_steps(answer: Answer, axes: Axes | None = None) -> Axes:
    """Where the step of every plan goes, in seconds."""
    axes = _axes(axes)

    def parts(step: dict[str, Any]) -> dict[str, float]:
        flat = {key[:-2]: value for key, value in step.items() if key.endswith("_s") and value}
        exposed = flat.pop("exposed_communication", {})
        return {**flat, **{f"{key} messages": value for key, value in exposed.items()}}

    plans = answer.rows
    _bars(axes, plans, [parts(plan["step"].to_dict()) for plan in plans])
    axes.set_xlabel("step time (s)")
    return axes


def plot_memory(answer: Answer, axes: Axes | None = None) -> Axes:
    """Memory of the fullest device of every plan by its parts, in GiB, and the limit."""
    axes = _axes(axes)
    plans = answer.rows
    parts = [
        {key.removesuffix("_bytes"): value / _GIB for key, value in plan["memory"].items()}
        for plan in plans
    ]
    _bars(axes, plans, parts)
    axes.axvline(answer.question.memory_capacity / _GIB, color="black", linestyle="--")
    axes.set_xlabel("memory (GiB)")
    return axes


def plot_pareto(answer: Answer, axes: Axes | None = None) -> Axes:
    """Plans that no other beats in both step time and memory."""
    axes = _axes(axes)
    front = answer.pareto_front
    axes.plot(
        [point.peak_memory / _GIB for point in front],
        [float(point.step_time) for point in front],
        marker="o",
        drawstyle="steps-post",
    )
    axes.set_xlabel("memory (GiB)")
    axes.set_ylabel("step time (s)")
    return axes


def plot_ladder(answer: Answer, axes: Axes | None = None) -> Axes:
    """Speed-up over numbers of GPUs, beside the ideal one."""
    axes = _axes(axes)
    rungs = [rung for rung in answer.ladder if rung.speedup is not None]
    gpus = [rung.gpus for rung in rungs]
    speedups = [rung.speedup for rung in rungs]
    axes.loglog(gpus, speedups, marker="o", label="predicted")
    ideal = [speedups[0] * count / gpus[0] for count in gpus]
    axes.loglog(gpus, ideal, linestyle=":", color="grey", label="ideal")
    axes.set_xlabel("GPUs")
    axes.set_ylabel("speed-up")
    axes.legend()
    return axes
