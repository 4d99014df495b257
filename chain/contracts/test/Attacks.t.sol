// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IRounds} from "../src/interfaces/IRounds.sol";
import {ParamSet, Phase, Receipt, Verdict, Vote} from "../src/libraries/Types.sol";
import {IDisputes} from "../src/interfaces/IDisputes.sol";
import {IReceiptAnchor} from "../src/interfaces/IReceiptAnchor.sol";
import {ReceiptAnchor} from "../src/anchor/ReceiptAnchor.sol";
import {AnchorBase} from "./AnchorBase.sol";
import {Courthouse} from "./Courthouse.sol";

/// @title What actors who break the rules gain in a dispute: nothing (docs/evidence/bad-inputs.md)
abstract contract CourtAttacks is Courthouse {
    address internal constant COPIER = address(0xC0B1E2);

    /// @dev A key of what `choice` says, an output.
    function keyOf(bytes32 id, uint256 choice) internal view returns (bytes32) {
        IRounds.Member memory m;
        Vote memory v = voteOf(id, m, choice);
        return keccak256(abi.encode(v.outcome, v.code, keccak256(abi.encode(v.tokensHash, v.traceRoot))));
    }

    function ends(bytes32 id) internal {
        toFinalize(id);
        disputes.finalize(id);
    }

    /// @dev Members whose bit of `liars` is set lie together in time; nobody else gets a transaction in. Seats that lied.
    function stuffed(bytes32 id, uint256 liars, bool commitsToo) internal returns (uint256 seats) {
        drawn(id, keccak256(abi.encode(id, liars)));
        IRounds.Member[] memory list = members(id);
        for (uint256 i = 0; i < list.length; ++i) {
            bool lies = liars & (1 << i) != 0;
            if (list[i].voter == address(0) || (commitsToo && !lies)) continue;
            committed(voteOf(id, list[i], lies ? 1 : 0));
        }
        toReveal(id);
        for (uint256 i = 0; i < list.length; ++i) {
            if (list[i].voter == address(0) || liars & (1 << i) == 0) continue;
            rounds.reveal(voteOf(id, list[i], 1), "");
            seats += list[i].seats;
        }
        toSettle(id);
        disputes.settle(id);
    }
}

/// @title Copied, stuffed, left
/// forge-config: default.fuzz.runs = 8
contract CourtAttacksTest is CourtAttacks {
    /// @dev Front-running `open`: the copier has the dispute and the copy, and the copy opens for nobody.
    function test_who_copies_a_challenge_has_nothing_of_the_slash(uint256 salt, uint8 choice, bytes32 secret) public {
        uint256 c = 1 + choice % 3;
        bytes32 receiptId = keccak256(abi.encode(receiptOf(salt)));
        bytes32 id = disputes.disputeId(receiptId);
        bytes32 key = keyOf(id, c);
        bytes32 mine = disputes.altCommitOf(id, address(this), key, secret);
        openedBy(COPIER, salt, mine);
        uint256 bond = params.requiredBond(1);
        vm.expectRevert(abi.encodeWithSelector(IDisputes.AlreadyDisputed.selector, receiptId, id));
        disputes.open{value: bond}(receiptOf(salt), "", 0, new bytes32[](0), mine);
        judged(id, c);
        bytes32 have = disputes.altCommitOf(id, COPIER, key, secret);
        vm.expectRevert(abi.encodeWithSelector(IDisputes.BadAlt.selector, have, mine));
        disputes.openAlt(id, secret);
        ends(id);
        same(ledger.creditOf(COPIER), bond, "its own back");
        same(settlement.accountOf(id).toChallenger, bond, "alpha is burned");
        same(ledger.creditOf(address(this)), 0, "the maker was too late, and lost nothing");
    }

    /// @dev Block stuffing: whoever fills all blocks but for its friends' votes silences the others, and has won a larger round.
    function test_who_stuffs_blocks_convicts_nobody_without_a_quorum(uint256 salt, uint8 liars, bool commitsToo)
        public
    {
        bytes32 id = opened(salt);
        uint256 seats = stuffed(id, liars, commitsToo);
        if (seats >= params.quorum(1, 5)) {
            that(disputes.dispute(id).verdict == Verdict.OVERTURNED, "a quorum needs no stuffing");
        } else {
            inPhase(id, Phase.SEED);
            same(disputes.dispute(id).level, 2, "more judges");
            that(disputes.dispute(id).verdict == Verdict.NONE, "nobody is convicted");
            same(vault.stakeOf(OPERATOR), 100 ether, "nobody is slashed");
        }
    }

    /// @dev Whoever was drawn and leaves at once pays for its empty seat from what is on its way out.
    function test_who_leaves_its_seat_leaves_the_penalty(uint256 salt, uint256 which) public {
        bytes32 id = inCommit(salt);
        IRounds.Member[] memory list = members(id);
        which = bound(which, 0, list.length - 1);
        address leaver = list[which].voter;
        vm.assume(leaver != address(0) && list[which].seats == 1);
        uint256 all = vault.stakeOf(leaver);
        vm.prank(leaver);
        registry.quit();
        vm.prank(leaver);
        vault.requestUnbond(all);
        for (uint256 i = 0; i < list.length; ++i) {
            if (i != which) committed(voteOf(id, list[i], 0));
        }
        toReveal(id);
        for (uint256 i = 0; i < list.length; ++i) {
            if (i != which) rounds.reveal(voteOf(id, list[i], 0), "");
        }
        toSettle(id);
        disputes.settle(id);
        ends(id);
        settlement.settleSeats(id, 1, 255);
        passes(params.times(1).unbondDelay);
        uint256 before = leaver.balance;
        vm.prank(leaver);
        vault.finishUnbond();
        same(leaver.balance - before, all - params.money(1).absentPenalty, "the rest");
    }
}

/// @title An operator that posts again while it is given its change
contract GreedyOperator {
    ReceiptAnchor private immutable ANCHOR;
    IReceiptAnchor.BatchHeader private _next;
    uint256 public again;

    constructor(ReceiptAnchor anchor) {
        ANCHOR = anchor;
    }

    function act(address where, uint256 value, bytes calldata data) external payable {
        (bool ok, bytes memory why) = where.call{value: value}(data);
        require(ok, string(why));
    }

    function post(IReceiptAnchor.BatchHeader calldata first, IReceiptAnchor.BatchHeader calldata next, uint256 value)
        external
    {
        (_next, again) = (next, value);
        ANCHOR.post{value: value}(first);
    }

    receive() external payable {
        uint256 value = again;
        if (value == 0) return;
        again = 0;
        ANCHOR.post{value: value}(_next);
    }
}

/// @title What an operator gains that is called in the middle of its own call: nothing
contract AnchorAttacksTest is AnchorBase {
    function test_who_posts_again_for_its_change_pays_for_both(uint8 first, uint8 second, uint64 more) public {
        GreedyOperator greedy = new GreedyOperator(anchor);
        vm.deal(address(this), 200 ether);
        greedy.act{value: 100 ether}(address(vault), 100 ether, abi.encodeCall(vault.deposit, ()));
        greedy.act(address(registry), 0, abi.encodeCall(registry.registerOperator, ("https://greedy.example")));
        (uint32 a, uint32 b) = (uint32(bound(first, 1, 64)), uint32(bound(second, 1, 64)));
        uint256 fee = fees.feeFor(a) + fees.feeFor(b);
        vm.deal(address(greedy), 100 ether);
        greedy.post(header(1, a, "first"), header(1 + a, b, "second"), fee + 1 + more);
        same(anchor.lastSeq(address(greedy)), a + b, "numbers");
        same(anchor.batchCount(), 2, "batches");
        same(vault.collateralOf(address(greedy)), (uint256(a) + b) * 0.1 ether, "bound for both");
        same(address(greedy).balance, 100 ether - fee, "paid for both");
        same(address(anchor).balance, 0, "nothing stays");
        balanced();
    }
}
