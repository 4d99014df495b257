"""Plays a slash of an operator on a fork: the operator anchors a batch, withholds its list, and loses stake. Its key signs
nothing."""

import secrets
from collections.abc import Iterator
from dataclasses import replace

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.records.receipt import BatchHeader, list_subject
from bytewise.protocol.units import U32, U64, Address, Digest
from chain.deployment.calls import ContractCall
from cli.drill.fork import ForkedChain
from cli.drill.play import DrillPlay, DrillReport, Tell

STEPS = 4


class SlashDrill:
    """Plays the slash of one operator on one fork."""

    def __init__(self, fork: ForkedChain, account: Address, receipts: int, tell: Tell) -> None:
        self._play, self._receipts = DrillPlay(fork, account, tell, STEPS), receipts

    def play(self) -> DrillReport:
        """Plays the slash and returns the report. Raises `ConfigurationError` if the account has nothing to lose on this
        network."""
        play = self._play
        self._verify_role()
        header, fee = self._header(), self._receipts * play.snapshot.price_wei
        tower = play.fork.new_account()
        play.fork.fund(play.account, play.me.balance_wei + fee)
        before = play.amounts(tower)
        self._withhold(header, fee, tower)
        return play.report(before, play.amounts(tower), list(self._choices(header, fee)))

    def _verify_role(self) -> None:
        account, me = self._play.account, self._play.snapshot.me
        if not me.is_operator:
            raise ConfigurationError("account", f"{account} is no operator: there is nothing to slash")
        if me.stake_wei == 0:
            raise ConfigurationError("account", f"{account} has no stake: there is nothing to slash")
        if me.is_suspended:
            raise ConfigurationError("account", f"{account} is suspended: it can anchor no batch that could be withheld")

    def _header(self) -> BatchHeader:
        """Returns the header of a batch whose list nobody has. Environment and model are those of the operator's newest batch, or
        of the network's newest batch if the operator has none."""
        play = self._play
        known = play.reader.batches(int(play.fork.network.deploy_block), play.first)
        own = [each for each in known if each.operator == play.account]
        if not known:
            raise ConfigurationError("network", "nobody has anchored a batch yet: there is no environment and model to name")
        like = (own or list(known))[-1]
        return BatchHeader(
            batch_id=0, operator=play.account, first_seq=U64(play.snapshot.me.last_seq + 1), count=U32(self._receipts),
            root=Digest(secrets.token_bytes(32)), list_hash=Digest(secrets.token_bytes(32)), environment=like.environment,
            model_id=like.model_id, key_epoch=U64(play.snapshot.active_epoch), locator="drill", anchored_at=U64(0), block=U64(0),
        )  # fmt: skip

    def _withhold(self, header: BatchHeader, fee_wei: int, tower: Address) -> None:
        play, (batch_id, count) = self._play, self._batch(header, fee_wei)
        bond, cure = count * play.params.money.demand_bond, play.params.times.cure
        play.do(
            "A watchtower demands the list", tower, ContractCall("Demands", "demandList", (batch_id,), bond), f"bond {bond} wei"
        )
        play.tell("the time to answer passes")
        play.fork.pass_time(cure + 1)
        play.note("You do not answer in time", play.account, "", f"{cure} s to answer (`cure`)")
        expire = ContractCall("Demands", "expire", (list_subject(play.fork.network.demands_domain, batch_id),))
        play.do("The demand expires: the batch is void and you are slashed", tower, expire, "anybody may send this")

    def _batch(self, header: BatchHeader, fee_wei: int) -> tuple[int, int]:
        """Anchors the batch whose list is withheld, and returns its id and number of receipts. If the operator can anchor no
        batch, an earlier batch with an open challenge window is taken."""
        play, call = self._play, post_of(header, fee_wei)
        refusal = play.fork.refusal(play.account, call)
        if not refusal:
            play.do("You anchor a batch whose list nobody can fetch", play.account, call, f"costs {fee_wei} wei")
            return play.reader.snapshot(play.account, play.reader.head()).batch_count - 1, int(header.count)
        why = f"you can anchor none: {refusal}"
        for each in reversed(play.reader.batches(int(play.fork.network.deploy_block), play.first)):
            found = play.reader.batch(each.batch_id, play.first) if each.operator == play.account else None
            if found is not None and found[1].window_end > play.snapshot.clock and not found[1].is_void:
                play.note(f"You withhold the list of batch {each.batch_id}", play.account, "", why)
                return int(each.batch_id), int(each.count)
        raise ConfigurationError("account", f"{play.account} has no open batch and can anchor none: {refusal}")

    def _choices(self, header: BatchHeader, fee_wei: int) -> Iterator[tuple[str, ContractCall, str]]:
        me = self._play.me
        again = replace(header, first_seq=U64(me.last_seq + 1))
        yield "anchor another batch", post_of(again, fee_wei), f"free stake is {me.free_wei} wei"
        yield from self._play.stake_choices()


def post_of(header: BatchHeader, fee_wei: int) -> ContractCall:
    """Returns the call that anchors a batch. `fee_wei` is the fee that the operator pays to anchor the batch's receipts."""
    fields = (
        header.first_seq, header.count, header.root, header.list_hash, header.environment, header.model_id, header.key_epoch,
        header.locator.encode(),
    )  # fmt: skip
    return ContractCall("ReceiptAnchor", "post", (fields,), fee_wei)
