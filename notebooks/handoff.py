"""Runs `handoff` for the notebooks, and reads what it wrote.

Commands run in a temporary folder that is removed at the end, so what a cell shows after `$` is the whole command: files that it
names lie in that folder (`write`, `copy`), and `--out` names a folder below it. Nothing is written elsewhere.
"""

import atexit
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

import pandas as pd
from IPython.display import SVG

ROOT = Path(__file__).resolve().parent.parent
WORK = Path(tempfile.mkdtemp(prefix="notebook-"))
atexit.register(shutil.rmtree, WORK, ignore_errors=True)


class Plain(Exception):
    """An error that says all there is to say; Jupyter shows it without a traceback through this file."""

    def _render_traceback_(self):
        return [str(self)]


class HandoffError(Plain):
    """A command was refused or failed; the message is the command's own."""


class WrongText(Plain):
    """A text states a number that is not the one that was computed."""


def binary():
    """The program: HANDOFF, else target/release/handoff, else `handoff` on PATH."""
    if named := os.environ.get("HANDOFF"):
        found = shutil.which(Path(named).absolute()) or shutil.which(named)
        if not found:
            raise HandoffError(f"HANDOFF is {named!r}, but there is no such program")
        return found
    built = ROOT / "target" / "release" / "handoff"
    found = shutil.which(built) or shutil.which("handoff")
    if not found:
        raise HandoffError(
            "no program `handoff`: build it with `cargo build --release`, or name it in the variable HANDOFF"
        )
    return found


class Results:
    """A result folder: `rows` is its rows.csv, `report` its report.json, if it has one."""

    def __init__(self, folder, document=None):
        self.folder = Path(folder)
        rows, report = self.folder / "rows.csv", self.folder / "report.json"
        self.rows = pd.read_csv(rows) if rows.exists() else None
        self.report = json.loads(report.read_text()) if report.exists() else document

    def figure(self, name="figure"):
        """The folder's own figure, as wide as the page at most."""
        text = (self.folder / f"{name}.svg").read_text()
        return SVG(
            re.sub(
                r'(<svg\b[^>]*?) width="(\d+)" height="\d+"',
                r'\1 width="100%" style="max-width: \2px"',
                text,
                count=1,
            )
        )


def run(command, text=False, show=True):
    """Runs `handoff COMMAND` and shows it; returns its results. With `text`, prints what a terminal would show."""
    if show:
        print(f"$ handoff {command}")
    words = shlex.split(command)
    # The report of a command without a folder of results is the document on its standard output.
    format_words = [] if text else ["--format", "json"]
    done = subprocess.run([binary(), *words, *format_words], cwd=WORK, capture_output=True, text=True)
    if done.returncode != 0:
        raise HandoffError(f"{done.stderr.strip()}\n(exit status {done.returncode})")
    if text:
        print(done.stdout.rstrip())
    folder = WORK / words[words.index("--out") + 1] if "--out" in words else WORK
    return Results(folder, None if text else json.loads(done.stdout))


def refusal(command):
    """Runs a command that must be refused, and shows why it was."""
    try:
        run(command)
    except HandoffError as error:
        print(error)
    else:
        raise WrongText("the text says that this command is refused, but it ran")


def results(name):
    """A folder below results/, with the line that says what made it."""
    folder = ROOT / "results" / name
    manifest = json.loads((folder / "manifest.json").read_text())
    print(f"results/{name}, made by\n$ {shlex.join(manifest['command'])}")
    print(f"commit {manifest['program']['commit'][:10]}, seed {manifest['seed']}, device: {manifest['device']}")
    for profile in manifest["profiles"]:
        print(f"profile {profile['name']}, sha256 {profile['sha256'][:16]}")
    return Results(folder)


def write(name, text, show=False):
    """Writes a file that commands can name; `show` prints it, where the cell does not spell it out."""
    (WORK / name).write_text(text)
    if show:
        print(f"{name}:\n{text.rstrip()}")


def copy(path, name=None):
    """Copies a file so that commands can name it; returns its name. Relative paths start at notebooks/ or at the root of the repository."""
    for base in (Path(__file__).parent, ROOT):
        if (base / path).is_file():
            return Path(shutil.copy(base / path, WORK / (name or Path(path).name))).name
    raise HandoffError(f"{path}: no such file, looked in notebooks/ and in the root of the repository")


def claim(text, value, stated, within):
    """Fails unless `value` is what the text states, to within an absolute difference."""
    if not abs(value - stated) <= within:  # NaN is refused, too.
        raise WrongText(f"the text says {text} = {stated:g} (within {within:g}), but it is {value:.6g}")
    print(f"holds: {text} = {value:.4g} (stated {stated:g}, within {within:g})")
