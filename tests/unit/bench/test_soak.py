"""The soak: settings do not change a hash, prompts do, and a second hash is reported."""

import json
import os
import subprocess
import sys

from bench.soak_determinism import PROCESSES, Tally
from bench.soak_worker import MODELS, PROMPTS, Setting, perform, setting_of, tokens_of
from bytewise.inference.native.library import kernels


def test_prompt_hash_depends_on_the_prompt_and_not_on_settings() -> None:
    ways = [Setting("torch", "float64", 1, 7, 2, False), Setting("torch", "float64", 1, 64, 0, True)]
    ways += [Setting("native", kernel, 2, 3, 3, False) for kernel in kernels()]
    found = {perform(run, 0, way) for run, way in enumerate(ways)}
    assert len(found) == 1
    assert perform(0, 3, ways[0]) not in found


def test_settings_of_runs_vary_and_are_the_same_each_time() -> None:
    settings = [setting_of(run, MODELS[0]) for run in range(60)]
    assert settings == [setting_of(run, MODELS[0]) for run in range(60)]
    assert {setting.prefix for setting in settings} == {True, False} and {setting.threads for setting in settings} == {1, 2}
    assert len(tokens_of(1)) >= 2


def test_backend_that_is_wrong_in_a_process_is_replaced_as_the_engine_does() -> None:
    """With VNNI and libraries that are told that there is none, int8 products saturate. Elsewhere they are right."""
    ways = {run: setting_of(run, MODELS[run % PROMPTS % len(MODELS)]) for run in range(1, 400, 2)}
    run = next(run for run, setting in ways.items() if setting.path == "torch" and setting.way == "int8")
    command = [sys.executable, "-m", "bench.soak_worker", str(run), str(run + 1), "2"]
    found = {}
    for process, variables in enumerate(PROCESSES):
        done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, timeout=300, check=True)
        found[process] = json.loads(done.stdout)
        assert found[process].pop("way") in ("int8", "float64 for int8") and done.stderr.count("int8") <= 1
    assert found[0] == found[1]


def test_a_second_hash_of_a_prompt_is_reported() -> None:
    tally = Tally()
    for prompt, found in ((1, "a"), (2, "b"), (1, "a"), (2, "c")):
        tally.add(0, {"prompt": prompt, "hash": found, "path": "torch", "way": "float64"})
    report = tally.report()
    assert (report["runs"], report["prompts"], report["prompts_with_several_hashes"]) == (4, 2, [2])
