"""The kernel speaks the protocol as Jupyter's own test suite expects it.

Needs the package jupyter_kernel_test and an installed kernel with the name `epsilab`.
"""

import os
import tempfile
import unittest
from pathlib import Path

import jupyter_client
import jupyter_kernel_test


class EpsilabKernelTests(jupyter_kernel_test.KernelTests):
    kernel_name = "epsilab"
    language_name = "rust"
    file_extension = ".rs"

    code_hello_world = 'println!("hello, world");'
    code_stderr = 'eprintln!("a warning");'
    completion_samples = [
        {"text": "std::collections::BTreeM", "matches": {"BTreeMap"}},
        {"text": ":ledg", "matches": {":ledger"}},
        {"text": "let v: Vec<u8> = vec![];\nv.is_em", "matches": {"is_empty"}},
    ]
    complete_code_samples = ["1 + 1", "let x = 1;", "fn f() {}", ":vars", "// a comment", "?Vec"]
    incomplete_code_samples = ["fn f() {", "let x =", "vec![1,", '"text', "/* comment", "x."]
    invalid_code_samples = ["fn f() }", ")", "vec![1)"]
    code_page_something = "?Vec::push"
    code_generate_error = "let n: u8 = \"text\";"
    code_execute_result = [
        {"code": "1 + 2", "result": "3"},
        {"code": "(1..4).sum::<u32>()", "result": "6"},
        {"code": "\"text\"", "result": "\"text\""},
        {"code": "1 + 2", "result": "3"},
        {"code": "1 + 2", "result": "3"},
    ]
    code_display_data = [
        {"code": "epsilab::show::Table::new([\"a\"]).show();", "mime": "text/html"},
        {
            "code": "use epsilab::prelude::*;\n"
            "figures::trade_off(&[Event::gaussian(1.0)])?.show();",
            "mime": "image/svg+xml",
        },
    ]
    code_history_pattern = "1 ? 2*"
    supported_history_operations = ("tail", "range", "search")
    code_inspect_sample = "Vec::push"
    code_clear_output = "epsilab::show::clear_output(false);"

    def test_every_error_is_one_message(self):
        self.flush_channels()
        for code in ["undefined", "panic!(\"stop\")", "Err::<(), String>(\"no\".into())?;"]:
            with self.subTest(code=code):
                reply, messages = self.execute_helper(code)
                self.assertEqual(reply["content"]["status"], "error")
                self.assertEqual([m["msg_type"] for m in messages].count("error"), 1, messages)

    def test_expressions_beside_a_cell_have_values_or_errors(self):
        self.flush_channels()
        asked = {"value": "6 * 7", "wrong": "undefined"}
        message = self.kc.execute("let n = 1;", user_expressions=asked)
        self.assertTrue(message)
        answers = self.get_non_kernel_info_reply(timeout=60)["content"]["user_expressions"]
        self.assertEqual(answers["value"]["data"]["text/plain"], "42")
        self.assertEqual((answers["value"]["status"], answers["value"]["metadata"]), ("ok", {}))
        self.assertEqual(answers["wrong"]["status"], "error")
        self.assertIn("undefined", answers["wrong"]["evalue"])


class Ends(unittest.TestCase):
    """A cell that waits for input, and starts that fail."""

    def start(self, **options):
        manager = jupyter_client.KernelManager(kernel_name="epsilab")
        manager.start_kernel(**options)
        self.addCleanup(manager.shutdown_kernel, now=True)
        client = manager.client()
        client.start_channels()
        self.addCleanup(client.stop_channels)
        return manager, client

    def waiting(self, folder):
        """A kernel whose cell asks before it removes a file."""
        (folder / "precious").write_text("data")
        manager, client = self.start()
        client.wait_for_ready(timeout=300)
        path = folder / "precious"
        ask = f'''{{
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    if answer.trim() != "keep" {{ std::fs::remove_file("{path}")?; }}
}}'''
        client.execute(ask, allow_stdin=True)
        self.assertEqual(client.get_stdin_msg(timeout=300)["msg_type"], "input_request")
        return manager, client, path

    def test_an_interrupt_is_not_an_empty_answer(self):
        with tempfile.TemporaryDirectory() as folder:
            manager, client, path = self.waiting(Path(folder))
            manager.interrupt_kernel()
            reply = client.get_shell_msg(timeout=60)
            while reply["msg_type"] != "execute_reply":
                reply = client.get_shell_msg(timeout=60)
            self.assertEqual(reply["content"]["status"], "error")
            self.assertTrue(path.exists(), "the cell went on")

    def test_neither_a_restart_nor_the_end_is_an_empty_answer(self):
        for end in ["restart_kernel", "shutdown_kernel"]:
            with self.subTest(end=end), tempfile.TemporaryDirectory() as folder:
                manager, _, path = self.waiting(Path(folder))
                getattr(manager, end)()
                self.assertTrue(path.exists(), "the cell went on")

    def test_a_folder_that_is_missing_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            address = os.path.join(folder, "no", "such", "folder", "kernel")
            manager = jupyter_client.KernelManager(
                kernel_name="epsilab", transport="ipc", ip=address
            )
            log = Path(folder) / "log"
            with log.open("w") as said:
                manager.start_kernel(stderr=said)
                self.addCleanup(manager.shutdown_kernel, now=True)
                manager.provisioner.process.wait(timeout=60)
            self.assertIn("does not exist", log.read_text())
            self.assertNotIn("in use", log.read_text())


if __name__ == "__main__":
    unittest.main()
