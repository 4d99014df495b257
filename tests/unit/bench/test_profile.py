"""Reading a profile: the engine's functions by name, everything else by library."""

from bench.profile import shares

REPORT = """
# Samples: 9K of event 'cpu-clock'
#
# Overhead,Shared Object   ,Symbol    ,IPC
 40.50% ,_engine.cpython-311-x86_64-linux-gnu.so   ,[.] products         ,-      -
    20.25%,[kernel.kallsyms],[k] clear_page
     9.25%,_engine.cpython-311-x86_64-linux-gnu.so,[.] dots
     5.00%,libgomp.so.1,[.] 0x1de62
     5.00%,libgomp.so.1,[.] 0x1e02a
"""


def test_functions_are_attributed_to_engine_or_library() -> None:
    assert shares(REPORT) == {"products": 0.405, "kernel": 0.2025, "libgomp": 0.1, "dots": 0.0925}
    assert list(shares(REPORT)) == ["products", "kernel", "libgomp", "dots"]


def test_profile_without_samples_is_empty() -> None:
    assert shares("# no samples\n\n") == {}
