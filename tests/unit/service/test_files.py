"""Files that others read are whole whenever the process that writes them dies."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from bytewise.protocol.encoding import decode
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.keys.ceremony import CeremonyPurpose, SignedPlan
from bytewise.protocol.units import U256
from bytewise.service.files import replace_file
from chain.client.address_book import read_network, write_network
from kms.ceremony.coordinator import load_or_make_plan
from tests.fixtures.kms.ceremonies import COORDINATOR
from tests.fixtures.kms.crash_points import Crash, Fuse, watch_folder
from tests.fixtures.kms.dkg_fixture import ceremony_shards
from tests.fixtures.kms.served_ceremony import CONTRACTS, settings_for
from tests.fixtures.verifier.verifier_fixture import NETWORK


@pytest.fixture()
def fuse(tmp_path: Path) -> Fuse:
    """Dies at every change of a file in the folder."""
    lit = Fuse(lit=True)
    watch_folder(tmp_path, lit.moment)
    return lit


def test_interrupted_write_leaves_the_old_or_the_new_file(tmp_path: Path, fuse: Fuse) -> None:
    path, found = tmp_path / "public.json", list[bytes]()
    fuse.lit = False
    path.write_bytes(b"old")
    fuse.lit = True
    while not found or found[-1] != b"new":
        try:
            replace_file(path, b"new")
        except Crash:
            fuse.dead = False
        found.append(path.read_bytes())
    assert set(found) == {b"old", b"new"} and len(fuse.burnt) >= 3
    left = [each for each in tmp_path.iterdir() if each != path]
    assert all(each.match(f".{path.name}.*.new") for each in left) and len(left) <= len(fuse.burnt)


def test_file_replaces_another_and_nothing_else_is_touched(tmp_path: Path) -> None:
    (tmp_path / "plan.draft").write_bytes(b"somebody's")
    replace_file(tmp_path / "plan.json", b"one")
    replace_file(tmp_path / "plan.json", b"two")
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {"plan.draft": b"somebody's", "plan.json": b"two"}
    for wrong in (tmp_path / "nowhere" / "plan.json", tmp_path):
        with pytest.raises(ConfigurationError, match="name a file in a folder that can be written"):
            replace_file(wrong, b"three")
    assert len(list(tmp_path.iterdir())) == 2


def test_two_concurrent_writers_leave_a_complete_file(tmp_path: Path) -> None:
    path, texts = tmp_path / "network.json", [bytes([each]) * 100_000 for each in b"abcd"]

    def write(text: bytes) -> None:
        for _ in range(25):
            replace_file(path, text)
            assert path.read_bytes() in texts

    with ThreadPoolExecutor(len(texts)) as pool:
        list(pool.map(write, texts))
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_file_keeps_its_mode(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "bytewise.toml"
    path.write_bytes(b"old")
    path.chmod(mode)
    replace_file(path, b"new")
    assert stat.S_IMODE(path.stat().st_mode) == mode and path.read_bytes() == b"new"


def test_target_of_a_link_is_replaced(tmp_path: Path) -> None:
    shared, link = tmp_path / "shared" / "network.json", tmp_path / "network.json"
    shared.parent.mkdir()
    shared.write_bytes(b"old")
    link.symlink_to(shared)
    replace_file(link, b"new")
    assert link.is_symlink() and shared.read_bytes() == b"new" and len(list(shared.parent.iterdir())) == 1


def test_address_book_is_complete_whenever_its_writer_dies(tmp_path: Path, fuse: Fuse) -> None:
    path, other = tmp_path / "network.json", replace(NETWORK, chain_id=U256(7))
    fuse.lit = False
    write_network(path, NETWORK)
    fuse.lit = True
    while read_network(path) != other:
        try:
            write_network(path, other)
        except Crash:
            fuse.dead = False
            assert read_network(path) == NETWORK
    assert fuse.burnt


def test_coordinator_that_dies_writing_its_plan_resumes_by_the_command(tmp_path: Path, fuse: Fuse) -> None:
    fuse.lit = False
    settings, seen = settings_for(tmp_path, ceremony_shards(tmp_path / "shards", 2)[0], "new"), list[SignedPlan]()
    fuse.lit = True
    while not seen:
        try:
            seen.append(load_or_make_plan(settings, CeremonyPurpose.GENERATE, CONTRACTS, COORDINATOR, os.urandom))
        except Crash:
            fuse.dead = False
    assert fuse.burnt and decode(SignedPlan, settings.plan_file.read_bytes()) == seen[0]
