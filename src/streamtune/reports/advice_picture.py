"""The trade-off of an advice as a picture: latency, throughput and total parallelism of all candidates."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from streamtune.models.costmodel.advice import Advice
from streamtune.reports.pictures import save_picture


def draw_advice(advice: Advice, job: str, path: Path) -> None:
    """Candidates by total parallelism and latency, coloured by throughput; the front, and the plan that was chosen."""
    totals, found = advice.totals, advice.predictions
    figure = Figure(figsize=(8.0, 4.8), layout="constrained")
    axes = figure.subplots()
    dots = axes.scatter(totals, found.latency_ms, c=found.throughput_per_s, s=14, cmap="viridis", linewidths=0)
    front = _front(totals, found.latency_ms, found.throughput_per_s)
    axes.plot(totals[front], found.latency_ms[front], color="0.5", linewidth=1, label="no plan is better in all three")
    axes.scatter(
        totals[advice.chosen],
        found.latency_ms[advice.chosen],
        s=160,
        facecolors="none",
        edgecolors="crimson",
        linewidths=2,
        label=f"chosen: {advice.latency_ms:,.0f} ms, {advice.throughput_per_s:,.0f} records/s",
    )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("total parallelism")
    axes.set_ylabel("predicted latency, ms")
    axes.set_title(f"{job}: {len(totals)} plans", parse_math=False)
    axes.legend(frameon=False, fontsize=9)
    figure.colorbar(dots, label="predicted throughput, records/s")
    save_picture(figure, path, dpi=130)


def _front(
    totals: np.ndarray[tuple[int], np.dtype[np.int64]],
    latency: np.ndarray[tuple[int], np.dtype[np.float64]],
    throughput: np.ndarray[tuple[int], np.dtype[np.float64]],
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Plans that none beats in latency, throughput (within 1 %) and total parallelism at once, by total parallelism."""
    order = np.lexsort((latency, totals))
    kept: list[int] = []
    for candidate in order:
        beaten = any(
            latency[other] <= latency[candidate] and throughput[other] >= throughput[candidate] * 0.99 for other in kept
        )
        if not beaten:
            kept.append(int(candidate))
    return np.array(kept, dtype=np.int64)
