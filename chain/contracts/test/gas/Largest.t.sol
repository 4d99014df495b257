// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Ledger} from "../../src/stake/Ledger.sol";
import {StakeVault} from "../../src/stake/StakeVault.sol";
import {ParamSet, Receipt, StructHashes} from "../../src/libraries/Types.sol";
import {IKeyEpochs} from "../../src/interfaces/IKeyEpochs.sol";
import {ILedger} from "../../src/interfaces/ILedger.sol";
import {IReceiptAnchor} from "../../src/interfaces/IReceiptAnchor.sol";
import {Trees} from "../Trees.sol";
import {GasBase} from "./GasBase.sol";

/// @title What takes a list or walks through storage, at the largest that it may be: each fits one transaction
/// forge-config: default.isolate = true
contract LargestGasTest is GasBase {
    bytes32 private constant ROOT = keccak256("root");
    uint256 private constant LEAF_BYTES = 21 * 32;
    address private constant RICH = address(0x51C4);

    function parameters() internal pure override returns (ParamSet memory p) {
        p = super.parameters();
        (p.committee.seats, p.committee.rounds) = ([uint16(255), 0, 0], 1);
        (p.money.absentPenalty, p.money.noRevealPenalty, p.money.wrongPenalty) = (0.002 ether, 0.003 ether, 0.004 ether);
        p.times.withdrawDelay = 30 days;
    }

    /// @dev The largest committee, a third of it absent: keys added one by one, a slash and a new weight each.
    function test_gas_of_the_largest_committee() public {
        populated(10_000);
        (Receipt memory r, uint64 batchId,) = posted(1);
        (bytes32 id,) = openedAt(r, batchId);
        keysForAll(id, SALT);
        told("draw_255_of_10000", drawnAll(id, SALT));
        address[] memory all = holders(id);
        vm.prank(all[0]);
        rounds.postCommitRoot(id, ROOT);
        until(uint256(roundOf(id).commitEnd) + 1);
        uint256 signers = quorum(all, 170);
        bytes memory data = certificate(id, all, signers, ROOT);
        told("certificate_255_a_third_absent", measured(address(rounds), data, "certify"));
        until(uint256(roundOf(id).revealEnd) + 1);
        told("settle_255", measured(address(disputes), abi.encodeCall(disputes.settle, (id)), "settle"));
        until(uint256(disputes.dispute(id).airgapEnd) + 1);
        told("finalize_255", measured(address(disputes), abi.encodeCall(disputes.finalize, (id)), "finalize"));
        told("settle_170_seats_first_payments", seats(id, 170));
        told("settle_85_seats_of_absent", seats(id, 85));
    }

    /// @dev Members with at least so many seats and hardly more: those that leave the quorum whole stay away, from the last on.
    function quorum(address[] memory all, uint256 least) private pure returns (uint256 mask) {
        mask = (1 << all.length) - 1;
        uint256 left = all.length;
        for (uint256 i = all.length; i > 0 && left > least; --i) {
            uint256 next = whole(all, mask & ~(1 << (i - 1)));
            uint256 many = ones(next);
            if (many >= least) (mask, left) = (next, many);
        }
    }

    function ones(uint256 mask) private pure returns (uint256 n) {
        for (; mask != 0; mask &= mask - 1) {
            ++n;
        }
    }

    function seats(bytes32 id, uint256 count) private returns (uint256) {
        return measured(address(settlement), abi.encodeCall(settlement.settleSeats, (id, 1, count)), "settleSeats");
    }

    /// @dev A credit in every hour of the longest delay, and nobody took any.
    function test_gas_of_the_longest_queue() public {
        Ledger(address(ledger)).setMover(address(this), true);
        ledger.take{value: 1 ether}("pot", address(this), ILedger.Source.FEE);
        for (uint256 i = 0; i <= 30 * 24; ++i) {
            ledger.credit("pot", RICH, 1 gwei, ILedger.Reason.BOUNTY);
            pass(1 hours);
        }
        pass(30 days);
        vm.prank(RICH);
        told("withdraw_721_hours", measured(address(ledger), abi.encodeCall(ledger.withdraw, ()), "withdraw"));
        same(RICH.balance, 721 gwei, "all of it");
    }

    /// @dev Everything is on its way out, in as many requests as there may be.
    function test_gas_of_a_slash_of_the_longest_queue() public {
        vm.deal(RICH, 100 ether);
        stake(RICH, 8 ether);
        for (uint256 i = 0; i < 8; ++i) {
            vm.prank(RICH);
            vault.requestUnbond(1 ether);
            pass(1 hours);
        }
        StakeVault(address(vault)).setMover(address(this), true);
        Ledger(address(ledger)).setSource(address(this), true);
        bytes memory data = abi.encodeCall(vault.slash, (RICH, 0, 8 ether, "all"));
        told("slash_of_8_requests", measured(address(vault), data, "slash"));
        same(vault.totalUnbonding(), 0, "nothing is left");
    }

    /// @dev As long as an operator's batcher lets list and leaves become together (124 KiB), the list without a zero.
    function test_gas_of_the_longest_list() public {
        bytes memory list = new bytes((124 << 10) - 60 * LEAF_BYTES);
        for (uint256 i = 32; i <= list.length; i += 32) {
            assembly ("memory-safe") {
                mstore(add(list, i), not(0))
            }
        }
        told("answer_list_124_kib", answered(60, list));
    }

    function test_gas_of_the_most_leaves() public {
        told("answer_list_188_leaves", answered(188, ""));
    }

    function answered(uint32 count, bytes memory list) private returns (uint256) {
        (Receipt[] memory rs, bytes[] memory sigs, bytes32[] memory leaves) =
            (new Receipt[](count), new bytes[](count), new bytes32[](count));
        uint64 first = anchor.lastSeq(operatorAt(0)) + 1;
        for (uint64 i = 0; i < count; ++i) {
            rs[i] = receipt(operatorAt(0), first + i, ENVIRONMENT);
            (sigs[i], leaves[i]) = (signature(rs[i]), StructHashes.batchLeaf(anchor.receiptId(rs[i]), first + i));
        }
        IReceiptAnchor.BatchHeader memory h = headerOf(rs[0], count, Trees.rootOf(leaves));
        h.listHash = listDigest(list);
        uint64 batchId = anchor.batchCount();
        uint256 fee = market.feeFor(count);
        vm.prank(rs[0].operator);
        anchor.post{value: fee}(h);
        demands.demandList{value: params.money(1).demandBond * count}(batchId);
        bytes memory data = abi.encodeCall(demands.answerList, (batchId, list, rs, sigs));
        return measured(address(demands), data, "answerList");
    }

    function test_gas_of_the_most_shards() public {
        bytes memory key = new bytes(65);
        key[0] = 0x04;
        address[] memory shards = new address[](64);
        for (uint160 i = 0; i < 64; ++i) {
            shards[i] = address(0x6000 + i);
        }
        bytes memory data = abi.encodeCall(
            epochs.openEpoch, (7, key, new bytes(64 * 65), shards, 43, IKeyEpochs.Assurance.SIMULATED, "policy")
        );
        told("open_epoch_64_shards", measured(address(epochs), data, "openEpoch"));
    }
}
