// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IRounds} from "../../src/interfaces/IRounds.sol";
import {TallyLib} from "../../src/libraries/TallyLib.sol";
import {Outcome, ParamSet, Receipt, StructHashes, Verdict} from "../../src/libraries/Types.sol";
import {GasBase} from "./GasBase.sol";

/// @title The end of the longest dispute that there may be: three levels, seven reruns, a challenger who knew
/// @dev How many seats a round has changes nothing here: counts and masks are words.
/// forge-config: default.isolate = true
contract LongestDisputeGasTest is GasBase {
    uint16 private constant RERUNS = 7;
    uint16 private constant ROUNDS = RERUNS + 3;
    address private constant CHALLENGER = address(0xC4A1);
    address private constant APPELLANT = address(0xA44);
    bytes32 private constant WRONG = keccak256("other");
    bytes32 private constant OPENING = "opening";

    bytes32 private id;

    function parameters() internal pure override returns (ParamSet memory p) {
        p = super.parameters();
        p.committee.seats = [uint16(9), 11, 13];
        p.committee.maxReruns = uint8(RERUNS);
        p.times.rerunTime = 28 hours;
    }

    function test_gas_of_finalizing_the_longest_dispute() public {
        convicted();
        until(uint256(disputes.dispute(id).airgapEnd) + 1);
        bytes memory data = abi.encodeCall(disputes.finalize, (id));
        told("finalize_10_rounds", measured(address(disputes), data, "finalize"));
        ended(Verdict.OVERTURNED);
        that(ledger.creditOf(CHALLENGER) > params.requiredBond(1), "a share of the slash");
        same(ledger.creditOf(APPELLANT), 2 * 11 * params.money(1).feePerSeat, "the appeal is paid back");
    }

    /// @dev Who worked is paid by the treasury, which advances the rest of it here.
    function test_gas_of_refunding_the_longest_dispute() public {
        convicted();
        bytes memory data = abi.encodeCall(guardian.refund, (disputes, id));
        told("refund_10_rounds", measured(address(guardian), data, "refund"));
        ended(Verdict.REFUNDED);
        same(ledger.creditOf(CHALLENGER), params.requiredBond(1), "its own back");
    }

    function ended(Verdict want) private view {
        same(uint8(disputes.dispute(id).verdict), uint8(want), "verdict");
        same(disputes.roundsOf(id), ROUNDS, "rounds");
        that(settlement.accountOf(id).paid, "paid at once");
    }

    // --- the dispute ---

    /// @dev Reruns without a key, a verdict, an appeal, a round that agrees on nothing, and the contrary verdict at last.
    function convicted() private {
        challenged();
        for (uint16 round = 1; round <= ROUNDS; ++round) {
            judged(round);
            if (round == RERUNS + 1) appealed();
        }
        bytes memory data = abi.encodeCall(disputes.openAlt, (id, OPENING));
        told("open_alt", measured(address(disputes), data, "openAlt"));
    }

    function challenged() private {
        (Receipt memory r, uint64 batchId,) = posted(1);
        id = disputes.disputeId(anchor.receiptId(r));
        vm.deal(CHALLENGER, 10 ether);
        bytes32 key = TallyLib.keyOf(Outcome.EXECUTED, 0, StructHashes.outHash(WRONG, TRACE));
        opened(CHALLENGER, r, batchId, disputes.altCommitOf(id, CHALLENGER, key, OPENING));
    }

    function appealed() private {
        uint256 bond = disputes.appealBond(id);
        vm.deal(APPELLANT, bond);
        vm.prank(APPELLANT);
        disputes.appeal{value: bond}(id);
    }

    function judged(uint16 round) private {
        drawn(id, SALT);
        IRounds.Member[] memory list = members(id);
        for (uint256 i = 0; i < list.length; ++i) {
            committed(id, list[i], saying(round, i));
        }
        for (uint256 i = 0; i < list.length; ++i) {
            revealed(id, list[i], saying(round, i));
        }
        disputes.settle(id);
    }

    /// @dev Somebody finds in each round what stands at last, so that each is looked through for it.
    function saying(uint16 round, uint256 i) private pure returns (Act memory) {
        bool wrong = round == ROUNDS || (round == ROUNDS - 1 ? i % 2 == 0 : i == 0);
        if (wrong) return other(WRONG);
        return round <= RERUNS ? doubt(Outcome.NO_KEY) : equal();
    }
}
