"""What .ci/notebooks relies on: a stale output is seen, a wrong file is explained in the notebook, an edited one moves the numbers."""

import copy
import csv
import io
import tempfile
import unittest
from pathlib import Path

import nbformat
from nbclient.exceptions import CellExecutionError

import run

OWN = "05_your_own_pair.ipynb"


def notebook(name=OWN):
    return nbformat.read(run.FOLDER / name, as_version=4)


def with_file(text, example="data/profile.csv"):
    """The last notebook as someone would run it who has edited one of the example's files so."""
    own = notebook()
    with tempfile.TemporaryDirectory() as folder:
        mine = Path(folder) / "mine.csv"
        mine.write_text(text)
        first = next(cell for cell in own.cells if cell.cell_type == "code")
        assert f'"{example}"' in first.source
        first.source = first.source.replace(example, str(mine))
        return run.execute(own)


def edited(change):
    """The example's profile as rows, changed by `change(row, line)`; lines count from 1, the header's."""
    text = (run.FOLDER / "data" / "profile.csv").read_text()
    rows = list(csv.DictReader(io.StringIO(text)))
    for line, row in enumerate(rows, 2):
        change(row, line)
    out = io.StringIO()
    writer = csv.DictWriter(out, rows[0].keys(), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


class WrongFiles(unittest.TestCase):
    def refusal(self, text, *example):
        with self.assertRaises(CellExecutionError) as raised:
            with_file(text, *example)
        self.assertEqual(raised.exception.ename, "HandoffError")
        return raised.exception.evalue

    def test_a_negative_time_is_named_with_line_and_field(self):
        message = self.refusal(edited(lambda row, line: row.update(mean_us="-5150") if line == 4 else None))
        for part in ("mine.csv:4", "`mean_us`", "-5150", "expected", "exit status 2"):
            self.assertIn(part, message)

    def test_a_text_is_named_with_line_and_field(self):
        message = self.refusal(edited(lambda row, line: row.update(rows="four") if line == 3 else None))
        for part in ("mine.csv:3", "`rows`", "four", "expected"):
            self.assertIn(part, message)

    def test_a_missing_column_is_named(self):
        lines = (run.FOLDER / "data" / "profile.csv").read_text().splitlines()
        at = lines[0].split(",").index("mean_us")
        text = "\n".join(
            ",".join(field for idx, field in enumerate(line.split(",")) if idx != at) for line in lines
        )
        self.assertIn("column `mean_us` is missing", self.refusal(text))

    def test_an_unknown_model_is_named(self):
        text = (run.FOLDER / "data" / "profile.csv").read_text().replace("Qwen3-8B", "Qwen3-9B")
        self.assertIn("Qwen3-8B", self.refusal(text))

    def test_a_route_to_a_model_that_is_not_there_is_named_with_line_and_field(self):
        lines = (run.FOLDER / "data" / "routes.csv").read_text().splitlines()
        request, step, model, _, committed, entropy = lines[4].split(",")
        lines[4] = ",".join((request, step, model, "7", committed, entropy))
        message = self.refusal("\n".join(lines), "data/routes.csv")
        for part in ("mine.csv", "5", "`destination`", "7"):
            self.assertIn(part, message)


class EditedProfile(unittest.TestCase):
    def test_a_slower_small_model_is_seen_and_the_example_claims_step_aside(self):
        def slower(row, _line):
            if row["model"] == "Qwen3-8B" and row["kind"] in ("decode", "extend"):
                row["mean_us"] = str(4 * int(row["mean_us"]))

        executed = with_file(edited(slower))
        said = "\n".join(line for lines in run.texts(executed) for line in lines)
        self.assertIn("mine.csv: not the example", said)
        # A small model that is as slow as the large one cannot pay with more than one request.
        self.assertIn("C = 4: even switching pays at no N for good", said)


class ExampleProfile(unittest.TestCase):
    def test_its_rows_are_measured_ones_rounded(self):
        def points(path):
            point = (
                "device",
                "model",
                "kind",
                "graph",
                "rows",
                "new_tokens",
                "kv_tokens",
                "peer_model",
                "peer_rows",
            )
            with path.open() as file:
                return {tuple(row[column] for column in point): row for row in csv.DictReader(file)}

        measured = points(run.FOLDER.parent / "results" / "profile-h200" / "graphs" / "profile.csv")
        typed = points(run.FOLDER / "data" / "profile.csv")
        self.assertEqual(len(typed), 42)
        for point, row in typed.items():
            column, step = ("rate", 0.01) if row["kind"] == "corun" else ("mean_us", 10)
            self.assertLessEqual(abs(float(row[column]) - float(measured[point][column])), 0.501 * step, point)


class Comparison(unittest.TestCase):
    def test_a_changed_number_is_a_difference_and_a_changed_figure_is_none(self):
        committed = notebook()
        changed = copy.deepcopy(committed)
        for cell in changed.cells:
            for output in cell.get("outputs", []):
                if output.output_type != "stream" and "image/png" in output.data:
                    output.data["image/png"] = "AAAA"
        self.assertEqual(run.differences(committed, changed), [])
        stream = next(
            output
            for cell in changed.cells
            for output in cell.get("outputs", [])
            if output.output_type == "stream"
        )
        stream.text = stream.text.replace("1", "2", 1)
        self.assertEqual(len(run.differences(committed, changed)), 1)

    def test_a_path_of_the_machine_and_a_timestamp_are_faults(self):
        path = run.FOLDER / OWN
        text = path.read_text()
        self.assertEqual(run.faults(path, text), [])
        shown = text.replace("pair.toml:", "/home/somebody/pair.toml:", 1)
        self.assertTrue(any("/home/somebody" in fault for fault in run.faults(path, shown)))
        timed = nbformat.reads(text, as_version=4)
        timed.cells[0].metadata["execution"] = {"iopub.status.idle": "2026-01-01T00:00:00Z"}
        self.assertTrue(any("not normalised" in fault for fault in run.faults(path, run.serialised(timed))))


if __name__ == "__main__":
    unittest.main()
