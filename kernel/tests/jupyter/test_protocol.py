"""The kernel speaks the protocol as Jupyter's own test suite expects it.

Needs the package jupyter_kernel_test and an installed kernel with the name `epsilab`.
"""

import unittest

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


if __name__ == "__main__":
    unittest.main()
