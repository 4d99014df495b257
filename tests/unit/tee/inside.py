"""Code that is tried in a process of its own, with or without fences around it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from bytewise.service.settings import child_environment

ROOT = Path(__file__).resolve().parents[3]

PROGRAM = """
import ctypes, json, mmap, os, re, resource, signal, socket, struct, subprocess, sys, threading
from bytewise.tee import confinement
from bytewise.tee.confinement import *
libc = ctypes.CDLL(None, use_errno=True)
def powerless():
    assert libc.capset(struct.pack("II", 0x20080522, 0), bytes(24)) == 0
    libc.prctl(4, 1, 0, 0, 0)  # such a change closes the process by itself
def plain():
    if os.getuid() == 0:
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        except PermissionError:  # root of a container that may not
            pass
    powerless()
def tried(act):
    try:
        act()
        return "done"
    except (OSError, MemoryError) as error:
        return type(error).__name__
def system(number, *arguments):
    return "done" if libc.syscall(number, *arguments) >= 0 else os.strerror(ctypes.get_errno())
def thread():
    started = threading.Thread(target=lambda: None)
    started.start()
    started.join()
def forked():
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
"""
"""What all such code may use."""


def said(code: str) -> Any:
    """What a process of its own prints as JSON."""
    command = [sys.executable, "-c", PROGRAM + code]
    done = subprocess.run(command, cwd=ROOT, env=child_environment(), capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
