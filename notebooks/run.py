"""Executes the notebooks and holds what they print against what is committed.

    python notebooks/run.py                 every notebook; fails on an error, or if a text or a table differs from the committed one
    python notebooks/run.py --refresh       writes what came out into the notebooks instead
    python notebooks/run.py 01 05           these only

Figures are drawn but not compared: a font or a rounding in a renderer is no stale result.
"""

import argparse
import difflib
import re
import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

FOLDER = Path(__file__).resolve().parent
BYTES_MAX = 600_000
SECONDS_MAX = 300
# What a notebook may say of the machine that it ran on: nothing.
MACHINE_PATH = re.compile(r"(?<![\w.:/])/(?:home|root|tmp|Users|private|var)/[\w.-]+")
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def normalise(notebook):
    """Drops what differs between two runs that agree: times, versions, the editor's settings."""
    notebook.metadata = nbformat.from_dict(METADATA)
    for cell in notebook.cells:
        tags = cell.metadata.get("tags")
        cell.metadata = nbformat.from_dict({"tags": tags} if tags else {})
        if cell.cell_type == "code":
            cell.outputs = [without_metadata(output) for output in merged(cell.outputs)]
    return notebook


def merged(outputs):
    """Consecutive texts of one stream as one: where they are cut depends on timing."""
    whole = []
    for output in outputs:
        last = whole[-1] if whole else None
        if last and output.output_type == "stream" == last.output_type and output.name == last.name:
            last.text += output.text
        else:
            whole.append(output)
    return whole


def without_metadata(output):
    if "metadata" in output:
        output.metadata = nbformat.from_dict({})
    return output


def serialised(notebook):
    return nbformat.writes(notebook, version=4) + "\n"


def texts(notebook):
    """What a notebook says besides figures, a list of lines for each code cell."""
    said = []
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        lines = []
        for output in cell.outputs:
            if output.output_type == "stream":
                lines += output.text.splitlines()
            elif output.output_type == "error":
                lines += [f"{output.ename}: {output.evalue}"]
            elif not any(kind.startswith("image/") for kind in output.data):
                lines += [line for kind in sorted(output.data) for line in str(output.data[kind]).splitlines()]
        said.append(lines)
    return said


def differences(committed, executed):
    """The lines in which two runs of a notebook differ, by cell; empty if they agree."""
    found = []
    for idx, (old, new) in enumerate(zip(texts(committed), texts(executed), strict=True), 1):
        diff = list(difflib.unified_diff(old, new, "committed", "executed", n=0, lineterm=""))
        if diff:
            found.append(f"code cell {idx}:\n" + "\n".join(f"    {line}" for line in diff))
    return found


def faults(path, text):
    """What is wrong with a notebook as a file."""
    found = []
    notebook = nbformat.reads(text, as_version=4)
    try:
        nbformat.validate(notebook)
    except nbformat.ValidationError as error:
        found.append(f"not a valid notebook: {error}")
    if serialised(normalise(nbformat.reads(text, as_version=4))) != text:
        found.append("not normalised; run notebooks/run.py --refresh")
    counts = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
    if counts != list(range(1, len(counts) + 1)):
        found.append("not executed from top to bottom")
    if len(text) > BYTES_MAX:
        found.append(f"{len(text)} bytes, at most {BYTES_MAX} are wanted")
    # An embedded image is long enough to hold anything by chance.
    readable = "\n".join(line for line in text.splitlines() if len(line) < 2000)
    if path_of_machine := MACHINE_PATH.search(readable) or re.search(
        re.escape(str(FOLDER.parent)) + r"\b", readable
    ):
        found.append(f"names a path of a machine: {path_of_machine.group()}")
    if not notebook.cells[-1].source.count("claim("):
        found.append("does not end with a cell that holds its text against the numbers")
    return [f"{path.name}: {fault}" for fault in found]


def execute(notebook):
    """Runs all cells in a kernel of its own; a cell that fails raises."""
    where = {"metadata": {"path": str(FOLDER)}}
    NotebookClient(
        notebook, timeout=SECONDS_MAX, kernel_name="python3", extra_arguments=["--log-level=40"], resources=where
    ).execute()
    return normalise(notebook)


def check(path, refresh):
    """Executes one notebook; returns what is wrong."""
    text = path.read_text()
    executed = nbformat.reads(text, as_version=4)
    started = time.monotonic()
    try:
        execute(executed)
    except CellExecutionError as error:
        return [f"{path.name}: a cell failed: {error.ename}: {error.evalue}"]
    print(f"{path.name}: executed in {time.monotonic() - started:.0f} s", flush=True)
    if refresh:
        path.write_text(serialised(executed))
        return faults(path, path.read_text())
    differing = differences(nbformat.reads(text, as_version=4), executed)
    return faults(path, text) + [f"{path.name}: {difference}" for difference in differing]


def main():
    parser = argparse.ArgumentParser(
        description="Executes the notebooks and compares what they print with what is committed."
    )
    parser.add_argument(
        "--refresh", action="store_true", help="write the outputs into the notebooks instead of comparing them"
    )
    parser.add_argument("names", nargs="*", help="notebooks whose names begin so; all by default")
    arguments = parser.parse_args()
    paths = sorted(FOLDER.glob("[0-9]*.ipynb"))
    if arguments.names:
        paths = [path for path in paths if path.name.startswith(tuple(arguments.names))]
    if not paths:
        parser.error("no such notebook")
    wrong = [fault for path in paths for fault in check(path, arguments.refresh)]
    for fault in wrong:
        print(fault, file=sys.stderr)
    print(f"{len(paths)} notebooks executed, {len(wrong)} faults")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
