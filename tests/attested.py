"""An enclave as a shard knows it at the end of a handshake, without the handshake: its evidence is real, and verified."""

import os

from bytewise.ports import Quoter
from bytewise.protocol.encoding import encode
from bytewise.protocol.evidence.appraisal_policy import Role
from bytewise.protocol.units import Blob, Digest
from bytewise.service.clock import SystemClock
from bytewise.tee.binding import VERSION, Attested, Hello, Proof, Statement, Terms, report_data, verify_proof


def attested(terms: Terms, quoter: Quoter, transport_key: Blob, policy: Digest) -> Attested:
    """Who this quoter's program is to an end with these terms; an error of `verify_proof` if it would not be let in."""
    hello = Hello(VERSION, Role.VERIFIER_ENCLAVE, _word(), terms.key_epoch, policy, transport_key)
    said = Statement(terms.contracts, hello, os.urandom(32), _word(), _word(), _word())
    proof = Proof(quoter.quote(report_data(said)), Blob(b""))
    return verify_proof(terms, said, encode(proof), SystemClock().now())


def _word() -> Digest:
    return Digest(os.urandom(32))
