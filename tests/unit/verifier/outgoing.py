"""A sender that keeps what was sent, and the audits that a chain would then show."""

from typing import Any

from bytewise.protocol.decisions.audits import AuditStage
from bytewise.protocol.records.receipt import Receipt, SignedReceipt, receipt_id
from bytewise.protocol.records.statements import AuditResult, Vote
from bytewise.protocol.units import Address, Blob, Digest
from tests.world import ANCHOR


class Outgoing:
    """`Sender` that keeps what was sent, once per subject, as an outbox does."""

    def __init__(self) -> None:
        self.sent: dict[tuple[object, ...], Any] = {}
        self.dropped: set[str] = set()
        """Verbs whose acts do not reach the chain: they waited for too long, or were refused."""
        self.tried: list[str] = []
        self.within: dict[str, int] = {}
        """Seconds in which acts have to be handed in, by verb."""

    def _once(self, *key: object, body: object = None, within_s: int = 0) -> None:
        self.tried.append(str(key[0]))
        self.within[str(key[0])] = within_s
        if key[0] not in self.dropped:
            self.sent.setdefault(key, body)

    def audit_stage(self, receipt: Digest) -> AuditStage:
        """What the chain has of our audit of a receipt."""
        verbs = {AuditStage.PAID: "bounty", AuditStage.OPENED: "opening", AuditStage.POSTED: "audit"}
        return next((stage for stage, verb in verbs.items() if (verb, receipt) in self.sent), AuditStage.NOTHING)

    def pump(self) -> int:
        return 0

    def open_dispute(
        self, receipt: Receipt, signature: Blob, batch_id: int, proof: tuple[Digest, ...], alt_commit: Digest, bond_wei: int,
        within_s: int = 0,
    ) -> None:  # fmt: skip
        self._once("open", receipt_id(ANCHOR, receipt), body=(bond_wei, alt_commit), within_s=within_s)

    def draw(self, dispute: Digest, round_number: int, first: int, count: int) -> None:
        self._once("draw", dispute, round_number, first)

    def rearm(self, dispute: Digest, round_number: int) -> None:
        self._once("rearm", dispute, round_number)

    def commit(self, dispute: Digest, round_number: int, seat_mask: int, commitment: Digest) -> None:
        self._once("commit", dispute, round_number, body=commitment)

    def reveal(self, vote: Vote, quote: Blob) -> None:
        self._once("reveal", vote.dispute, vote.round, body=(vote, quote))

    def settle(self, dispute: Digest, round_number: int) -> None:
        self._once("settle", dispute, round_number)

    def open_alt(self, dispute: Digest, salt: Digest) -> None:
        self._once("alt", dispute, body=salt)

    def finalize(self, dispute: Digest) -> None:
        self._once("finalize", dispute)

    def pay_out(self, dispute: Digest) -> None:
        self._once("pay", dispute)

    def collect_slash(self, slash_id: int) -> None:
        self._once("fetch", slash_id)

    def sync_stake(self, account: Address, block: int) -> None:
        self._once("sync", account, block)

    def retry_slash(self, account: Address, ref: Digest, times: int) -> None:
        self._once("retry", account, ref, times)

    def collect(self, ref: Digest, times: int = 0) -> None:
        self._once("share", ref, times)

    def settle_seats(self, dispute: Digest, round_number: int, first: int, count: int) -> None:
        self._once("seats", dispute, round_number, first)

    def post_audit(self, result: AuditResult, signature: Blob, batch_id: int) -> None:
        self._once("audit", result.receipt_id, body=(result, signature))

    def open_audit(self, receipt: Digest, verifier: Address, tokens_hash: Digest, trace_root: Digest, salt: Digest) -> None:
        self._once("opening", receipt, body=(verifier, tokens_hash, trace_root, salt))

    def claim_bounty(self, signed: SignedReceipt, proof: tuple[Digest, ...], result: AuditResult) -> None:
        self._once("bounty", result.receipt_id)

    def release(self, batch_id: int) -> None:
        self._once("release", batch_id)

    def answer_list(self, batch_id: int, content: bytes, deadline: int = 0) -> None:
        self._once("list", batch_id, body=content)

    def expire_list(self, batch_id: int) -> None:
        self._once("expire", batch_id)

    def expire(self, subject: Digest, times: int = 0) -> None:
        self._once("end", subject, times, body=subject)

    def demand_list(self, batch_id: int, bond_wei: int, within_s: int = 0) -> None:
        self._once("demand list", batch_id, body=(batch_id, bond_wei), within_s=within_s)

    def demand_envelope(
        self, signed: SignedReceipt, batch_id: int, proof: tuple[Digest, ...], bond_wei: int, within_s: int = 0
    ) -> None:
        body = (signed, batch_id, proof, bond_wei)
        self._once("demand envelope", receipt_id(ANCHOR, signed.receipt), body=body, within_s=within_s)

    def demand_anchor(self, signed: SignedReceipt, bond_wei: int, within_s: int = 0) -> None:
        self._once("demand anchor", receipt_id(ANCHOR, signed.receipt), body=(signed, bond_wei), within_s=within_s)

    def report_equivocation(
        self, first: Receipt, first_signature: Blob, second: Receipt, signature: Blob, times: int = 0
    ) -> None:
        self._once("report", first.operator, first.seq, times, body=(first, first_signature, second, signature))

    def report_skipped(self, receipt: Receipt, signature: Blob, batch_id: int, proof: tuple[Digest, ...], times: int = 0) -> None:
        self._once("report skipped", receipt.operator, receipt.seq, times, body=(receipt, signature, batch_id, proof))

    def finish_unbond(self, due_wei: int) -> None:
        self._once("unbond", due_wei)

    def withdraw(self, due_wei: int) -> None:
        self._once("withdraw", due_wei)

    def of(self, verb: str) -> list[Any]:
        """Bodies of what was sent under a verb."""
        return [body for key, body in self.sent.items() if key[0] == verb]
