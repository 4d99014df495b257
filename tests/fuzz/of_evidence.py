"""Evidence of every platform, what vendors say about it, and policies: what a shard reads before it knows who sent it."""

import dataclasses
import functools
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.serialization import Encoding

from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import ConfigurationError, EvidenceRefused, TryAgain
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.errors.evidence import EvidenceMalformed
from bytewise.protocol.errors.records import ForeignChain
from bytewise.protocol.evidence.appraisal_policy import AppraisalPolicy, SignedPolicy, approval_digest
from bytewise.protocol.evidence.claims import (
    Collateral,
    HostClaims,
    ResultQuote,
    ResultStatement,
    SnpCertificates,
    result_report_data,
)
from bytewise.protocol.evidence.policy_updates import PendingAddition, PolicyState, verify_approval
from bytewise.protocol.signing import LocalSigner
from bytewise.protocol.units import U8, U16, U64, U256, Blob, Digest
from bytewise.tee.appraisal import verify_result_quote
from bytewise.tee.dcap import verify_quote
from bytewise.tee.documents import issued_at, parse_collateral, read_object, unix_second
from bytewise.tee.gpu import verify_gpu
from bytewise.tee.quoters import ConfigfsQuoter
from bytewise.tee.snp import certificate_time, verify_report
from tests.fixtures.kms.memory_chain import CONTRACTS, VOTER
from tests.fixtures.tee.configfs_kernel import Kernel, service_answer
from tests.fixtures.tee.gpu_claims import GPU_CLAIMS
from tests.fixtures.tee.simulated_platform import CHAIN_ID, REPORT, Bench
from tests.fixtures.tee.snp_rules import rule as snp_rule
from tests.fixtures.tee.synthetic_amd import CHIP, NOW, TCB, Amd, Guest
from tests.fuzz.edits import Reader, mutant
from tests.fuzz.target import Target, corpus, same, target

GOVERNORS = [LocalSigner(bytes([number]) * 32) for number in (1, 2, 3)]


@functools.cache
def shared_bench() -> Bench:
    """One simulated platform for all targets of a process: making it measures the program."""
    with tempfile.TemporaryDirectory() as folder:
        return Bench(Path(folder))


def evidence(_folder: Path) -> Target:
    """Whole evidence under a policy for the simulator."""
    bench = shared_bench()
    return target(bench.appraise, [encode(bench.evidence)], EvidenceRefused)


def snp_evidence(_folder: Path) -> Target:
    """Reports, certificates and lists of AMD. What is signed is also altered before that, so that fields and extensions count."""
    amd = Amd()
    given = amd.certificates()
    rule = snp_rule(amd, max_age_s=90 * 86_400)
    listed = dataclasses.replace(given, crl=amd.revocation_list(60, 86_400))

    def one(data: bytes) -> bool:
        read = Reader(data)
        kind = read.number(4)
        report = amd.report()
        parts = {"ask": listed.ask, "vcek": listed.vcek, "crl": listed.crl}
        if kind == 0:
            report = mutant(read.rest(), [report])
        elif kind == 1:
            report = amd.report(_guest(read))
        elif kind == 2:
            parts["vcek"] = _chip_certificate(amd, read)
        else:
            name = sorted(parts)[read.number(3)]
            parts[name] = Blob(mutant(read.rest(), [parts[name]]))
        certificates = SnpCertificates(**parts)
        try:
            verify_report(rule, report, certificates, NOW)
            certificate_time(rule, certificates)
        except EvidenceRefused:
            return False
        return True

    own = [b"\0" + each for each in corpus([amd.report()])] + [b"\1", b"\2"]
    own += [
        bytes([3, place]) + each for place, name in enumerate(("ask", "crl", "vcek")) for each in corpus([getattr(listed, name)])
    ]
    return Target(one, tuple(own))


def _guest(read: Reader) -> Guest:
    sizes = {"version": 4, "policy": 8, "vmpl": 4, "algorithm": 4, "platform": 8, "flags": 4}
    lengths = {"report_data": 64, "measurement": 48, "host_data": 32, "tcb": 8, "chip_id": 64}
    plain = Guest()
    for name in sorted({**sizes, **lengths}):
        if read.number(4) == 1:
            size = sizes.get(name)
            value: Any = int.from_bytes(read.take(size)) if size else read.take(lengths[name])
            plain = dataclasses.replace(plain, **{name: value})
    return plain


def _chip_certificate(amd: Amd, read: Reader) -> Blob:
    """A chip's certificate with the extensions of AMD's, signed by AMD, some with other bytes or left out."""
    numbers = {"3.1": TCB[0], "3.2": TCB[1], "3.3": TCB[6]}
    values = {name: b"\2\1" + bytes([number]) for name, number in numbers.items()}
    values |= {"3.8": b"\2\2\0" + TCB[7:], "4": CHIP, "2": b"\x16\x08Milan-B0"}
    for name in sorted(values):
        how = read.number(6)
        if how == 1:
            values[name] = read.take(read.number(80))
        elif how == 2:
            del values[name]
    return Blob(amd.signed("SEV-VCEK", "SEV-Milan", amd.chip_key.public_key(), amd.ask_key, values).public_bytes(Encoding.DER))


def quotes(_folder: Path) -> Target:
    """DCAP quotes."""
    bench = shared_bench()
    collateral, rule = bench.evidence.collateral, bench.policy.rules[0]
    assert collateral is not None
    return target(lambda data: verify_quote(rule, data, collateral, bench.now), [bench.evidence.quote], EvidenceRefused)


def collateral(_folder: Path) -> Target:
    """Each part of the collateral beside a genuine quote."""
    bench = shared_bench()
    sound, rule = bench.evidence.collateral, bench.policy.rules[0]
    assert sound is not None
    names = [field.name for field in dataclasses.fields(Collateral)]

    def one(data: bytes) -> bool:
        name = names[data[0] % len(names) if data else 0]
        changed = dataclasses.replace(sound, **{name: Blob(mutant(data[1:], [getattr(sound, name)]))})
        accepted = 0
        for look in (issued_at, lambda each: verify_quote(rule, bench.evidence.quote, each, bench.now)):
            try:
                look(changed)
                accepted += 1
            except EvidenceRefused:
                pass
        return accepted == 2

    return Target(one, tuple(bytes([i]) + each for i, name in enumerate(names) for each in corpus([getattr(sound, name)])))


def services(_folder: Path) -> Target:
    """Answers of a collateral service."""
    bench = shared_bench()
    sound = bench.evidence.collateral
    assert sound is not None
    return target(parse_collateral, [service_answer(sound, bench.policy.rules[0].root)], EvidenceMalformed)


def gpus(_folder: Path) -> Target:
    """Claims of a GPU."""
    seed = json.dumps({"claims": [{**GPU_CLAIMS, "eat_nonce": bytes(32).hex()}]}).encode()
    return target(lambda data: verify_gpu(data, bytes(32), 0), [seed], EvidenceRefused)


def strict_json(_folder: Path) -> Target:
    """JSON of vendors, and the dates in it."""
    seeds = (
        b'{"a":[1,{"b":null}],"issueDate":"2026-01-01T00:00:00Z"}',
        b'{"issueDate":"2026-01-01T00:00:00+00:00"}',
        b'{"a":1e5}',
    )

    def read(data: bytes) -> None:
        found = read_object(data, "a document")
        if json.loads(data) != found:
            raise AssertionError("two readers see two things")
        unix_second(str(found.get("issueDate")))

    return target(read, seeds, EvidenceMalformed)


def result_quotes(_folder: Path) -> Target:
    """Published result quotes."""
    bench = shared_bench()
    none = Digest(bytes(32))
    said = ResultStatement(
        U256(CHAIN_ID), CONTRACTS.disputes, none, U16(1), none, VOTER.address, U8(1), U8(0), none, none, none, 1,
        HostClaims(U64(1), none, none, none),
    )  # fmt: skip
    body = dataclasses.replace(bench.body, report_data=result_report_data(said))
    seed = encode(ResultQuote(said, bench.quoter.evidence(body)))
    refusals = EvidenceRefused, ForeignChain
    return target(lambda data: same(verify_result_quote(bench.policy, data, CHAIN_ID), data), [seed], refusals)


def policies(_folder: Path) -> Target:
    """Policies as files: plain, signed, and as a shard remembers them."""
    policy = shared_bench().policy
    signed = SignedPolicy(policy, tuple(each.sign(approval_digest(policy)) for each in GOVERNORS))
    standing = PolicyState(policy, (PendingAddition(policy.digest, U64(7)),))
    addresses = [each.address for each in GOVERNORS]

    def read_signed(data: bytes) -> None:
        verify_approval(same(decode(SignedPolicy, data), data), addresses, 2)

    def read_standing(data: bytes) -> None:
        found = same(decode(PolicyState, data), data)
        if found.at(0).digest != found.policy.digest:
            found.at(2**63)

    readers: tuple[tuple[Callable[[bytes], Any], bytes], ...] = (
        (lambda data: same(decode(AppraisalPolicy, data), data).digest, encode(policy)),
        (read_signed, encode(signed)),
        (read_standing, encode(standing)),
    )

    def one(data: bytes) -> bool:
        read, seed = readers[data[0] % len(readers) if data else 0]
        try:
            read(mutant(data[1:], [seed]))
        except (Fault, ConfigurationError):
            return False
        return True

    return Target(one, tuple(bytes([i]) + each for i, (_, seed) in enumerate(readers) for each in corpus([seed])))


def configfs(folder: Path) -> Target:
    """What the kernel, and the owner's folder, give a quoter."""
    amd = Amd()
    kernel: type[Kernel] = type("FuzzedKernel", (Kernel,), {"provider": b"sev_guest\n"})
    owned, reports = folder / "endorsements", kernel(folder / "tsm")
    for each in (owned, folder / "tsm"):
        each.mkdir(parents=True)
    sound = shared_bench().evidence.collateral
    assert sound is not None
    service = service_answer(sound, shared_bench().policy.rules[0].root)
    seeds = (b"sev_guest\n", amd.report(), b"tdx_guest\n", service, _pem(amd), amd.revocation_list(60, 86_400))

    def one(data: bytes) -> bool:
        which = data[0] % len(seeds) if data else 0
        given = mutant(data[1:], [seeds[which]])
        kernel.provider = given if which in (0, 2) else b"tdx_guest\n" if which == 3 else b"sev_guest\n"
        kernel.report = staticmethod(lambda _: given if which == 1 else amd.report())
        for name, place in (("collateral.json", 3), ("ask.pem", 4), ("vcek.pem", 4), ("crl.der", 5)):
            (owned / name).write_bytes(given if which == place else seeds[place])
        try:
            quoter = ConfigfsQuoter(owned, reports)
        except ConfigurationError:
            return False
        try:
            quoter.quote(REPORT)
        except (ConfigurationError, EvidenceMalformed, TryAgain):
            return False
        finally:
            quoter.close()
        return True

    return Target(one, tuple(bytes([i]) + each for i, seed in enumerate(seeds) for each in corpus([seed])))


def _pem(amd: Amd) -> bytes:
    return amd.ask.public_bytes(Encoding.PEM)
