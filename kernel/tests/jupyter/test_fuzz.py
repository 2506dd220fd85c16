"""Malformed, unsigned and oversized messages: the kernel stays up, runs nothing of them, and answers
the next cell.

Needs the package jupyter_client and an installed kernel with the name `epsilab`.
"""

import hashlib
import hmac
import json
import os
import random
import tempfile
import time
import unittest
import uuid
from pathlib import Path

import zmq
from jupyter_client.manager import start_new_kernel

DELIMITER = b"<IDS|MSG>"
SOCKETS = ["shell_port", "control_port", "stdin_port"]
LARGE = 50 << 20


def header(kind):
    fields = {"msg_id": uuid.uuid4().hex, "msg_type": kind, "session": "s", "username": "u"}
    return json.dumps({**fields, "version": "5.3", "date": "2026-01-01T00:00:00Z"}).encode()


def resident(pid):
    """Memory of a process and its descendants in MiB."""
    total, todo = 0, [pid]
    while todo:
        one = todo.pop()
        try:
            status = Path(f"/proc/{one}/status").read_text()
            total += int(status.split("VmRSS:")[1].split()[0])
            for task in Path(f"/proc/{one}/task").iterdir():
                todo += map(int, (task / "children").read_text().split())
        except (OSError, IndexError):
            continue
    return total / 1024


class Fuzz(unittest.TestCase):
    def setUp(self):
        self.log = tempfile.TemporaryFile("w+")
        self.addCleanup(self.log.close)
        self.manager, self.client = start_new_kernel(kernel_name="epsilab", stderr=self.log)
        self.addCleanup(self.manager.shutdown_kernel, now=True)
        self.addCleanup(self.client.stop_channels)
        self.key = self.manager.session.key
        context = zmq.Context()
        self.addCleanup(context.term)
        self.sockets = []
        for name in SOCKETS:
            socket = context.socket(zmq.DEALER)
            socket.linger = 0
            socket.connect(f"tcp://127.0.0.1:{self.manager.get_connection_info()[name]}")
            self.addCleanup(socket.close)
            self.sockets.append(socket)

    def signed(self, parts):
        digest = hmac.new(self.key, digestmod=hashlib.sha256)
        for part in parts:
            digest.update(part)
        return [DELIMITER, digest.hexdigest().encode(), *parts]

    def run_cell(self, code):
        shown = []
        reply = self.client.execute_interactive(code, timeout=120, output_hook=shown.append)
        self.assertEqual(reply["content"]["status"], "ok", reply["content"])
        results = [m["content"]["data"] for m in shown if m["msg_type"] == "execute_result"]
        return results[0]["text/plain"] if results else None

    def test_no_message_stops_the_kernel_or_runs_without_a_signature(self):
        self.run_cell("let kept = 41;")
        before = resident(self.manager.provisioner.pid)
        written = Path(tempfile.mkdtemp()) / "written"
        code = f'std::fs::write("{written}", "x").unwrap();'
        cell = json.dumps({"code": code}).encode()
        execute = header("execute_request")
        unsigned = [
            [DELIMITER, key, execute, b"{}", b"{}", cell]
            for key in (b"", b"x", b"0" * 64, b"\xff" * 64)
        ]
        malformed = [
            [b""], [DELIMITER], [DELIMITER, b""], [b"a"] * 50, [DELIMITER] + [b""] * 5,
            [b"x" * LARGE], [DELIMITER, b"0" * 64, execute, b"{}", b"{}", b"x" * LARGE],
        ]
        signed = [
            [b"{", b"{}", b"{}", b"{}"],
            [execute, b"[]", b"3", b'"x"'],
            [execute, b"{}", b"{}", b'{"code": 5}'],
            [b"null"] * 4,
            [b"{}"] * 4,
            [header("\0odd"), b"{}", b"{}", b"{}"],
            [header("x" * 100_000), b"{}", b"{}", b"{}"],
            [b"[" * 100_000, b"{}", b"{}", b"{}"],
            [execute, b"{}", b"{}", b"[" * 200_000],
            [header("complete_request"), b"{}", b"{}",
             json.dumps({"code": "a" * 2_000_000, "cursor_pos": 10**18}).encode()],
            [header("history_request"), b"{}", b"{}",
             b'{"hist_access_type": "range", "session": -99999999999999999999}'],
            [header("comm_open"), b"{}", b"{}", b"{}"],
            [header("input_reply"), b"{}", b"{}", b'{"value": "x"}'],
        ]
        for socket in self.sockets:
            for frames in unsigned + malformed + [self.signed(parts) for parts in signed]:
                socket.send_multipart(frames)
        # Without shutdown_request: it is a right of those who have the key.
        kinds = ["kernel_info", "is_complete", "comm_info", "history", "nonsense"]
        contents = [b"{}", b'{"code": "fn f( {"}', b'{"code": "' + b"(" * 50 + b'"}']
        chance = random.Random(1)
        for _ in range(5_000):
            kind = header(f"{chance.choice(kinds)}_request")
            self.sockets[0].send_multipart(
                self.signed([kind, b"{}", b"{}", chance.choice(contents)])
            )
        for _ in range(2_000):
            frames = [chance.randbytes(chance.randrange(200)) for _ in range(chance.randint(1, 9))]
            chance.choice(self.sockets).send_multipart(frames)
        time.sleep(5)
        self.assertEqual(self.run_cell("kept + 1"), "42")
        self.assertFalse(written.exists(), "an unsigned cell was run")
        self.run_cell(code)
        self.assertTrue(written.exists(), "the cell does what the check looks for")
        written.unlink()
        os.rmdir(written.parent)
        grown = resident(self.manager.provisioner.pid) - before
        self.assertLess(grown, 300, "memory in MiB")
        self.log.seek(0)
        log = self.log.read()
        for said in ["wrong key", "Missing delimiter", "can't be read", "no msg_id"]:
            self.assertIn(said, log)


if __name__ == "__main__":
    unittest.main()
