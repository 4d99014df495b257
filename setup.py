"""What a wheel has beside the Python modules: the compiled engine, and files of the repository that are outside its packages.

The engine is optional: a machine without a compiler runs the torch path (ADR-006).
"""

import hashlib
from glob import glob
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_py import build_py

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


OUTSIDE = ("constraints.txt", "setup.py", *sorted(glob("models/lighthouse/*")))
"""What a measurement reads, and the demo's model; `bytewise.service.installation.own_file` finds them."""


class BuildWithFiles(build_py):
    """Copies `OUTSIDE` into the wheel. An editable install reads the checkout's own files."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            for name in OUTSIDE:
                copy = Path(self.build_lib) / "bytewise" / "packaged" / name
                copy.parent.mkdir(parents=True, exist_ok=True)
                self.copy_file(name, str(copy), preserve_mode=False)


setup(ext_modules=[ENGINE], cmdclass={"build_py": BuildWithFiles})
