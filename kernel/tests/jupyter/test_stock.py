"""evcxr's own kernel runs notebooks with the lab: the fallback of `cargo lab install --stock`.

Needs nbclient and an installed kernel with the name `epsilab-stock`. NOTEBOOK is the first notebook.
"""

import os
import tempfile
import unittest
import unittest.mock
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

SHARED = [
    "use epsilab::burn::tensor::{Device, Tensor};\n"
    "let device = Device::default().autodiff();\n"
    "let a = Tensor::<1>::from_floats([1.0, 2.0], &device).require_grad();",
    "let b = Tensor::<1>::from_floats([3.0, 4.0], &device).require_grad();",
    "let gradients = (a.clone() * b.clone()).sum().backward();\n"
    'println!("da={} db={}", a.grad(&gradients).unwrap().to_data(), '
    "b.grad(&gradients).unwrap().to_data());",
]


def run(notebook, folder):
    client = NotebookClient(
        notebook,
        kernel_name="epsilab-stock",
        timeout=300,
        resources={"metadata": {"path": str(folder)}},
    )
    client.execute()


class Stock(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        os.environ.update(EPSILAB_PROFILE="tiny", EPSILAB_HOME=str(self.folder / "home"))

    def test_cells_share_the_library(self):
        notebook = new_notebook(cells=[new_code_cell(code) for code in SHARED])
        run(notebook, self.folder)
        texts = [output["text"] for output in notebook.cells[2].outputs if "text" in output]
        said = "".join(texts).replace(" ", "")
        # With a copy of the library in each cell, both gradients come out as [2, 4].
        self.assertIn("da=[3.0,4.0]", said)
        self.assertIn("db=[1.0,2.0]", said)

    def test_the_first_notebook_runs_with_text_and_final_figures(self):
        notebook = nbformat.read(os.environ["NOTEBOOK"], as_version=4)
        run(notebook, self.folder)
        outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
        figures = [o for o in outputs if "image/svg+xml" in o.get("data", {})]
        self.assertGreaterEqual(len(figures), 2)
        progress = [o for o in outputs if o.output_type == "stream" and "step " in o.text]
        self.assertTrue(progress)

    def test_the_kernelspec_rust_of_the_user_is_left_alone(self):
        # evcxr's kernel renews what it finds below JUPYTER_PATH, which is empty for it.
        rust = self.folder / "kernels" / "rust"
        rust.mkdir(parents=True)
        (rust / "version.txt").write_text("0.1.0")
        (rust / "kernel.json").write_text("{}")
        with unittest.mock.patch.dict(os.environ, JUPYTER_PATH=str(self.folder)):
            run(new_notebook(cells=[new_code_cell("1 + 1")]), self.folder)
        self.assertEqual((rust / "version.txt").read_text(), "0.1.0")
        self.assertEqual((rust / "kernel.json").read_text(), "{}")
        self.assertEqual(len(list(rust.iterdir())), 2)


if __name__ == "__main__":
    unittest.main()
