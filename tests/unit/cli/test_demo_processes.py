"""What the demo says about its processes."""

import os
import threading

from bytewise.tee import confinement
from cli.demo.processes import _pss
from enclave.forked_process import ForkedProcess


def test_process_unreadable_to_this_user_does_not_hide_the_others() -> None:
    here, there = os.pipe()

    def closed() -> None:
        confinement.deny_inspection()
        os.write(there, b"x")
        threading.Event().wait()

    def work() -> None:
        ForkedProcess(closed)
        threading.Event().wait()

    process = ForkedProcess(work)
    os.close(there)
    assert os.read(here, 1) == b"x" and _pss(process.pid) > 0
    process.kill()
    process.reap()
    os.close(here)
