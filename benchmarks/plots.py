"""Plots of the suite's figures, as SVG and PNG."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from contenders import CONTENDERS

mpl.use("Agg")
mpl.rcParams["svg.hashsalt"] = "echomq"  # the same figures give the same file

from matplotlib import pyplot as plt  # noqa: E402  # after the choice of what draws

if TYPE_CHECKING:
    from pathlib import Path

OURS, SERVER, OTHERS = "#0b6e4f", "#c9a227", "#8a94a6"


def draw(all_runs: dict[str, Any], folder: Path) -> None:
    """Draw what there are figures for.

    Args:
        all_runs: Scenario -> contender -> runs.
        folder: Where the files go.
    """
    folder.mkdir(exist_ok=True)
    drains = ("drain-1", "drain-10", "drain-50", "drain-200")
    best = {
        name: max(_median(all_runs[key][name], "rate") for key in drains if name in all_runs.get(key, {}))
        for name in CONTENDERS
        if any(name in all_runs.get(key, {}) for key in drains)
    }
    _bars(best, "no-op jobs done per second, one process, best concurrency", folder / "drain")
    for key, title in {
        "add-50": "jobs added per second, 50 in flight",
        "bulk": "jobs added per second, in bulks",
    }.items():
        rates = {name: _median(runs, "rate") for name, runs in all_runs.get(key, {}).items()}
        _bars(rates, title, folder / key)
    _stacked(all_runs.get("drain-50", {}), "CPU per no-op job, concurrency 50, us", folder / "cpu")


def _median(runs: list[dict[str, Any]], figure: str) -> float:
    return statistics.median([run[figure] for run in runs if figure in run] or [0])


def _bars(values: dict[str, float], title: str, file: Path) -> None:
    if not values:
        return
    names = sorted(values, key=lambda name: values[name])
    figure, axes = plt.subplots(figsize=(8, 0.4 * len(names) + 1))
    colours = [OURS if name.startswith("echomq") else OTHERS for name in names]
    bars = axes.barh([CONTENDERS[name].title for name in names], [values[name] for name in names], color=colours)
    axes.bar_label(bars, fmt="{:,.0f}", padding=3)
    _save(figure, axes, title, file)


def _stacked(runs: dict[str, Any], title: str, file: Path) -> None:
    if not runs:
        return
    names = sorted(runs, key=lambda name: -_median(runs[name], "client_us"))
    titles = [CONTENDERS[name].title for name in names]
    client = [_median(runs[name], "client_us") for name in names]
    server = [_median(runs[name], "server_us") for name in names]
    figure, axes = plt.subplots(figsize=(8, 0.4 * len(names) + 1.4))
    axes.barh(titles, client, color=[OURS if name.startswith("echomq") else OTHERS for name in names], label="client")
    axes.barh(titles, server, left=client, color=SERVER, label="server")
    axes.legend(loc="lower right", frameon=False)
    _save(figure, axes, title, file)


def _save(figure: Any, axes: Any, title: str, file: Path) -> None:
    axes.set_title(title, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.12)
    figure.tight_layout()
    figure.savefig(file.with_suffix(".svg"), metadata={"Date": None})
    figure.savefig(file.with_suffix(".png"), dpi=110)
    plt.close(figure)
