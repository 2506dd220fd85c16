"""JupyterLab in a browser: runs a notebook, stops a training run, restarts, completes names.

Needs jupyterlab, playwright, pillow, a Chromium (CHROMIUM, default /usr/bin/chromium) and an
installed kernel with the name `epsilab`. Screenshots go to the folder EPSILAB_SCREENSHOTS, if set.
"""

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_notebook
from PIL import Image
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[3]
MINUTE = 60_000


class Lab:
    """JupyterLab with a folder of notebooks."""

    def __init__(self, folder):
        env = {**os.environ, "EPSILAB_PROFILE": "tiny"}
        options = [
            "--no-browser", "--allow-root", "--port=0", "--IdentityProvider.token=test",
            "--expose-app-in-browser", "--LabApp.news_url=None", "--LabApp.check_for_updates_class="
            "jupyterlab.NeverCheckForUpdate", f"--ServerApp.root_dir={folder}",
        ]
        self.process = subprocess.Popen(
            [Path(sys.executable).parent / "jupyter-lab", *options],
            stderr=subprocess.PIPE, text=True, env=env,
        )
        for line in self.process.stderr:
            if found := re.search(r"http://(?:127\.0\.0\.1|localhost):(\d+)/lab", line):
                self.url = f"http://127.0.0.1:{found[1]}"
                break
        # Nobody reads the rest, so it must not fill the pipe.
        self.drain = subprocess.Popen(["cat"], stdin=self.process.stderr, stdout=subprocess.DEVNULL)

    def stop(self):
        self.process.terminate()
        self.process.wait(30)
        self.drain.wait(10)
        self.process.stderr.close()


class Notebook:
    """A notebook that is open in the browser."""

    def __init__(self, page, url, name):
        self.page = page
        page.goto(f"{url}/lab/tree/{name}?token=test&reset", timeout=2 * MINUTE)
        page.wait_for_selector(".jp-Notebook .jp-CodeCell .cm-content", timeout=2 * MINUTE)
        page.wait_for_function("window.jupyterapp !== undefined", timeout=MINUTE)
        page.wait_for_function(
            "() => { const context = window.jupyterapp.shell.currentWidget?.sessionContext;"
            " const kernel = context?.session?.kernel;"
            " return context?.isReady && kernel?.connectionStatus === 'connected'"
            " && kernel.status === 'idle'; }",
            timeout=MINUTE,
        )

    def command(self, name):
        """Starts a command of JupyterLab without waiting for its end."""
        self.page.evaluate("name => { window.jupyterapp.commands.execute(name); }", name)

    def cell(self, number):
        return self.page.locator(".jp-Notebook .jp-CodeCell").nth(number)

    def select(self, number):
        self.cell(number).locator(".cm-content").click()

    def output(self, number):
        return self.cell(number).locator(".jp-OutputArea-output")

    def errors(self, number):
        """What the cell shows as an error or printed to standard error."""
        return "".join(self.cell(number).locator("[data-mime-type$=stderr]").all_text_contents())

    def run(self, number):
        """Starts a cell. JupyterLab ignores the command while it attaches to the kernel."""
        prompt = self.cell(number).locator(".jp-InputPrompt")
        before = prompt.inner_text()
        for _ in range(10):
            self.select(number)
            self.command("notebook:run-cell")
            until = time.time() + 5
            while time.time() < until:
                if prompt.inner_text() != before:
                    return
                time.sleep(0.05)
        raise AssertionError(f"cell {number} does not start: {before}")

    def wait_until_done(self, number, minutes=2):
        prompt = self.cell(number).locator(".jp-InputPrompt")
        deadline = time.time() + 60 * minutes
        # Not its inner text, which is empty where JupyterLab does not render a cell out of view.
        while not re.search(r"\[\d+\]", prompt.text_content()):
            if time.time() > deadline:
                raise AssertionError(f"cell {number} has not ended: {prompt.text_content()}")
            time.sleep(0.1)


# How far all that holds a chart is scrolled, and what the chart shows.
SCROLLED = """chart => {
    let sum = 0;
    for (let place = chart; place; place = place.parentElement) sum += place.scrollTop;
    return sum;
}"""
SHOWN = "chart => chart.toDataURL ? chart.toDataURL() : chart.outerHTML"


def changes(read, before, seconds=10):
    """Whether another value is read soon."""
    deadline = time.time() + seconds
    while time.time() < deadline:
        if read() != before:
            return True
        time.sleep(0.1)
    return False


def colours(png):
    """Number of different colours in a picture."""
    found = Image.open(io.BytesIO(png)).convert("RGB").getcolors(1 << 24)
    return len(found or [])


class Browser(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp())
        shutil.copy(ROOT / "notebooks/01_first_private_model.ipynb", cls.folder / "first.ipynb")
        cells = [
            "use epsilab::prelude::*;",
            "let data = data::glyphs()?.limit(2_000, 500);\nlet model = models::papernot_cnn(&data).build()?;\n"
            "let kept = 41;",
            "let run = DpSgd::new().noise_multiplier(1.0).batch_size(256).epochs(5_000)"
            ".train(&model, &data)?;",
            "kept + 1",
            "lab::remain",
        ]
        made = new_notebook(cells=[new_code_cell(cell) for cell in cells])
        made.metadata["kernelspec"] = {"name": "epsilab", "display_name": "Epsilab (Rust)"}
        nbformat.write(made, cls.folder / "stop.ipynb")
        cls.lab = Lab(cls.folder)
        cls.playwright = sync_playwright().start()
        cls.chromium = cls.playwright.chromium.launch(
            executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"), args=["--no-sandbox"]
        )

    @classmethod
    def tearDownClass(cls):
        cls.chromium.close()
        cls.playwright.stop()
        cls.lab.stop()
        shutil.rmtree(cls.folder, ignore_errors=True)

    def open(self, name):
        page = self.chromium.new_page(viewport={"width": 1400, "height": 1000})
        self.addCleanup(page.close)
        self.addCleanup(lambda: self.screenshot(page, f"end-of-{name}"))
        return Notebook(page, self.lab.url, name)

    def screenshot(self, place, name):
        png = place.screenshot()
        if folder := os.environ.get("EPSILAB_SCREENSHOTS"):
            Path(folder).mkdir(parents=True, exist_ok=True)
            (Path(folder) / f"{name}.png").write_bytes(png)
        return png

    def test_the_first_notebook_runs_and_its_figures_are_drawn(self):
        book = self.open("first.ipynb")
        book.command("notebook:run-all-cells")
        # JupyterLab adds cells to the page one after the other, so only the file has their number.
        cells = nbformat.read(self.folder / "first.ipynb", 4).cells
        for number in range(sum(cell.cell_type == "code" for cell in cells)):
            book.cell(number).scroll_into_view_if_needed()
            book.wait_until_done(number)
        self.assertEqual(book.page.locator(".jp-OutputArea [data-mime-type$=stderr]").count(), 0)
        # Outputs are drawn after the number of their cell.
        statement = book.page.locator(".jp-OutputArea").get_by_text("differentially private")
        statement.first.wait_for(state="attached", timeout=MINUTE)
        # Figures of runs are drawn by Vega, which JupyterLab has; pictures of examples are SVG.
        drawn = ".jp-RenderedSVG img", "[class*=jp-RenderedVega] .marks"
        figures = book.page.locator(", ".join(f".jp-Notebook {place}" for place in drawn))
        figures.nth(2).wait_for(timeout=MINUTE)
        for number in range(figures.count()):
            figure = figures.nth(number)
            figure.scroll_into_view_if_needed()
            self.assertGreater(colours(self.screenshot(figure, f"figure-{number}")), 20)
        self.screenshot(book.page, "first")
        charts = book.page.locator(f".jp-Notebook {drawn[1]}")
        zoomed = [self.wheel(book, charts.nth(number)) for number in range(charts.count())]
        self.assertIn(True, zoomed)

    def wheel(self, book, chart):
        """The wheel over a chart scrolls the notebook only. True if it zooms with Ctrl."""
        chart.scroll_into_view_if_needed()
        place = chart.bounding_box()
        x, y = place["x"] + place["width"] / 2, place["y"] + place["height"] / 2
        book.page.mouse.move(x, y)
        book.page.wait_for_timeout(500)
        shown, scrolled = chart.evaluate(SHOWN), chart.evaluate(SCROLLED)
        book.page.mouse.wheel(0, -60 if scrolled > 60 else 60)
        self.assertTrue(changes(lambda: chart.evaluate(SCROLLED), scrolled, 60))
        self.assertEqual(chart.evaluate(SHOWN), shown)
        # The notebook scrolls smoothly, and the chart with it. A turn with Ctrl is given when it
        # rests, in the middle of where the chart is then: titles and margins do not zoom.
        chart.scroll_into_view_if_needed()
        while changes(lambda: chart.evaluate(SCROLLED), chart.evaluate(SCROLLED), 1):
            pass
        scrolled, place = chart.evaluate(SCROLLED), chart.bounding_box()
        book.page.mouse.move(x, place["y"] + place["height"] / 2)
        book.page.wait_for_timeout(500)
        shown = chart.evaluate(SHOWN)
        book.page.keyboard.down("Control")
        book.page.mouse.wheel(0, -240)
        zoomed = changes(lambda: chart.evaluate(SHOWN), shown, 10)
        book.page.keyboard.up("Control")
        if zoomed:
            self.assertEqual(chart.evaluate(SCROLLED), scrolled)
            self.screenshot(book.page, "zoomed")
        return zoomed

    def test_a_stopped_run_keeps_variables_and_a_restart_loses_them(self):
        book = self.open("stop.ipynb")
        for number in (0, 1):
            book.run(number)
            book.wait_until_done(number)
            self.assertEqual(book.errors(number), "")
        book.run(2)
        chart = book.cell(2).locator(".jp-RenderedSVG img, .jp-RenderedSVG svg").first
        chart.wait_for(timeout=MINUTE)
        # A frame replaces the element, so the picture is of the place where it stands.
        place = chart.bounding_box()
        frames = set()
        for _ in range(40):
            frames.add(book.page.screenshot(clip=place))
            if len(frames) > 2:
                break
            time.sleep(0.25)
        self.assertGreater(len(frames), 2, "the chart does not change")
        book.command("notebook:interrupt-kernel")
        book.wait_until_done(2)
        book.run(3)
        book.wait_until_done(3)
        self.assertEqual(book.errors(2), "")
        self.assertIn("42", book.output(3).inner_text())
        self.screenshot(book.page, "stopped")

        book.select(4)
        book.page.keyboard.press("End")
        book.page.keyboard.press("Tab")
        book.page.wait_for_function(
            "() => document.querySelectorAll('.jp-CodeCell .cm-content')[4].innerText"
            ".includes('remaining') || document.querySelector('.jp-Completer:not(.lm-mod-hidden)')",
            timeout=MINUTE // 2,
        )
        seen = book.page.locator(".jp-Completer").all_inner_texts() + [book.cell(4).inner_text()]
        self.assertIn("remaining", " ".join(seen))
        self.screenshot(book.page, "completion")
        book.page.keyboard.press("Escape")

        book.command("notebook:restart-kernel")
        book.page.locator(".jp-Dialog button.jp-mod-accept").click(timeout=MINUTE)
        book.page.wait_for_selector(".jp-Dialog", state="detached", timeout=MINUTE)
        book.run(3)
        book.cell(3).get_by_text("cannot find value `kept`").wait_for(timeout=MINUTE)


if __name__ == "__main__":
    unittest.main()
