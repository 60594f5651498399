"""One look for all figures of the notebooks: colours that the colour-blind can tell apart, labels at the lines, intervals as bands."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import pandas as pd

# Okabe and Ito's colours, the yellow left out: on white it is too faint for a line.
BLUE, ORANGE, GREEN, RED, PURPLE, SKY, BLACK, GREY = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#CC79A7",
    "#56B4E9",
    "#000000",
    "#777777",
)
COLOURS = [BLUE, RED, GREEN, PURPLE, ORANGE, SKY, BLACK]
MARKERS = ["o", "s", "^", "D", "v", "P", "X"]

mpl.rcParams.update(
    {
        "figure.dpi": 100,
        "savefig.bbox": "tight",
        "font.size": 10,
        "axes.titlesize": 10,
        "axes.titlelocation": "left",
        "axes.titleweight": "bold",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.color": "#e4e4e4",
        "axes.axisbelow": True,
        "lines.linewidth": 1.8,
        "lines.markersize": 5,
        "legend.frameon": False,
    }
)

pd.options.display.width = 160
pd.options.display.max_columns = 30
pd.options.display.max_rows = 120
pd.options.display.max_colwidth = None


def panels(n, width=9.5, height=3.6, sharey=True):
    """A row of n panels."""
    figure, axes = plt.subplots(1, n, figsize=(width, height), sharey=sharey, layout="constrained", squeeze=False)
    return figure, axes[0]


def powers(axis, values, label):
    """A logarithmic x axis whose ticks are the values that were run."""
    axis.set_xscale("log", base=2)
    axis.set_xticks(values, [f"{value:g}" for value in values])
    axis.minorticks_off()
    axis.set_xlabel(label)


def line(axis, x, y, k, low=None, high=None, **more):
    """Line k in its own colour and marker, its interval as a band."""
    colour = COLOURS[k % len(COLOURS)]
    axis.plot(list(x), list(y), **({"color": colour, "marker": MARKERS[k % len(MARKERS)]} | more))
    if low is not None:
        axis.fill_between(list(x), list(low), list(high), color=more.get("color", colour), alpha=0.2, linewidth=0)


def name_lines(axis, names, gap=11, room=0.22, away=7):
    """Writes the names of the first lines drawn `away` points to the right of their last points, at least `gap` points apart."""
    scale = axis.get_xscale()
    low, high = axis.get_xlim()
    if scale == "log":
        axis.set_xlim(low, high * (high / low) ** room)
    else:
        axis.set_xlim(low, high + (high - low) * room)
    axis.figure.canvas.draw()
    per_point = axis.figure.dpi / 72
    ends = [(*line.get_xydata()[-1], line.get_color(), name) for line, name in zip(axis.get_lines(), names)]
    ends = sorted(ends, key=lambda end: axis.transData.transform(end[:2])[1])
    heights = [axis.transData.transform(end[:2])[1] / per_point for end in ends]
    placed = list(heights)
    for _ in range(200):
        for i in range(len(placed) - 1):
            if (lack := gap - (placed[i + 1] - placed[i])) > 0:
                placed[i] -= lack / 2
                placed[i + 1] += lack / 2
    for (x, y, colour, name), height, place in zip(ends, heights, placed):
        axis.annotate(
            name,
            (x, y),
            xytext=(away, place - height),
            textcoords="offset points",
            color=colour,
            va="center",
            annotation_clip=False,
        )


def level(axis, y, name, x=0.01):
    """A dashed level with its name above its left end."""
    axis.axhline(y, color=GREY, linestyle="--", linewidth=1.2, zorder=1)
    axis.annotate(
        name,
        (x, y),
        xycoords=("axes fraction", "data"),
        xytext=(2, 2),
        textcoords="offset points",
        color=GREY,
        fontsize=9,
        va="bottom",
    )
