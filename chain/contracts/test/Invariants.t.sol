// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Outcome, ParamSet, Phase, Receipt, Verdict} from "../src/Types.sol";
import {IDisputes} from "../src/interfaces/IDisputes.sol";
import {ILens} from "../src/interfaces/ILens.sol";
import {Network} from "./Network.sol";

/// @title Everybody does anything, in any order: receipts, disputes, votes, exits, payments, time
/// @dev Every action first asks whether it is allowed now, so that no call reverts (`fail_on_revert`): a revert that
///      comes anyway is a finding. Ghosts record what entered and left, and how phases moved.
contract Everybody is Network {
    uint256 public paidIn; // wei that entered vault or ledger
    uint256 public paidOut; // wei that left them
    bytes32[] public ids;
    mapping(bytes32 id => uint8) public phaseBefore;
    mapping(bytes32 id => Verdict) public verdictBefore;
    bool public broken; // a phase moved against the table, or a verdict changed
    mapping(uint8 verdict => uint256) public endings;

    Receipt[] private _receipts;
    uint64[] private _batches;

    constructor() {
        setUp();
        ILens.Money memory m = lens.money();
        paidIn = m.vaultBalance + m.ledgerBalance;
    }

    function parameters() internal pure override returns (ParamSet memory p) {
        p = super.parameters();
        p.seats = [uint16(3), 5];
        p.slashAmount = 30 ether; // so much that disputes compete for the stake
        p.minOperatorStake = 30 ether;
    }

    // --- actions ---

    function anchorOne() external {
        if (vault.freeStakeOf(operator) < 30 ether || registry.poolSize() == 0) return;
        Receipt memory r = receipt(anchor.lastSeq(operator) + 1);
        _batches.push(anchored(r));
        _receipts.push(r);
    }

    function openOne(uint256 which, uint8 who) external {
        if (_receipts.length == 0) return;
        which %= _receipts.length;
        Receipt memory r = _receipts[which];
        bytes32 id = disputes.disputeId(anchor.receiptId(r));
        bool over = block.timestamp > anchor.batch(_batches[which]).anchoredAt + 1 hours;
        if (over || disputes.phaseOf(id) != Phase.NONE) return;
        address opener = who % 4 == 0 ? verifier(who % VERIFIERS) : challenger;
        (,, uint256 judges) = registry.weights(block.number - 1, opener);
        if (judges == 0) return;
        paidIn += params.requiredBond();
        ids.push(openedAs(opener, r, _batches[which]));
        watch();
    }

    function drawOne(uint256 which) external {
        (bytes32 id, bool any) = pick(which);
        if (!any || disputes.phaseOf(id) != Phase.SEED) return;
        uint256 seedBlock = lens.disputeView(id).seedBlock;
        if (block.number <= seedBlock) vm.roll(seedBlock + 1);
        if (seeds.isExpired(seedBlock)) disputes.rearm(id);
        else disputes.draw(id);
        watch();
    }

    function voteOne(uint256 which, uint8 who, uint8 what) external {
        (bytes32 id, bool any) = pick(which);
        Phase phase = disputes.phaseOf(id);
        if (!any || (phase != Phase.COMMIT && phase != Phase.REVEAL)) return;
        IDisputes.Member[] memory list = members(id);
        IDisputes.Member memory m = list[who % list.length];
        if (phase == Phase.COMMIT) {
            if (m.commitment == 0) committed(id, m, actOf(id, m.voter, what));
        } else if (m.commitment != 0 && !m.revealed && block.timestamp <= lens.disputeView(id).revealEnd) {
            revealed(id, m, actOf(id, m.voter, 0));
        }
        watch();
    }

    /// @dev Takes a dispute all the way through one round, so that verdicts come up often.
    function playRound(uint256 which, uint8 what) external {
        (bytes32 id, bool any) = pick(which);
        if (!any || disputes.phaseOf(id) != Phase.COMMIT) return;
        IDisputes.Member[] memory list = members(id);
        for (uint256 i = 0; i < list.length; ++i) {
            if (list[i].commitment == 0) committed(id, list[i], actOf(id, list[i].voter, what));
        }
        for (uint256 i = 0; i < list.length; ++i) {
            revealed(id, list[i], actOf(id, list[i].voter, 0));
        }
        disputes.settle(id);
        watch();
    }

    function settleOne(uint256 which) external {
        (bytes32 id, bool any) = pick(which);
        if (!any || !disputes.isSettleable(id)) return;
        disputes.settle(id);
        watch();
    }

    function withdraw(uint8 who) external {
        address a = actor(who);
        uint256 due = ledger.creditOf(a);
        if (due == 0) return;
        uint256 had = a.balance;
        vm.prank(a);
        ledger.withdraw();
        same(a.balance - had, due, "paid");
        paidOut += due;
    }

    function moveStake(uint8 who, uint96 amount, uint8 way) external {
        address a = actor(who);
        uint256 wei_ = bound(amount, 1, 30 ether);
        (uint256 unbonding, uint64 finishAt) = vault.unbondingOf(a);
        if (way % 3 == 0) {
            stake(a, wei_);
            paidIn += wei_;
        } else if (way % 3 == 1) {
            if (unbonding != 0 || wei_ > vault.stakeOf(a)) return;
            vm.prank(a);
            vault.requestUnbond(wei_);
        } else if (unbonding != 0 && block.timestamp >= finishAt && vault.lockedOf(a) <= vault.stakeOf(a)) {
            vm.prank(a);
            paidOut += vault.finishUnbond();
        }
    }

    function equivocate(uint64 seq) external {
        seq = seq % 8 + 1_000_000;
        (uint256 unbonding,) = vault.unbondingOf(operator);
        if (vault.stakeOf(operator) + unbonding == vault.lockedOf(operator)) return;
        if (slashedFor[seq] == params.get().slashAmount) return;
        (Receipt memory r1, Receipt memory r2) = (receipt(seq), receipt(seq));
        r2.outHash = "another";
        uint256 had = vault.stakeOf(operator) + unbonding;
        anchor.equivocation(r1, signature(r1), r2, signature(r2));
        (unbonding,) = vault.unbondingOf(operator);
        slashedFor[seq] += had - vault.stakeOf(operator) - unbonding;
    }

    mapping(uint64 seq => uint256) public slashedFor;

    function wait(uint16 seconds_, uint8 blocks) external {
        vm.warp(block.timestamp + seconds_);
        vm.roll(block.number + blocks);
        watch();
    }

    // --- what is watched ---

    function count() external view returns (uint256) {
        return ids.length;
    }

    function actor(uint8 who) public view returns (address) {
        who %= uint8(VERIFIERS) + 2;
        return who == VERIFIERS ? operator : who > VERIFIERS ? challenger : verifier(who);
    }

    function money() external view returns (ILens.Money memory) {
        return lens.money();
    }

    function view_(bytes32 id) external view returns (ILens.DisputeView memory, uint256 pot) {
        return (lens.disputeView(id), ledger.potOf(id));
    }

    function judgesOf(bytes32 id) external view returns (uint256 total) {
        (,, total) = registry.weights(disputes.roundOf(id, 1).stakeBlock, disputes.dispute(id).challenger);
    }

    /// @dev Every lock of an account is the sum of what open disputes bound of it.
    function boundBy(address a) external view returns (uint256 sum) {
        for (uint256 i = 0; i < ids.length; ++i) {
            IDisputes.Dispute memory d = disputes.dispute(ids[i]);
            if (d.phase == Phase.FINAL) continue;
            if (d.operator == a) sum += d.operatorLocked;
            for (uint16 r = 1; r <= d.round; ++r) {
                IDisputes.Member[] memory list = disputes.membersOf(ids[i], r);
                for (uint256 k = 0; k < list.length; ++k) {
                    if (list[k].voter == a) sum += list[k].locked;
                }
            }
        }
    }

    function accountOf(address a)
        external
        view
        returns (uint256 active, uint256 unbonding, uint256 locked, uint256 due)
    {
        (unbonding,) = vault.unbondingOf(a);
        return (vault.stakeOf(a), unbonding, vault.lockedOf(a), ledger.creditOf(a));
    }

    /// @dev The table of moves, from one look to the next.
    function watch() private {
        for (uint256 i = 0; i < ids.length; ++i) {
            bytes32 id = ids[i];
            uint8 was = phaseBefore[id];
            uint8 is_ = uint8(disputes.phaseOf(id));
            Verdict verdict = disputes.dispute(id).verdict;
            if (!moves(was, is_)) broken = true;
            if ((is_ == uint8(Phase.FINAL)) != (verdict != Verdict.NONE)) broken = true;
            if (verdictBefore[id] != Verdict.NONE && verdict != verdictBefore[id]) broken = true;
            if (was != is_ && is_ == uint8(Phase.FINAL)) endings[uint8(verdict)] += 1;
            (phaseBefore[id], verdictBefore[id]) = (is_, verdict);
        }
    }

    function moves(uint8 was, uint8 is_) private pure returns (bool) {
        if (was == is_) return true;
        if (was == uint8(Phase.NONE)) return is_ == uint8(Phase.SEED);
        // A draw with no weights, a fourth lost seed.
        if (was == uint8(Phase.SEED)) return is_ == uint8(Phase.COMMIT) || is_ == uint8(Phase.FINAL);
        // Commits and reveals may close inside one action, so a look can miss REVEAL.
        if (was == uint8(Phase.FINAL)) return false;
        return is_ != uint8(Phase.NONE) && (was == uint8(Phase.COMMIT) || is_ != uint8(Phase.COMMIT));
    }

    function pick(uint256 which) private view returns (bytes32, bool) {
        return ids.length == 0 ? (bytes32(0), false) : (ids[which % ids.length], true);
    }

    mapping(bytes32 id => mapping(uint16 round => mapping(address voter => uint8))) private _chosen;

    /// @dev The act that a voter chose when it committed; `what` matters the first time only.
    function actOf(bytes32 id, address voter, uint8 what) private returns (Act memory) {
        uint16 round = disputes.dispute(id).round;
        uint8 kept = _chosen[id][round][voter];
        if (kept == 0) kept = _chosen[id][round][voter] = what % 7 + 1;
        if (kept == 2) return other("a");
        if (kept == 3) return defect(1);
        if (kept == 4) return doubt(Outcome.UNAVAILABLE);
        if (kept == 5) return doubt(Outcome.NO_KEY);
        if (kept == 6) return doubt(Outcome.CANNOT_EXECUTE);
        return equal();
    }
}

/// @title What holds after any sequence of actions
contract InvariantsTest is Network {
    Everybody private all;

    function setUp() public override {
        all = new Everybody();
    }

    function targetContracts() public view returns (address[] memory list) {
        list = new address[](1);
        list[0] = address(all);
    }

    struct FuzzSelector {
        address addr;
        bytes4[] selectors;
    }

    /// @dev Only the actions, not the setup or the getters.
    function targetSelectors() public view returns (FuzzSelector[] memory list) {
        bytes4[] memory s = new bytes4[](11);
        s[0] = Everybody.anchorOne.selector;
        s[1] = Everybody.openOne.selector;
        s[2] = Everybody.drawOne.selector;
        s[3] = Everybody.voteOne.selector;
        s[4] = Everybody.playRound.selector;
        s[5] = Everybody.settleOne.selector;
        s[6] = Everybody.withdraw.selector;
        s[7] = Everybody.moveStake.selector;
        s[8] = Everybody.equivocate.selector;
        s[9] = Everybody.wait.selector;
        s[10] = Everybody.drawOne.selector;
        list = new FuzzSelector[](1);
        list[0] = FuzzSelector(address(all), s);
    }

    function invariant_balances_are_stakes_unbonding_pots_credits_and_burned() public view {
        ILens.Money memory m = all.money();
        same(m.vaultBalance, m.totalStake + m.totalUnbonding, "vault");
        same(m.ledgerBalance, m.totalBonds + m.totalCredits + m.totalBurned, "ledger");
        same(m.vaultBalance + m.ledgerBalance, all.paidIn() - all.paidOut(), "what came in and did not leave");
    }

    function invariant_totals_are_the_sums_over_accounts() public view {
        ILens.Money memory m = all.money();
        uint256 active;
        uint256 unbonding;
        uint256 credits;
        for (uint8 i = 0; i < 7; ++i) {
            (uint256 a, uint256 u,, uint256 c) = all.accountOf(all.actor(i));
            (active, unbonding, credits) = (active + a, unbonding + u, credits + c);
        }
        (,,, uint256 reporter) = all.accountOf(address(all));
        same(active, m.totalStake, "stakes");
        same(unbonding, m.totalUnbonding, "unbonding");
        same(credits + reporter, m.totalCredits, "credits");
    }

    function invariant_locks_are_those_of_open_disputes_and_never_exceed_the_stake() public view {
        for (uint8 i = 0; i < 7; ++i) {
            address a = all.actor(i);
            (uint256 active, uint256 unbonding, uint256 locked,) = all.accountOf(a);
            same(locked, all.boundBy(a), "locks");
            that(locked <= active + unbonding, "bound stake exists");
        }
    }

    function invariant_a_pot_holds_the_bond_until_the_verdict_and_nothing_after() public view {
        uint256 pots;
        for (uint256 i = 0; i < all.count(); ++i) {
            (ILens.DisputeView memory d, uint256 pot) = all.view_(all.ids(i));
            same(pot, d.verdict == 0 ? d.bond : 0, "pot");
            pots += pot;
        }
        same(pots, all.money().totalBonds, "all pots");
    }

    function invariant_an_equivocation_costs_one_slash_in_all_however_often_it_is_reported() public view {
        for (uint64 seq = 1_000_000; seq < 1_000_008; ++seq) {
            that(all.slashedFor(seq) <= 30 ether, "one slash");
        }
    }

    function invariant_a_first_round_always_has_somebody_to_draw_but_its_opener() public view {
        for (uint256 i = 0; i < all.count(); ++i) {
            that(all.judgesOf(all.ids(i)) != 0, "judges");
        }
    }

    function invariant_disputes_move_only_along_their_table_and_verdicts_stand() public view {
        that(!all.broken(), "table");
    }
}
