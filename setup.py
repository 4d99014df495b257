"""The compiled engine: optional, so that a machine without a compiler runs the torch path (ADR-006)."""

import hashlib
from glob import glob
from pathlib import Path

from setuptools import Extension, setup

# These come last on the compiler's line and on the linker's, after CFLAGS of the environment: what fast-math there would add is
# taken back. The linker knows it too: it adds an object that switches subnormals off in whoever loads the engine.
EXACT = ["-O3", "-fno-unsafe-math-optimizations", "-fno-fast-math"]

# Contraction would round once where the profile rounds twice; the other two flags change no value. After `-fno-fast-math`, which
# gives all three their defaults back.
FLAGS = ["-std=gnu11", *EXACT, "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fvisibility=hidden", "-pthread"]

FOLDER = "bytewise/inference/native"

SOURCES, HEADERS = sorted(glob(f"{FOLDER}/*.c")), sorted(glob(f"{FOLDER}/*.h"))

# What was compiled: library.py does not load an engine that was made from other sources than those beside it.
DIGEST = hashlib.sha256(b"".join(Path(name).read_bytes() for name in sorted(SOURCES + HEADERS))).hexdigest()

ENGINE = Extension(
    "bytewise.inference.native._engine",
    sources=SOURCES,
    depends=[*HEADERS, "setup.py"],
    define_macros=[("SOURCE_DIGEST", f'"{DIGEST}"')],
    extra_compile_args=FLAGS,
    extra_link_args=[*EXACT, "-pthread"],
    optional=True,
)

setup(ext_modules=[ENGINE])
