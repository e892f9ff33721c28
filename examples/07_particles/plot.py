#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: plot.py OUT.png TITLE=FILE.json...   draws the work of each process in runs of 07_particles"""
import json
import sys

COLOURS = ["#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#7f7f7f"]


def main():
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    runs = [argument.partition("=") for argument in sys.argv[2:]]
    figure, axes = plt.subplots(1, len(runs), figsize=(4.5 * len(runs), 3.2), sharey=True, squeeze=False)
    for axis, (title, _, path) in zip(axes[0], runs):
        with open(path, encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
        periods = [row["period"] for row in rows]
        for rank in range(len(rows[0]["seconds"])):
            axis.plot(periods, [row["seconds"][rank] for row in rows], "o-", color=COLOURS[rank % len(COLOURS)],
                      label=f"process {rank}")
        axis.plot(periods, [sum(row["seconds"]) / len(row["seconds"]) for row in rows], "k--", label="perfect split")
        axis.set(title=title, xlabel="period")
    axes[0][0].set(ylabel="processor time [s]", ylim=(0, None))
    axes[0][-1].legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(sys.argv[1], dpi=120)


main()
