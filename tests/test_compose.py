"""`docker-compose.yml`: generated from the demo's table of processes, and every container has no more than it needs."""

import hashlib
import importlib.util
import io
import itertools
import json
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.service.exit_codes import Exit
from bytewise.service.settings import load_settings
from cli.demo import actors
from cli.demo.containers import FOLDER, PORTS, ContainerSite, main, metrics_port, prepare, site_in
from cli.demo.plan import OPERATORS, SHARDS, VERIFIERS
from cli.demo.site import new_site, write_toml
from dashboard.monitor.settings import MonitorSettings
from deploy.image import build, oci
from tests.source import PACKAGES, ROOT

FILE = ROOT / "docker-compose.yml"
DOCUMENT: dict[str, Any] = yaml.safe_load(FILE.read_text())
SERVICES: dict[str, dict[str, Any]] = DOCUMENT["services"]
ENCLAVES = [f"{name}-enclave" for name in VERIFIERS]
OTHER_IMAGES = {"postgres", "prometheus", "grafana"}
SHARD_NAMES = [f"shard{index}" for index in range(1, SHARDS + 1)]
EVERY = pytest.mark.parametrize("name", sorted(SERVICES))


def sources(name: str) -> list[tuple[str, str]]:
    """Source and mode of each mount of a container; mode `rw` or `ro`."""
    found = []
    for text in SERVICES[name].get("volumes", []):
        source, _, rest = text.replace("${BYTEWISE_NETWORK:-./runs/compose}", "NETWORK").partition(":")
        found.append((source, "ro" if rest.endswith(":ro") else "rw"))
    return found


def test_compose_files_are_what_their_program_writes() -> None:
    command = [sys.executable, "deploy/compose.py", "--check"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False, env={"PYTHONPATH": str(ROOT)}
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("change", "told"), [("", 0), ("read_onyl", 1)])
def test_compose_file_follows_the_compose_specification(change: str, told: int, tmp_path: Path) -> None:
    """The schema is in the checker's package. A misspelt word shows that it is asked."""
    file = tmp_path / "docker-compose.yml"
    file.write_text(FILE.read_text().replace("read_only", change or "read_only"))
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == told and (change in done.stdout), done.stdout + done.stderr


def test_every_process_of_the_demo_has_a_container() -> None:
    expected = {
        "chain",
        "setup",
        "da",
        "watchtower",
        "dashboard",
        "monitor",
        *OPERATORS,
        *VERIFIERS,
        *ENCLAVES,
        *SHARD_NAMES,
        *OTHER_IMAGES,
    }
    assert set(SERVICES) == expected
    profiles = {name: SERVICES[name]["profiles"] for name in SERVICES if "profiles" in SERVICES[name]}
    monitoring = {"monitor": ["monitor", "monitoring"], "prometheus": ["monitoring"], "grafana": ["monitoring"]}
    assert profiles == {"dishonest": ["adversary"], "postgres": ["postgres"], **monitoring}


@EVERY
def test_container_has_no_root_no_capability_and_no_writable_root(name: str) -> None:
    service = SERVICES[name]
    assert int(service["user"].split(":")[0]) > 0 and service["read_only"] is True
    assert service["cap_drop"] == ["ALL"] and service["security_opt"] == ["no-new-privileges:true"]
    assert not service.keys() & {"privileged", "cap_add", "devices", "pid", "ipc", "env_file"} and service["init"] is True
    assert service["logging"]["options"].keys() == {"max-size", "max-file"}
    assert ("healthcheck" in service) != (name == "setup")


@EVERY
def test_image_is_ours_and_never_pulled_or_names_a_version(name: str) -> None:
    service = SERVICES[name]
    if name in OTHER_IMAGES:
        assert re.fullmatch(r"[a-z/]+:v?\d[\w.-]*", service["image"]) and service["pull_policy"] == "missing"
    else:
        assert service["image"] == "${BYTEWISE_IMAGE:-localhost/bytewise:dev}" and service["pull_policy"] == "never"


@EVERY
def test_port_is_published_on_loopback_only(name: str) -> None:
    ports = SERVICES[name].get("ports", [])
    assert all(each.startswith("127.0.0.1:") for each in ports)
    networks = SERVICES[name].get("networks", [])
    assert ("published" in networks) == bool(ports)
    assert bool(ports) == (name in {"chain", "da", "dashboard", *OPERATORS, "prometheus", "grafana"})
    assert DOCUMENT["networks"]["network"] == {"internal": True}


@EVERY
def test_secret_is_a_file(name: str) -> None:
    service = SERVICES[name]
    for key, value in service.get("environment", {}).items():
        assert key.endswith("_FILE") or not re.search("KEY|PASSWORD|SECRET|TOKEN", key), (key, value)
    assert set(service.get("secrets", [])) <= set(DOCUMENT["secrets"])
    assert all(each.keys() == {"file"} for each in DOCUMENT["secrets"].values())


@pytest.mark.parametrize("name", sorted(set(SERVICES) - OTHER_IMAGES))
def test_every_module_that_a_container_starts_exists(name: str) -> None:
    service = SERVICES[name]
    for command in (service["command"], service.get("healthcheck", {}).get("test", [])):
        for before, module in itertools.pairwise(command):
            if before == "-m":
                assert importlib.util.find_spec(module) is not None, module


@pytest.mark.parametrize("name", sorted(set(SERVICES) - OTHER_IMAGES - {"chain", "setup"}))
def test_actor_sees_its_own_folder_and_the_public_files(name: str) -> None:
    expected = {f"NETWORK/{name}": "ro" if name in ENCLAVES else "rw", "NETWORK/public": "ro"}
    verifier = name.removesuffix("-enclave")
    if verifier in VERIFIERS:
        expected[f"NETWORK/{verifier}-jobs"] = "rw"
    assert dict(sources(name)) == expected
    assert SERVICES[name]["depends_on"]["setup"] == {"condition": "service_completed_successfully"}


@pytest.mark.parametrize("name", ENCLAVES)
def test_enclave_has_no_network_and_shares_only_the_job_socket(name: str) -> None:
    service = SERVICES[name]
    assert service["network_mode"] == "none" and not service.keys() & {"networks", "ports"}
    others = {source for other in SERVICES if other != name for source, _ in sources(other)}
    assert {source for source, _ in sources(name)} & others == {f"NETWORK/{name.removesuffix('-enclave')}-jobs", "NETWORK/public"}


def test_no_settings_file_of_a_container_names_the_loopback_interface() -> None:
    site = site_in(FOLDER)
    urls = [site.rpc_url, site.member_rpc_url("ada"), site.da_url, site.hints_url, site.operator_url("honest"), site.shard_url(2)]
    assert urls == [
        "http://chain:8545", "http://chain:8545", "http://da:8200", "https://watchtower:8300", "https://honest:8601",
        "https://shard2:8402",
    ]  # fmt: skip
    assert site.shard_channel(3) == "shard3:8503" and site.listen == "0.0.0.0"
    ports = [PORTS.chain, PORTS.da, PORTS.hints, *PORTS.shards, *PORTS.channels, *PORTS.operators]
    assert len(set(ports)) == len(ports)


def test_demo_on_one_machine_uses_the_loopback_interface(tmp_path: Path) -> None:
    site = new_site(tmp_path, tmp_path / "run", 1)
    urls = [site.rpc_url, site.member_rpc_url("ada"), site.da_url, site.hints_url, site.operator_url("honest"), site.shard_url(2)]
    assert all(re.match(r"https?://127\.0\.0\.1:\d+", url) for url in urls)
    assert site.public == site.folder and site.metrics("ada") == {} and site.aliases("honest") == ()


def test_setup_refuses_a_folder_that_an_unfinished_setup_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "ada").mkdir()
    with pytest.raises(ConfigurationError, match="unfinished setup"):
        prepare(site_in(tmp_path))
    assert main(["--folder", str(tmp_path)]) == Exit.USAGE
    assert main(["--folder", str(tmp_path / "absent")]) == Exit.USAGE
    said = capsys.readouterr()
    assert "No such file" in said.out + said.err and "Traceback" not in said.out + said.err


def test_enclave_and_member_have_folders_of_their_own() -> None:
    site = ContainerSite(FOLDER, FOLDER, PORTS, 1)
    assert site.platform_file("ada") == FOLDER / "ada-enclave" / "platform.pem"
    assert site.job_socket("ada").parent == FOLDER / "ada-jobs" and site.ready_file("ada").parent == Path("/tmp")
    assert site.certificate("honest").parent == site.network_file.parent == site.artifact.parents[1] == site.public


def test_image_has_every_package_of_ours() -> None:
    """One that is left out is found at the start of a container only."""
    assert set(build.PACKAGES) == set(PACKAGES)


def test_prometheus_of_compose_reads_every_process_that_serves_metrics() -> None:
    scrape = yaml.safe_load((ROOT / "deploy/monitoring/prometheus-compose.yml").read_text())["scrape_configs"]
    (found,) = [each for each in scrape if each["job_name"] == "bytewise"]
    targets = {target for part in found["static_configs"] for target in part["targets"]}
    targets |= {f"{name}:{each['port']}" for each in found["dns_sd_configs"] for name in each["names"]}
    served = set(SERVICES) - OTHER_IMAGES - set(ENCLAVES) - {"chain", "setup"}
    assert targets == {f"{name}:{metrics_port(name)}" for name in served}
    for name in served:
        assert SERVICES[name]["healthcheck"]["test"][-1] == f"http://127.0.0.1:{metrics_port(name)}/readyz"


def test_monitor_of_compose_writes_into_its_own_folder_only(tmp_path: Path) -> None:
    """The settings are those that the container's program reads."""
    monitor = actors.monitor(site_in(FOLDER))
    assert SERVICES["monitor"]["command"] == ["python", "-m", monitor.module, *monitor.arguments]
    settings = load_settings(MonitorSettings, write_toml(tmp_path / "monitor.toml", monitor.settings))
    own = FOLDER / "monitor"
    assert settings.db.location == f"sqlite:///{own / 'actor.db'}" and monitor.file.parent == own
    assert settings.release_logs is not None and settings.release_logs.folder.parent == own
    assert settings.metrics is not None and settings.metrics.port == metrics_port("monitor") and settings.follow


def test_image_archive_has_the_id_of_its_configuration(tmp_path: Path) -> None:
    layer = tmp_path / "layer.tar"
    layer.write_bytes(b"a layer")
    made = oci.image([layer], {"User": "10001:10001"}, "2026-01-01T00:00:00Z")
    archives = []
    for _ in range(2):
        out = io.BytesIO()
        oci.write(made, "localhost/x:dev", out)
        archives.append(out.getvalue())
    assert archives[0] == archives[1]
    with tarfile.open(fileobj=io.BytesIO(archives[0])) as archive:
        (entry,) = json.loads(archive.extractfile("manifest.json").read())  # type: ignore[union-attr]
        config = archive.extractfile(entry["Config"]).read()  # type: ignore[union-attr]
        assert archive.extractfile(entry["Layers"][0]).read() == b"a layer"  # type: ignore[union-attr]
    assert hashlib.sha256(config).hexdigest() == made.id and entry["Config"] == f"{made.id}.json"
    assert json.loads(config)["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(b'a layer').hexdigest()}"]
    other = oci.image([layer], {"User": "10002:10001"}, "2026-01-01T00:00:00Z")
    assert other.id != made.id
