"""Plays a slash of an operator on a fork: the operator anchors a batch, withholds its list, and loses stake. The operator's key
signs nothing, because the fork needs no signatures."""

import secrets
from collections.abc import Iterator
from dataclasses import replace

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.records.receipt import BatchHeader, list_subject
from bytewise.protocol.units import U32, U64, Address, Digest
from chain.deployment.calls import ContractCall
from cli.drill.fork import ForkedChain
from cli.drill.session import DrillReport, DrillSession, ShowProgress

STEPS = 4


class SlashDrill:
    """Plays the slash of one operator on one fork."""

    def __init__(self, fork: ForkedChain, account: Address, receipts: int, show_progress: ShowProgress) -> None:
        self._session, self._receipts = DrillSession(fork, account, show_progress, STEPS), receipts

    def run(self) -> DrillReport:
        """Plays the slash and returns the report. Raises `ConfigurationError` if the account has nothing to lose on this
        network."""
        session = self._session
        self._verify_role()
        header, fee = self._header(), self._receipts * session.snapshot.price_wei
        tower = session.fork.new_account()
        session.fork.fund(session.account, session.me.balance_wei + fee)
        before = session.amounts(tower)
        self._withhold(header, fee, tower)
        return session.report(before, session.amounts(tower), list(self._choices(header, fee)))

    def _verify_role(self) -> None:
        account, me = self._session.account, self._session.snapshot.me
        if not me.is_operator:
            raise ConfigurationError("account", f"{account} is no operator: there is nothing to slash")
        if me.stake_wei == 0:
            raise ConfigurationError("account", f"{account} has no stake: there is nothing to slash")
        if me.is_suspended:
            raise ConfigurationError("account", f"{account} is suspended: it can anchor no batch that could be withheld")

    def _header(self) -> BatchHeader:
        """Returns the header of a batch whose list nobody has. The header names the environment and model of the operator's
        newest batch, or of the network's newest batch if the operator has anchored none."""
        session = self._session
        known = session.reader.batches(int(session.fork.network.deploy_block), session.first)
        own = [each for each in known if each.operator == session.account]
        if not known:
            raise ConfigurationError("network", "nobody has anchored a batch yet: there is no environment and model to name")
        like = (own or list(known))[-1]
        return BatchHeader(
            batch_id=0, operator=session.account, first_seq=U64(session.snapshot.me.last_seq + 1), count=U32(self._receipts),
            root=Digest(secrets.token_bytes(32)), list_hash=Digest(secrets.token_bytes(32)), environment=like.environment,
            model_id=like.model_id, key_epoch=U64(session.snapshot.active_epoch), locator="drill", anchored_at=U64(0),
            block=U64(0),
        )  # fmt: skip

    def _withhold(self, header: BatchHeader, fee_wei: int, tower: Address) -> None:
        """Anchors a batch, demands its list, lets the time to answer pass, and expires the demand. `tower` is the account of the
        watchtower."""
        session, (batch_id, count) = self._session, self._anchor_or_take_batch(header, fee_wei)
        bond, cure = count * session.params.money.demand_bond, session.params.times.cure
        session.do(
            "A watchtower demands the list", tower, ContractCall("Demands", "demandList", (batch_id,), bond), f"bond {bond} wei"
        )
        session.show_progress("the time to answer passes")
        session.fork.pass_time(cure + 1)
        session.add_step("You do not answer in time", session.account, "", f"{cure} s to answer (`cure`)")
        expire = ContractCall("Demands", "expire", (list_subject(session.fork.network.demands_domain, batch_id),))
        session.do("The demand expires: the batch is void and you are slashed", tower, expire, "anybody may send this")

    def _anchor_or_take_batch(self, header: BatchHeader, fee_wei: int) -> tuple[int, int]:
        """Anchors the batch whose list is withheld. If the operator can anchor no batch, takes the operator's newest batch with
        an open challenge window instead. Returns the batch's id and number of receipts."""
        session, call = self._session, post_of(header, fee_wei)
        refusal = session.fork.refusal(session.account, call)
        if not refusal:
            session.do("You anchor a batch whose list nobody can fetch", session.account, call, f"costs {fee_wei} wei")
            return session.reader.snapshot(session.account, session.reader.head()).batch_count - 1, int(header.count)
        why = f"you can anchor none: {refusal}"
        for each in reversed(session.reader.batches(int(session.fork.network.deploy_block), session.first)):
            found = session.reader.batch(each.batch_id, session.first) if each.operator == session.account else None
            if found is not None and found[1].window_end > session.snapshot.clock and not found[1].is_void:
                session.add_step(f"You withhold the list of batch {each.batch_id}", session.account, "", why)
                return int(each.batch_id), int(each.count)
        raise ConfigurationError("account", f"{session.account} has no open batch and can anchor none: {refusal}")

    def _choices(self, header: BatchHeader, fee_wei: int) -> Iterator[tuple[str, ContractCall, str]]:
        """Yields the calls that the operator could make after the slash: title, call and note."""
        me = self._session.me
        again = replace(header, first_seq=U64(me.last_seq + 1))
        yield "anchor another batch", post_of(again, fee_wei), f"free stake is {me.free_wei} wei"
        yield from self._session.stake_choices()


def post_of(header: BatchHeader, fee_wei: int) -> ContractCall:
    """Returns the call that anchors a batch. `fee_wei` is the fee in wei that the operator pays for the batch's receipts."""
    fields = (
        header.first_seq, header.count, header.root, header.list_hash, header.environment, header.model_id, header.key_epoch,
        header.locator.encode(),
    )  # fmt: skip
    return ContractCall("ReceiptAnchor", "post", (fields,), fee_wei)
