"""Tools of Jupyter run notebooks on the kernel: nbconvert, papermill, the console, nbgrader.

Needs nbconvert, papermill, jupyter_console, nbgrader, the package in python/, and an installed kernel
with the name `epsilab`.
"""

import csv
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import nbformat
import papermill
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

SCRIPTS = Path(sys.executable).parent


def notebook(*cells):
    made = new_notebook(cells=[new_markdown_cell("# A title"), *cells])
    made.metadata["kernelspec"] = {
        "name": "epsilab",
        "language": "rust",
        "display_name": "Epsilab (Rust)",
    }
    return made


PARAMETERS = """\
let epochs: usize = 5; // passes over the data
let rate = 0.5;
let data = "glyphs";
let title = String::from("none");
let rates: Vec<f64> = vec![];
let limit: Option<u32> = None;
let private = true;"""

SHOWN = """\
let n: usize = epochs;
println!("{n}|{rate}|{data}|{title}|{rates:?}|{limit:?}|{private}");"""


class Tools(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, name, *cells):
        path = self.folder / name
        nbformat.write(notebook(*cells), path)
        return path

    def call(self, *args, **options):
        return subprocess.run(
            [SCRIPTS / args[0], *map(str, args[1:])],
            capture_output=True,
            text=True,
            timeout=300,
            env={**os.environ, "PYDEVD_DISABLE_FILE_VALIDATION": "1"},
            **options,
        )

    def test_nbgrader_makes_hand_outs_and_grades_what_comes_back(self):
        page = (Path(__file__).parents[3] / "book/src/how-to/teaching.md").read_text()
        page = page[page.index("## Graded by nbgrader") :].split("\n## ")[0]
        config, solution, tests = re.findall(r"```\w+\n(.*?)\n```", page, re.DOTALL)
        name = 'c.CourseDirectory.course_id = "privacy"'
        (self.folder / "nbgrader_config.py").write_text(f"c = get_config()\n{name}\n{config}\n")
        (self.folder / "source/ps1").mkdir(parents=True)
        about = {"schema_version": 3, "task": False}
        answer = {**about, "grade_id": "answer", "solution": True, "grade": False, "locked": False}
        graded = {**about, "grade_id": "tests", "solution": False, "grade": True, "locked": True}
        self.write(
            "source/ps1/sheet.ipynb",
            new_code_cell("use epsilab::prelude::*;"),
            new_code_cell(solution, metadata={"nbgrader": answer}),
            new_code_cell(tests, metadata={"nbgrader": {**graded, "points": 2}}),
        )
        done = self.call("nbgrader", "generate_assignment", "ps1", cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        released = nbformat.read(self.folder / "release/ps1/sheet.ipynb", 4)
        self.assertIn('todo!("your answer")', released.cells[2].source)
        self.assertNotIn("3.1", released.cells[2].source)

        answers = {"right": "let answer = 3.11;", "unanswered": None, "wrong": "let answer = 5.0;"}
        stub = released.cells[2].source
        for student, source in answers.items():
            released.cells[2].source = source or stub
            handed_in = self.folder / "submitted" / student / "ps1"
            handed_in.mkdir(parents=True)
            nbformat.write(released, handed_in / "sheet.ipynb")
        done = self.call("nbgrader", "autograde", "ps1", cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.call("nbgrader", "export", cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = csv.DictReader((self.folder / "grades.csv").read_text().splitlines())
        scores = {row["student_id"]: float(row["score"]) for row in rows}
        self.assertEqual(scores, {"right": 2, "unanswered": 0, "wrong": 0})
        wrong = (self.folder / "autograded/wrong/ps1/sheet.ipynb").read_text()
        self.assertIn("follow the curve to its left end", wrong)

    def test_nbconvert_executes_to_a_notebook_and_a_page(self):
        path = self.write("a.ipynb", new_code_cell("let x = 20;\nx + 1"))
        done = self.call("jupyter-nbconvert", "--to", "html", "--execute", path)
        self.assertEqual(done.returncode, 0, done.stderr)
        page = path.with_suffix(".html").read_text()
        self.assertIn("A title", page)
        self.assertIn("21", page)
        path = self.write("bad.ipynb", new_code_cell("undefined + 1"))
        done = self.call("jupyter-nbconvert", "--to", "notebook", "--execute", path)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("cannot find value `undefined`", done.stderr)

    def test_papermill_gives_parameters_the_types_of_the_notebook(self):
        parameters = new_code_cell(PARAMETERS, metadata={"tags": ["parameters"]})
        path = self.write("in.ipynb", parameters, new_code_cell(SHOWN))
        out = papermill.execute_notebook(
            path,
            self.folder / "out.ipynb",
            {
                "epochs": 3,
                "rate": 1,
                "data": "mnist",
                "title": 'a "b"\\\nc \u03b5',
                "rates": [0.1, 2],
                "limit": 7,
                "private": False,
            },
            progress_bar=False,
        )
        said = out.cells[-1].outputs[0].text
        self.assertEqual(said, '3|1|mnist|a "b"\\\nc \u03b5|[0.1, 2.0]|Some(7)|false\n')
        inserted = [c for c in out.cells if "injected-parameters" in c.metadata.tags]
        self.assertEqual(len(inserted), 1)
        self.assertTrue(inserted[0].source.startswith("// Parameters\n"))

    def test_papermill_names_parameters_and_refuses_wrong_values(self):
        parameters = new_code_cell(PARAMETERS, metadata={"tags": ["parameters"]})
        path = self.write("in.ipynb", parameters, new_code_cell(SHOWN))
        known = papermill.inspect_notebook(str(path))
        self.assertEqual(known["epochs"]["inferred_type_name"], "usize")
        self.assertEqual(known["epochs"]["help"], "passes over the data")
        self.assertEqual(known["data"]["default"], '"glyphs"')
        for wrong in [{"epochs": 0.5}, {"private": "maybe"}]:
            with self.assertRaises(papermill.PapermillExecutionError) as failed:
                papermill.execute_notebook(
                    path, self.folder / "out.ipynb", wrong, progress_bar=False
                )
            self.assertIn("the notebook expects", str(failed.exception))

    def test_the_console_prints_results_and_errors(self):
        typed = "let x = 20;\nx + 1\nundefined\n"
        done = self.call(
            "jupyter-console", "--kernel", "epsilab", "--simple-prompt", input=typed
        )
        self.assertIn("21", done.stdout, done.stderr)
        self.assertIn("cannot find value `undefined`", done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
