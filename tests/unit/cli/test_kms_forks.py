"""`bytewise key forks`: what a shard kept of a coordinator's second log, in files that anybody verifies."""

from pathlib import Path

import pytest

from bytewise.protocol.errors.actors import LogForked
from bytewise.protocol.keys.ceremony import CeremonyPlan
from bytewise.protocol.units import hex0x
from bytewise.service.exit_codes import Exit
from cli.__main__ import main
from tests.fixtures.kms.ceremonies import COORDINATOR
from tests.fixtures.kms.ceremony_runs import run
from tests.fixtures.kms.dkg_fixture import CeremonyShard, brought, ceremony_shards, coordinator_of, plan


def show(shard: CeremonyShard, *more: str) -> int:
    """As the shard's operator asks; the exit code."""
    (shard.folder / "bytewise.toml").write_text(
        'folder = "."\nepoch_file = "epoch.json"\npolicy_file = "policy.json"\n'
        'network_file = "network.json"\nhost = "127.0.0.1"\nport = 1\nchannel_port = 2\n'
        'rpc_url = "http://127.0.0.1:1"\naudits_per_epoch = 1\nproduction = false\n'
        f'database_url = "sqlite:///{shard.folder / "kms.sqlite"}"\n'
    )
    return main(["key", "forks", "show", "--config", str(shard.folder / "bytewise.toml"), *more])


def verify(*arguments: object) -> int:
    return main(["key", "forks", "verify", *map(str, arguments)])


def forked(folder: Path) -> tuple[list[CeremonyShard], CeremonyPlan]:
    """Shard 1 was shown two logs of a ceremony, shard 2 one, shard 3 the other."""
    shards, _ = ceremony_shards(folder, 3)
    agreed = plan(shards, 2, 3)
    words = tuple(message for each in shards for message in each.exchange(brought(agreed)).messages)
    for shard, log in zip(shards, (words, words[:3], words[::-1]), strict=True):
        shard.exchange(brought(agreed, log))
    with pytest.raises(LogForked):
        shards[0].exchange(brought(agreed, words[::-1]))
    return shards, agreed


def test_shard_shows_the_second_log_and_any_reader_verifies_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shards, agreed = forked(tmp_path)
    files = [tmp_path / f"of-{n}" / f"ceremony-{agreed.digest.hex()[:16]}.json" for n in (1, 2, 3)]
    codes = [show(shard, "--out", str(file.parent)) for shard, file in zip(shards, files, strict=True)]
    assert codes == [Exit.MISMATCH, Exit.OK, Exit.OK]
    said = capsys.readouterr().out
    sentence = f"coordinator {COORDINATOR.address} signed two logs of ceremony {hex0x(agreed.digest)}"
    assert said.count(sentence) == 1 and said.count("1 logs of this shard: no coordinator signed two of one ceremony") == 2
    checksummed = COORDINATOR.address.upper().replace("0X", "0x")
    for given, code in (
        (files[:1], Exit.MISMATCH), (files[1:2], Exit.OK), (files[:2], Exit.MISMATCH), (files[1:], Exit.MISMATCH),
        ([files[1], files[1]], Exit.OK), (["--coordinator", checksummed, *files], Exit.MISMATCH),
    ):  # fmt: skip
        assert verify(*given) == code
        assert (said := capsys.readouterr().out).count(sentence) == (code == Exit.MISMATCH)
        assert str(agreed.key_epochs) in said or code == Exit.OK


def test_honest_coordinators_logs_convict_nobody_and_bad_files_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shards, _ = ceremony_shards(tmp_path, 2)
    assert show(shards[0]) == Exit.OK
    assert "0 logs of this shard" in capsys.readouterr().out
    assert show(shards[0], "--out", str(shards[0].folder / "bytewise.toml")) == Exit.USAGE
    assert "--out: bytewise.toml: File exists" in capsys.readouterr().err
    for _ in range(2):
        run(coordinator_of(tmp_path, plan(shards, 2, 2), shards))
    for number, shard in enumerate(shards):
        assert show(shard, "--out", str(tmp_path / f"of-{number}")) == Exit.OK
    files = sorted(tmp_path.glob("of-*/ceremony-*.json"))
    assert len(files) == 4 and verify(*files) == Exit.OK
    assert "4 logs of 2 ceremonies: no coordinator signed two of one ceremony" in capsys.readouterr().out
    assert verify("--coordinator", shards[0].signer.address, files[0]) == Exit.USAGE
    assert f"of coordinator {COORDINATOR.address}, not of {shards[0].signer.address}" in "".join(
        capsys.readouterr().err.split("\n")
    )
    assert verify("--coordinator", "0x12", files[0]) == verify(tmp_path / "none.json") == verify() == Exit.USAGE
    altered = tmp_path / "altered.json"
    altered.write_bytes(files[0].read_bytes().replace(b'"fork":null', b'"fork":{}'))
    assert verify(altered) == Exit.USAGE
    assert "altered.json" in capsys.readouterr().err
