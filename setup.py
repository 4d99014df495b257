"""The compiled engine: optional, so that a machine without a compiler runs the torch path (docs/adr/031)."""

from glob import glob

from setuptools import Extension, setup

# Contraction would round once where the profile rounds twice; the other two flags change no value.
FLAGS = ["-std=gnu11", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fvisibility=hidden", "-pthread"]

FOLDER = "bytewise/inference/native"

ENGINE = Extension(
    "bytewise.inference.native._engine",
    sources=sorted(glob(f"{FOLDER}/*.c")),
    depends=sorted(glob(f"{FOLDER}/*.h")),
    extra_compile_args=FLAGS,
    extra_link_args=["-pthread"],
    optional=True,
)

setup(ext_modules=[ENGINE])
