// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IRounds} from "../src/interfaces/IRounds.sol";
import {Audits} from "../src/anchor/Audits.sol";
import {FeeMarket} from "../src/anchor/FeeMarket.sol";
import {KeyEpochs} from "../src/keys/KeyEpochs.sol";
import {ReceiptAnchor} from "../src/anchor/ReceiptAnchor.sol";
import {Demands} from "../src/demands/Demands.sol";
import {Phase} from "../src/libraries/Types.sol";
import {IDisputes} from "../src/interfaces/IDisputes.sol";
import {ILedger} from "../src/interfaces/ILedger.sol";
import {ILens} from "../src/interfaces/ILens.sol";
import {IDemands} from "../src/interfaces/IDemands.sol";
import {IStakeTree} from "../src/interfaces/IStakeTree.sol";
import {AnchorBase} from "./AnchorBase.sol";
import {Courthouse} from "./Courthouse.sol";
import {Check} from "./Vm.sol";

/// @title Equality of whatever can be encoded
abstract contract LensCheck is Check {
    /// @dev From its artifact, which another pipeline of the compiler makes (`foundry.toml`). `Lens.Parts`, static: the same words as
    ///      its members one by one.
    function made(bytes memory parts) internal returns (ILens) {
        return ILens(vm.deployCode("Lens.sol:Lens", parts));
    }

    function alike(bytes memory have, bytes memory want, string memory what) internal pure {
        same(keccak256(have), keccak256(want), what);
    }
}

/// @title The lens says of disputes what the contracts say, and what can be done is what it says
/// forge-config: default.fuzz.runs = 16
contract LensOfTheCourtTest is Courthouse, LensCheck {
    uint256 private constant STEPS = 9;
    ILens private lens;
    FeeMarket private market;
    KeyEpochs private epochs;
    ReceiptAnchor private anchor;

    function setUp() public override {
        super.setUp();
        epochs = new KeyEpochs(address(manager), params, guardian, registry);
        market = new FeeMarket(address(manager), guardian, 1 gwei, 1 ether, 1_000, 1 hours);
        anchor = new ReceiptAnchor(ReceiptAnchor.Parts(params, guardian, registry, vault, epochs, market));
        Demands demands = new Demands(Demands.Parts(params, guardian, registry, vault, ledger, anchor));
        Audits audits = new Audits(Audits.Parts(params, guardian, registry, vault, ledger, epochs, anchor, disputes));
        bytes memory receipts = abi.encode(params, guardian, registry, vault, ledger, epochs, market, anchor, demands);
        lens = made(bytes.concat(receipts, abi.encode(disputes, rounds, breaker, settlement, source, audits)));
    }

    /// @dev A dispute that has gone so many steps, its members voting `choice`.
    function walked(uint256 salt, uint256 steps, uint256 choice) private returns (bytes32 id) {
        id = opened(salt);
        if (steps > 0) seeded(id, bytes32(salt));
        if (steps > 1) disputes.draw(id, 2, headers[id]);
        if (steps > 2) disputes.draw(id, 255, headers[id]);
        if (steps > 3) allCommit(id, choice);
        if (steps > 4) toReveal(id);
        if (steps > 5) allReveal(id, choice);
        if (steps > 6) {
            toSettle(id);
            disputes.settle(id);
        }
        if (steps > 7 && disputes.phaseOf(id) == Phase.APPEAL) {
            toFinalize(id);
            disputes.finalize(id);
        }
        if (steps > 8 && disputes.phaseOf(id) == Phase.FINAL) settlement.settleSeats(id, 1, 2);
    }

    function allCommit(bytes32 id, uint256 choice) private {
        IRounds.Member[] memory list = members(id);
        for (uint256 i = 0; i < list.length; ++i) {
            if (list[i].voter != address(0)) committed(voteOf(id, list[i], choice));
        }
    }

    function allReveal(bytes32 id, uint256 choice) private {
        IRounds.Member[] memory list = members(id);
        for (uint256 i = 0; i < list.length; ++i) {
            if (list[i].voter != address(0)) rounds.reveal(voteOf(id, list[i], choice), "");
        }
    }

    function test_a_dispute_is_shown_as_the_contracts_have_it(uint256 salt, uint8 steps, uint8 choice, uint16 later)
        public
    {
        bytes32 id = walked(salt, steps % (STEPS + 1), choice % 10);
        vm.roll(block.number + later % (2 * EPOCH));
        ILens.DisputeView memory v = lens.disputeView(id);
        IDisputes.Dispute memory d = disputes.dispute(id);
        same(v.id, id, "id");
        same(uint256(v.phase), uint256(disputes.phaseOf(id)), "phase");
        alike(abi.encode(v.dispute), abi.encode(d), "dispute");
        alike(abi.encode(v.round), abi.encode(rounds.roundOf(id, d.round)), "round");
        alike(abi.encode(v.members), abi.encode(rounds.membersOf(id, d.round)), "members");
        (address who, bool knew) = disputes.challengerOf(id);
        that(v.dispute.challenger == who && v.knew == knew, "challenger");
        alike(abi.encode(v.account), abi.encode(settlement.accountOf(id)), "account");
        that(v.settleable == disputes.isSettleable(id), "settleable");
        that(v.held == breaker.isHeld(ENVIRONMENT), "held");
        same(v.pot, ledger.potOf(id), "pot");
        same(v.commitTime, params.times(1).commitTime, "commit time");
        same(v.quorum, params.quorum(1, v.round.seats), "quorum");
        same(v.appealBond, d.level < 3 ? disputes.appealBond(id) : 0, "appeal bond");
        same(v.rounds.length, d.round, "rounds");
        for (uint16 i = 1; i <= d.round; ++i) {
            IRounds.Round memory r = rounds.roundOf(id, i);
            ILens.RoundView memory want = ILens.RoundView(r.level, r.seats, settlement.settledSeats(id, i));
            alike(abi.encode(v.rounds[i - 1]), abi.encode(want), "a round");
        }
    }

    /// @dev Drawable is what can be drawn, lost is what can be armed again, at whatever block somebody looks.
    function test_a_seed_is_shown_as_what_can_be_done_with_it(uint256 salt, bool over, bool begun, uint16 later)
        public
    {
        bytes32 id = opened(salt);
        uint64 seedBlock = rounds.roundOf(id, 1).seedBlock;
        headers[id] = header(seedBlock, "mix");
        if (over) {
            seeded(id, bytes32(salt));
            if (begun) disputes.draw(id, 1, headers[id]);
        }
        vm.roll(block.number + later % (3 * EPOCH));
        if (!over && block.number > seedBlock && block.number <= seedBlock + 256) known(seedBlock, "mix");
        ILens.SeedView memory s = lens.disputeView(id).seed;
        same(s.epochEnd, (uint256(seedBlock) / EPOCH + 1) * EPOCH - 1, "the last block of its epoch");
        uint256 here = vm.snapshotState();
        (bool drew,) = address(disputes).call(abi.encodeCall(disputes.draw, (id, 1, headers[id])));
        that(drew == s.drawable, "drawable");
        vm.revertToState(here);
        if (!s.lost) vm.expectRevert(abi.encodeWithSelector(IDisputes.SeedReadable.selector, id, seedBlock));
        disputes.rearm(id);
    }

    function test_one_read_has_everything_of_one_block(uint256 salt, uint8 many, uint16 stopped) public {
        bytes32[] memory ids = new bytes32[](many % 4);
        for (uint256 i = 0; i < ids.length; ++i) {
            ids[i] = walked(salt % 1_000 + i, i, 0);
        }
        if (stopped % 2 == 1) guardian.pause(stopped);
        ILens.Snapshot memory s = lens.snapshot(member(1), ids);
        same(s.disputes.length, ids.length, "each that was named");
        alike(abi.encode(s.disputes), abi.encode(lens.disputes(ids)), "as without the rest");
        for (uint256 i = 0; i < ids.length; ++i) {
            alike(abi.encode(s.disputes[i]), abi.encode(lens.disputeView(ids[i])), "a dispute");
        }
        s.disputes = new ILens.DisputeView[](0);
        alike(abi.encode(s.account), abi.encode(lens.accountView(member(1))), "account");
        ILens.Snapshot memory w;
        (w.number, w.timestamp, w.clock) = (uint64(block.number), uint64(block.timestamp), guardian.clock());
        (w.pausedUntil, w.paramsVersion, w.price) = (guardian.pausedUntil(), params.version(), market.price());
        w.requiredBond = params.requiredBond(1);
        (w.batchCount, w.activeEpoch) = (anchor.batchCount(), epochs.activeEpoch());
        (w.policyDigest, w.policySerial) = (registry.policyDigest(), registry.policySerial());
        (w.account, w.disputes) = (s.account, s.disputes);
        alike(abi.encode(s), abi.encode(w), "the rest");
    }

    function test_there_is_nothing_to_show_of_no_dispute(bytes32 id) public view {
        ILens.DisputeView memory want;
        want.id = id;
        alike(abi.encode(lens.disputeView(id)), abi.encode(want), "nothing");
    }
}

/// @title The lens says of accounts, pools, batches and money what the contracts say
contract LensOfReceiptsTest is AnchorBase, LensCheck {
    ILens private lens;

    function setUp() public override {
        super.setUp();
        bytes memory receipts = abi.encode(params, guardian, registry, vault, ledger, epochs, fees, anchor, demands);
        // No dispute is read here.
        lens = made(bytes.concat(receipts, new bytes(5 * 32), abi.encode(audits)));
    }

    /// @dev What the vault pays when it is asked, which is less than what is due where stake is bound.
    function payable_(address who) private returns (uint256 paid) {
        uint256 state = vm.snapshotState();
        vm.prank(who);
        try vault.finishUnbond() returns (uint256 amount) {
            paid = amount;
        } catch {}
        vm.revertToState(state);
    }

    function test_an_account_is_shown_in_all_its_roles(uint8 who, uint96 leaving, uint96 credit, uint32 later) public {
        address a = who % 7 == 6 ? stranger : who % 7 == 5 ? operator : verifier(who % 7);
        anchored(receipt(1));
        uint256 stake_ = vault.stakeOf(a);
        if (stake_ != 0) {
            vm.prank(a);
            vault.requestUnbond(bound(leaving, 1, stake_));
        }
        vm.deal(address(this), credit);
        ledger.take{value: credit}("pot", address(this), ILedger.Source.FEE);
        ledger.credit("pot", a, credit, ILedger.Reason.REPORT);
        vm.warp(block.timestamp + later);
        vm.roll(block.number + later % 1_000);
        ILens.AccountView memory w;
        (w.balance, w.stake, w.locked) = (a.balance, vault.stakeOf(a), vault.lockedOf(a));
        (w.collateral, w.free) = (vault.collateralOf(a), vault.freeStakeOf(a));
        w.kept = vault.keptOf(a);
        (w.unbonding, w.unbondDue, w.unbondNextAt) = vault.unbondingOf(a);
        w.unbondDue = payable_(a);
        w.credit = ledger.creditOf(a);
        (w.creditDue, w.creditNextAt) = ledger.dueOf(a);
        (w.operatorUntil, w.lastSeq) = a == operator ? (type(uint64).max, uint64(1)) : (uint64(0), uint64(0));
        w.verifier = registry.verifier(a);
        if (who % 7 < 5) {
            IStakeTree tree = registry.treeOf(POOL);
            (w.hasPlace, w.place) = tree.placeOf(a);
            w.units = tree.unitsAt(a, tree.epoch());
        }
        alike(abi.encode(lens.accountView(a)), abi.encode(w), "account");
    }

    function test_a_pool_and_its_places_are_shown(uint8 gone, uint8 from, uint8 most, uint16 later) public {
        for (uint256 i = 0; i < VERIFIERS; ++i) {
            if (gone & (1 << i) == 0) continue;
            vm.prank(verifier(i));
            registry.quit();
        }
        vm.roll(block.number + later % 600);
        vm.warp(block.timestamp + later);
        IStakeTree tree = registry.treeOf(POOL);
        ILens.PoolView memory w;
        (w.pool, w.tree, w.epoch, w.units) = (POOL, address(tree), tree.epoch(), tree.totalAt(tree.epoch()));
        w.epochStart = uint64(block.number / 300 * 300);
        w.epochEnd = w.epochStart + 299;
        (w.weighing, w.seatable) = (registry.weighing(POOL), registry.isSeatable(POOL));
        w.stopped = registry.stoppedSeconds(POOL);
        alike(abi.encode(lens.poolView(POOL)), abi.encode(w), "pool");
        uint16 first = uint16(bound(from, 0, VERIFIERS + 1));
        uint256 size = bound(most, 0, VERIFIERS + 1);
        ILens.VerifierView[] memory list = lens.verifiers(POOL, first, size);
        uint256 left = first < VERIFIERS ? VERIFIERS - first : 0;
        same(list.length, left < size ? left : size, "a page");
        for (uint16 i = 0; i < list.length; ++i) {
            address a = tree.accountAt(first + i);
            ILens.VerifierView memory v =
                ILens.VerifierView(a, first + i, tree.unitsAt(a, tree.epoch()), vault.stakeOf(a), registry.verifier(a));
            alike(abi.encode(list[i]), abi.encode(v), "a place");
        }
    }

    function test_batches_and_demands_are_shown(uint8 count, uint8 from, uint8 most, uint8 asked, uint32 later) public {
        uint64 all = uint64(bound(count, 1, 4));
        for (uint64 i = 0; i < all; ++i) {
            anchored(receipt(i + 1));
        }
        uint64 which = uint64(asked % all);
        uint256 bond = params.money(1).demandBond;
        vm.deal(address(this), bond);
        demands.demandList{value: bond}(which);
        vm.warp(block.timestamp + later % 3 days);
        uint64 first = uint64(bound(from, 0, 5));
        uint256 size = bound(most, 0, 5);
        ILens.BatchView[] memory list = lens.batches(first, size);
        uint256 left = first < all ? all - first : 0;
        same(list.length, left < size ? left : size, "a page");
        bytes32[] memory subjects = new bytes32[](list.length);
        for (uint64 i = 0; i < list.length; ++i) {
            subjects[i] = demands.listSubject(first + i);
            ILens.BatchView memory w = ILens.BatchView(
                first + i, anchor.batch(first + i), anchor.windowEnd(0, first + i), demands.demand(subjects[i])
            );
            alike(abi.encode(list[i]), abi.encode(w), "a batch");
        }
        IDemands.Demand[] memory asked_ = lens.demands(subjects);
        for (uint256 i = 0; i < asked_.length; ++i) {
            alike(abi.encode(asked_[i]), abi.encode(list[i].listDemand), "a demand");
            that((asked_[i].state == IDemands.State.OPEN) == (first + i == which), "whose list was asked for");
        }
    }

    function test_all_money_is_shown(uint96 given, uint96 leaving, uint8 receipts) public {
        vm.deal(address(this), given);
        ledger.fund{value: given}();
        for (uint64 i = 0; i < receipts % 4; ++i) {
            anchored(receipt(i + 1));
        }
        vm.prank(verifier(1));
        vault.requestUnbond(bound(leaving, 1, 27 ether));
        ILens.MoneyView memory w;
        (w.vaultBalance, w.ledgerBalance) = (address(vault).balance, address(ledger).balance);
        (w.totalStake, w.totalUnbonding) = (vault.totalStake(), vault.totalUnbonding());
        (w.totalPots, w.totalCredits) = (ledger.totalPots(), ledger.totalCredits());
        (w.treasury, w.totalBurned, w.auditPool) = (ledger.treasury(), ledger.totalBurned(), audits.pool());
        alike(abi.encode(lens.money()), abi.encode(w), "money");
        same(w.vaultBalance, w.totalStake + w.totalUnbonding, "the vault's sum");
        same(w.ledgerBalance, w.totalPots + w.totalCredits + w.treasury + w.totalBurned, "the ledger's sum");
    }
}
