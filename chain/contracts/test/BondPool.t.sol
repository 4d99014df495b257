// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {BondPool} from "../src/court/BondPool.sol";
import {Phase, Receipt, Verdict, Vote} from "../src/libraries/Types.sol";
import {IDisputes} from "../src/interfaces/IDisputes.sol";
import {ILedger} from "../src/interfaces/ILedger.sol";
import {IRounds} from "../src/interfaces/IRounds.sol";
import {Courthouse} from "./Courthouse.sol";

/// @title Deploys one pool: the address of its first creation is known before
contract Starter {
    function poolAt() public view returns (address) {
        return address(uint160(uint256(keccak256(abi.encodePacked(bytes2(0xd694), address(this), bytes1(0x01))))));
    }

    function start(IDisputes court, ILedger ledger, bytes32 receiptId, uint256 bond, bytes32 altCommit)
        external
        returns (BondPool)
    {
        return new BondPool(court, ledger, receiptId, bond, altCommit);
    }
}

/// @title A contributor that refuses payments, or calls the pool again from each of them
contract Contributor {
    BondPool private immutable POOL;
    bool public refuses;
    bytes[] private _calls;
    uint256 public refused;

    constructor(BondPool pool) {
        POOL = pool;
    }

    function refuse(bool refuses_) external {
        refuses = refuses_;
    }

    function reenter(bytes calldata call_) external {
        _calls.push(call_);
    }

    function contribute(uint256 amount) external payable {
        POOL.contribute{value: amount}();
    }

    function takeBack() external {
        POOL.takeBack();
    }

    function claim() external {
        POOL.claim();
    }

    receive() external payable {
        if (refuses) revert("no");
        for (uint256 i = 0; i < _calls.length; ++i) {
            (bool ok,) = address(POOL).call(_calls[i]);
            if (!ok) ++refused;
        }
    }
}

/// @title One challenge by several accounts, on the whole court
/// forge-config: default.fuzz.runs = 8
contract BondPoolTest is Courthouse {
    uint256 private constant MOST = 5;

    BondPool private pool;
    Receipt private receipt_;
    uint64 private batchId;
    bytes32 private id;
    uint256 private bond;

    /// @dev A pool for one receipt, by a starter who expects `choice`.
    function started(uint256 salt, uint256 choice) private {
        receipt_ = receiptOf(salt);
        batchId = docket.anchor(OPERATOR, ENVIRONMENT, params.version());
        bond = params.requiredBond(params.version());
        pool = poolOf(receipt_, bond, choice);
        id = pool.disputeId();
        same(id, disputes.disputeId(keccak256(abi.encode(receipt_))), "dispute");
    }

    function poolOf(Receipt memory r, uint256 wants, uint256 choice) private returns (BondPool) {
        Starter starter = new Starter();
        bytes32 receiptId = keccak256(abi.encode(r));
        bytes32 dispute = disputes.disputeId(receiptId);
        bytes32 commit = disputes.altCommitOf(dispute, starter.poolAt(), keyOf(dispute, choice), SALT);
        BondPool made = starter.start(disputes, ledger, receiptId, wants, commit);
        same(address(made), starter.poolAt(), "address");
        return made;
    }

    function keyOf(bytes32 dispute, uint256 choice) private view returns (bytes32) {
        IRounds.Member memory m;
        Vote memory v = voteOf(dispute, m, choice);
        bytes32 outHash = keccak256(abi.encode(v.tokensHash, v.traceRoot));
        return keccak256(abi.encode(v.outcome, v.code, v.outcome == 1 ? outHash : bytes32(0)));
    }

    function person(uint256 i) private pure returns (address) {
        return address(uint160(0xC0117000 + i));
    }

    function gives(address who, uint256 amount) private {
        vm.deal(who, who.balance + amount);
        vm.prank(who);
        pool.contribute{value: amount}();
    }

    /// @dev `people` accounts pay the whole bond, in parts that `parts_` says.
    function filled(uint256 people_, uint256 parts_) private {
        for (uint256 i = 0; i < people_; ++i) {
            uint256 left = bond - pool.contributed();
            bool last = i + 1 == people_;
            gives(person(i), last ? left : 1 + uint256(keccak256(abi.encode(parts_, i))) % (left - people_ + i));
        }
        same(pool.contributed(), bond, "whole");
    }

    function challenges() private {
        same(pool.challenge(receipt_, "", batchId, new bytes32[](0)), id, "id");
        (address who,) = disputes.challengerOf(id);
        same(who, address(pool), "the pool is the challenger");
        that(pool.isChallenged() && address(pool).balance == 0, "the bond is at the court");
    }

    /// @dev All rounds say `choice`; whoever knows the salt shows what the pool knew; the ledger's delay passes.
    function ended(uint256 choice) private {
        while (disputes.phaseOf(id) == Phase.SEED) judged(id, choice);
        if (choice == 1) {
            vm.prank(address(0xB07));
            disputes.openAlt(id, SALT);
        }
        toFinalize(id);
        disputes.finalize(id);
        passes(params.withdrawDelay() + 1 hours);
    }

    function claims(address who) private returns (uint256 got) {
        uint256 before = who.balance;
        uint256 wanted = pool.claimable(who);
        vm.prank(who);
        got = pool.claim();
        same(who.balance - before, got, "paid");
        same(got, wanted, "claimable says so");
    }

    function leaves(address who, uint256 amount) private {
        uint256 before = who.balance;
        vm.prank(who);
        same(pool.takeBack(), amount, "left");
        same(who.balance - before, amount, "paid back");
        same(pool.contributionOf(who), 0, "nothing stays");
    }

    function nothingFor(address who) private {
        vm.prank(who);
        vm.expectRevert(abi.encodeWithSelector(BondPool.NothingOwed.selector, who));
        pool.claim();
    }

    /// @dev SHARED: each has its part to the wei, and what remains is less than one wei a person.
    function shared(uint256 people_, uint256 returned, uint256 order) private {
        uint256 sum = 0;
        for (uint256 i = 0; i < people_; ++i) {
            address who = person((i + order) % people_);
            uint256 part = pool.contributionOf(who) * returned / bond;
            if (part == 0) {
                nothingFor(who);
                continue;
            }
            same(claims(who), part, "part");
            sum += part;
            nothingFor(who);
        }
        that(sum <= returned && returned - sum < people_, "all but rounding");
        same(address(pool).balance, returned - sum, "remainder");
        same(ledger.creditOf(address(pool)), 0, "nothing is left at the ledger");
        balanced_();
    }

    function balanced_() private view {
        uint256 sum = ledger.totalPots() + ledger.totalCredits() + ledger.treasury() + ledger.totalBurned();
        same(address(ledger).balance, sum, "ledger");
    }

    // --- from the first contribution to the last claim ---

    /// @dev Every verdict: what the settlement gives the challenger is what the contributors share.
    function test_what_comes_back_is_shared_in_proportion(uint256 salt, uint8 choice, uint8 people_, uint256 parts_)
        public
    {
        uint256 c = choice % 8;
        uint256 count = bound(people_, 1, MOST);
        started(salt, 1);
        filled(count, parts_);
        challenges();
        nothingFor(person(0));
        ended(c);
        shared(count, settlement.accountOf(id).toChallenger, parts_ % count);
    }

    function test_a_conviction_brings_bond_and_alpha(uint256 salt, uint8 people_, uint256 parts_) public {
        uint256 count = bound(people_, 1, MOST);
        started(salt, 1);
        filled(count, parts_);
        challenges();
        ended(1);
        uint256 alpha = params.money(1).slashAmount * params.shares(1).alphaBps / 10_000;
        shared(count, bond + alpha, parts_ % count);
    }

    function test_an_upheld_receipt_costs_the_bond(uint256 salt, uint8 people_, uint256 parts_) public {
        uint256 count = bound(people_, 1, MOST);
        started(salt, 1);
        filled(count, parts_);
        challenges();
        ended(0);
        that(disputes.dispute(id).verdict == Verdict.UPHELD, "upheld");
        shared(count, 0, 0);
    }

    function test_a_draw_costs_the_fee_of_a_seat_together(uint256 salt, uint8 people_, uint256 parts_) public {
        uint256 count = bound(people_, 1, MOST);
        started(salt, 1);
        filled(count, parts_);
        challenges();
        ended(9);
        that(disputes.dispute(id).verdict == Verdict.DRAW, "draw");
        shared(count, bond - params.money(1).feePerSeat, parts_ % count);
    }

    function test_a_refund_brings_the_bond_back(uint256 salt, uint8 choice, uint8 people_, uint256 parts_) public {
        uint256 count = bound(people_, 1, MOST);
        started(salt, 1);
        filled(count, parts_);
        challenges();
        judged(id, choice % 8);
        guardian.refund(disputes, id);
        passes(params.withdrawDelay() + 1 hours);
        shared(count, bond, 0);
    }

    function test_claims_wait_for_the_ledger_and_for_a_pause(uint256 salt, uint256 parts_) public {
        started(salt, 1);
        filled(2, parts_);
        challenges();
        judged(id, 1);
        toFinalize(id);
        disputes.finalize(id);
        nothingFor(person(0));
        guardian.pause(1 days);
        passes(1 days - 1);
        nothingFor(person(1));
        passes(params.withdrawDelay() + 1 hours);
        shared(2, bond, 0);
    }

    // --- before the challenge ---

    /// @dev BACKED, whatever people do: contributions and departures in any order.
    function test_contributions_are_backed_and_come_back_whole(uint256 salt, uint256 acts) public {
        started(salt, 1);
        uint256 sum = 0;
        uint256[MOST] memory have;
        for (uint256 i = 0; i < 24; ++i) {
            uint256 roll = uint256(keccak256(abi.encode(acts, i)));
            uint256 k = roll % MOST;
            if (roll >> 8 & 3 == 0 && have[k] != 0) {
                leaves(person(k), have[k]);
                (sum, have[k]) = (sum - have[k], 0);
            } else if (sum < bond) {
                uint256 sent = 1 + (roll >> 16) % bond;
                uint256 taken = sent < bond - sum ? sent : bond - sum;
                gives(person(k), sent);
                (sum, have[k]) = (sum + taken, have[k] + taken);
            }
            same(pool.contributed(), sum, "contributed");
            same(address(pool).balance, sum, "balance");
            same(pool.contributionOf(person(k)), have[k], "contribution");
            that(sum <= bond && pool.claimable(person(k)) == 0, "never more than the bond");
        }
        for (uint256 k = 0; k < MOST; ++k) {
            if (have[k] != 0) leaves(person(k), have[k]);
        }
        same(address(pool).balance, 0, "empty");
    }

    function test_a_full_pool_takes_nothing_more(uint256 salt, uint96 more, uint256 parts_) public {
        started(salt, 1);
        vm.expectRevert(abi.encodeWithSelector(BondPool.NothingAccepted.selector, 0, bond));
        pool.contribute();
        filled(3, parts_);
        uint256 sent = 1 + more % 1 ether;
        vm.expectRevert(abi.encodeWithSelector(BondPool.NothingAccepted.selector, sent, 0));
        pool.contribute{value: sent}();
    }

    function test_an_incomplete_bond_challenges_nothing(uint256 salt, uint256 part) public {
        started(salt, 1);
        part = bound(part, 1, bond - 1);
        gives(person(0), part);
        vm.expectRevert(abi.encodeWithSelector(BondPool.BondIncomplete.selector, bond - part));
        pool.challenge(receipt_, "", batchId, new bytes32[](0));
        vm.expectRevert(abi.encodeWithSelector(BondPool.NotChallenged.selector, id));
        pool.claim();
        leaves(person(0), part);
    }

    /// @dev Who leaves right before the challenge stops nothing: the challenger sends what is missing with it.
    function test_the_challenger_completes_the_bond(uint256 salt, uint256 parts_, uint96 more) public {
        started(salt, 1);
        filled(3, parts_);
        uint256 left = pool.contributionOf(person(1));
        leaves(person(1), left);
        address last = person(7);
        uint256 extra = more % 1 ether;
        vm.deal(last, left + extra);
        vm.prank(last);
        pool.challenge{value: left + extra}(receipt_, "", batchId, new bytes32[](0));
        same(last.balance, extra, "what is too much comes back");
        same(pool.contributionOf(last), left, "it has the part of the one who left");
        ended(1);
        uint256 returned = settlement.accountOf(id).toChallenger;
        same(claims(last), left * returned / bond, "and its share");
        nothingFor(person(1));
    }

    function test_somebody_else_was_first(uint256 salt, uint256 parts_) public {
        started(salt, 1);
        filled(3, parts_);
        vm.deal(address(0xF125), bond);
        vm.prank(address(0xF125));
        disputes.open{value: bond}(receipt_, "", batchId, new bytes32[](0), "other");
        bytes32 receiptId = pool.RECEIPT();
        vm.expectRevert(abi.encodeWithSelector(IDisputes.AlreadyDisputed.selector, receiptId, id));
        pool.challenge(receipt_, "", batchId, new bytes32[](0));
        ended(2);
        vm.expectRevert(abi.encodeWithSelector(BondPool.NotChallenged.selector, id));
        pool.claim();
        for (uint256 i = 0; i < 3; ++i) {
            leaves(person(i), pool.contributionOf(person(i)));
        }
    }

    function test_a_window_that_closed_leaves_everybody_its_own(uint256 salt, uint256 parts_) public {
        started(salt, 1);
        filled(3, parts_);
        docket.closeWindows(0);
        vm.expectRevert(abi.encodeWithSelector(IDisputes.WindowClosed.selector, guardian.clock(), 0));
        pool.challenge(receipt_, "", batchId, new bytes32[](0));
        for (uint256 i = 0; i < 3; ++i) {
            leaves(person(i), pool.contributionOf(person(i)));
        }
    }

    function test_a_pool_challenges_its_own_receipt_only(uint256 salt, uint256 other, uint256 parts_) public {
        vm.assume(uint64(salt) != uint64(other));
        started(salt, 1);
        filled(2, parts_);
        Receipt memory r = receiptOf(other);
        bytes32 have = disputes.disputeId(keccak256(abi.encode(r)));
        vm.expectRevert(abi.encodeWithSelector(BondPool.WrongReceipt.selector, have, id));
        pool.challenge(r, "", batchId, new bytes32[](0));
        challenges();
    }

    function test_a_pool_of_another_bond_is_of_no_use_and_costs_nothing(uint256 salt, uint96 more, bool less) public {
        started(salt, 1);
        uint256 other = less ? bound(more, 1, bond - 1) : bond + 1 + more % 1 ether;
        pool = poolOf(receipt_, other, 1);
        gives(person(0), other);
        vm.expectRevert(abi.encodeWithSelector(IDisputes.BondMismatch.selector, other, bond));
        pool.challenge(receipt_, "", batchId, new bytes32[](0));
        leaves(person(0), other);
    }

    // --- afterwards ---

    function test_nobody_enters_or_leaves_after_the_challenge(uint256 salt, uint256 parts_, uint96 late) public {
        started(salt, 1);
        filled(2, parts_);
        challenges();
        bytes memory refusal = abi.encodeWithSelector(BondPool.AlreadyChallenged.selector, id);
        vm.expectRevert(refusal);
        pool.contribute{value: 1 + late % 1 ether}();
        vm.prank(person(0));
        vm.expectRevert(refusal);
        pool.takeBack();
        vm.expectRevert(refusal);
        pool.challenge{value: bond}(receipt_, "", batchId, new bytes32[](0));
        ended(1);
        vm.expectRevert(refusal);
        pool.contribute{value: 1}();
        shared(2, settlement.accountOf(id).toChallenger, 0);
    }

    // --- hostile contributors, and wei that nobody sent for ---

    function test_who_calls_again_from_a_payment_gains_nothing(uint256 salt, uint256 part, uint96 more) public {
        started(salt, 1);
        part = bound(part, 2, bond - 2);
        Contributor thief = new Contributor(pool);
        thief.reenter(abi.encodeCall(pool.takeBack, ()));
        thief.reenter(abi.encodeCall(pool.claim, ()));
        vm.deal(address(thief), part);
        thief.contribute(part);
        gives(person(0), bond - part - 1);
        thief.takeBack();
        same(address(thief).balance, part, "its own");
        same(thief.refused(), 2, "both calls were refused");
        same(address(pool).balance, bond - part - 1, "the others have theirs");
        // What is too much comes back in the same call, and leaves with it.
        uint256 sent = part + 2 + more % 1 ether;
        vm.deal(address(thief), sent);
        thief.contribute(sent);
        same(address(thief).balance, sent, "it left from inside");
        that(pool.contributed() == bond - part - 1 && pool.contributionOf(address(thief)) == 0, "and is counted so");
    }

    function test_who_claims_again_from_a_payment_gains_nothing(uint256 salt, uint256 part) public {
        started(salt, 1);
        part = bound(part, 1, bond - 1);
        Contributor thief = new Contributor(pool);
        thief.reenter(abi.encodeCall(pool.claim, ()));
        thief.reenter(abi.encodeCall(pool.takeBack, ()));
        vm.deal(address(thief), part);
        thief.contribute(part);
        gives(person(0), bond - part);
        challenges();
        ended(1);
        uint256 returned = settlement.accountOf(id).toChallenger;
        thief.claim();
        same(address(thief).balance, part * returned / bond, "its own");
        same(thief.refused(), 2, "both calls were refused");
        same(claims(person(0)), (bond - part) * returned / bond, "the other has its own");
    }

    function test_who_refuses_its_payment_stops_nobody(uint256 salt, uint256 part) public {
        started(salt, 1);
        part = bound(part, 1, bond - 1);
        Contributor proud = new Contributor(pool);
        vm.deal(address(proud), part);
        proud.contribute(part);
        proud.refuse(true);
        vm.expectRevert(abi.encodeWithSelector(BondPool.PaymentRefused.selector, address(proud), part));
        proud.takeBack();
        gives(person(0), bond - part);
        challenges();
        ended(1);
        uint256 returned = settlement.accountOf(id).toChallenger;
        uint256 own = part * returned / bond;
        vm.expectRevert(abi.encodeWithSelector(BondPool.PaymentRefused.selector, address(proud), own));
        proud.claim();
        same(claims(person(0)), (bond - part) * returned / bond, "the other is paid");
        proud.refuse(false);
        proud.claim();
        same(address(proud).balance, own, "and so is this one, once it takes it");
    }

    /// @dev No bond is made of them, and whoever forces them in gives them to the contributors.
    function test_wei_that_were_forced_in_are_shared(uint256 salt, uint96 early, uint96 late, uint256 parts_) public {
        started(salt, 1);
        (uint256 first, uint256 second) = (early % bond, late % 1 ether);
        vm.deal(address(pool), first);
        vm.expectRevert(abi.encodeWithSelector(BondPool.BondIncomplete.selector, bond));
        pool.challenge(receipt_, "", batchId, new bytes32[](0));
        filled(3, parts_);
        pool.challenge(receipt_, "", batchId, new bytes32[](0));
        // One takes its part of what lies there before the ledger pays, and loses nothing by it.
        uint256 part = pool.contributionOf(person(0)) * first / bond;
        if (part != 0) same(claims(person(0)), part, "early");
        vm.deal(address(pool), address(pool).balance + second);
        ended(1);
        uint256 returned = first + second + settlement.accountOf(id).toChallenger;
        uint256 all = pool.contributionOf(person(0)) * returned / bond;
        if (all != part) same(claims(person(0)), all - part, "late");
        for (uint256 i = 1; i < 3; ++i) {
            uint256 own = pool.contributionOf(person(i)) * returned / bond;
            if (own != 0) same(claims(person(i)), own, "part");
        }
        that(address(pool).balance < 3, "all but rounding");
    }

    function test_plain_payments_are_refused(uint256 salt, uint96 amount) public {
        started(salt, 1);
        (bool ok, bytes memory data) = address(pool).call{value: amount % 1 ether}("");
        bytes memory want = abi.encodeWithSelector(BondPool.UnexpectedPayment.selector, address(this));
        that(!ok && keccak256(data) == keccak256(want), "contribute instead");
    }
}
