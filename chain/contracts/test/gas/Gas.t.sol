// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IRounds} from "../../src/interfaces/IRounds.sol";
import {Commit, ParamSet, Receipt, Verdict, Vote} from "../../src/libraries/Types.sol";
import {GasBase} from "./GasBase.sol";

/// @title What a dispute with 31 seats of 1,000 verifiers costs, both ways
/// forge-config: default.isolate = true
contract DisputeGasTest is GasBase {
    bytes32 private constant ROOT = keccak256("root");

    function setUp() public override {
        super.setUp();
        populated(1_000);
    }

    /// @dev Post to seats drawn; the sum of what that costs without the anchor.
    function seated(bool keys) private returns (bytes32 id, uint256 sum) {
        (Receipt memory r, uint64 batchId, uint256 gas) = posted(64);
        told("anchor", gas);
        (id, gas) = openedAt(r, batchId);
        sum += told("open", gas);
        if (keys) keysForAll(id, SALT);
        sum += told("draw_31_of_1000", drawnAll(id, SALT));
    }

    /// @dev From the last vote, shown by `last`, to the last paid seat; `path` ends the names.
    function ended(bytes32 id, bytes memory last, string memory path) private returns (uint256 sum) {
        if (last.length != 0) step(address(rounds), last);
        step(address(disputes), abi.encodeCall(disputes.settle, (id)));
        sum += together(string.concat(last.length == 0 ? "settle_" : "last_votes_and_settle_", path));
        until(uint256(disputes.dispute(id).airgapEnd) + 1);
        step(address(disputes), abi.encodeCall(disputes.finalize, (id)));
        step(address(settlement), abi.encodeCall(settlement.settleSeats, (id, 1, 255)));
        sum += together(string.concat("finalize_and_settle_seats_31_", path));
        same(uint8(disputes.dispute(id).verdict), uint8(Verdict.UPHELD), "verdict");
    }

    /// @dev Everybody commits itself; somebody reveals all votes.
    function test_gas_direct() public {
        paidBefore();
        (bytes32 id, uint256 sum) = seated(false);
        IRounds.Member[] memory list = members(id);
        uint256 commits = 0;
        for (uint256 i = 0; i < list.length; ++i) {
            bytes32 commitment = rounds.hashVote(voteOf(id, list[i], equal()));
            bytes memory data = abi.encodeCall(rounds.commit, (id, list[i].seatMask, commitment));
            vm.prank(list[i].voter);
            commits += told("commit", measured(address(rounds), data, "commit"));
        }
        that(list.length == 31, "a member for each seat");
        emit log_named_uint("commits_31", commits);
        emit log_named_uint("dispute_direct_31", sum + commits + ended(id, revealing(id, list), "direct"));
    }

    /// @dev Somebody brings all commitments, and reveals all votes.
    function test_gas_relayed() public {
        paidBefore();
        (bytes32 id, uint256 sum) = seated(false);
        IRounds.Member[] memory list = members(id);
        Commit[] memory commits = new Commit[](list.length);
        address[] memory voters = new address[](list.length);
        bytes[] memory sigs = new bytes[](list.length);
        for (uint256 i = 0; i < list.length; ++i) {
            commits[i] = Commit(id, 1, list[i].seatMask, rounds.hashVote(voteOf(id, list[i], equal())));
            voters[i] = list[i].voter;
            sigs[i] = signed(crowd.keyOf(voters[i]), rounds.hashCommit(commits[i]));
        }
        bytes memory data = abi.encodeCall(rounds.commitFor, (commits, voters, sigs));
        uint256 gas = told("commits_31_relayed", measured(address(rounds), data, "commitFor"));
        told("commit_relayed", gas / list.length);
        emit log_named_uint("dispute_relayed_31", sum + gas + ended(id, revealing(id, list), "relayed"));
    }

    /// @dev A single vote, shown by itself.
    function test_gas_of_a_reveal() public {
        (bytes32 id,) = seated(false);
        IRounds.Member[] memory list = members(id);
        for (uint256 i = 0; i < 2; ++i) {
            committed(id, list[i], equal());
        }
        until(uint256(roundOf(id).commitEnd) + 1);
        for (uint256 i = 0; i < 2; ++i) {
            bytes memory data = abi.encodeCall(rounds.reveal, (voteOf(id, list[i], equal()), "quote"));
            told("reveal", measured(address(rounds), data, "reveal"));
        }
    }

    function revealing(bytes32 id, IRounds.Member[] memory list) private view returns (bytes memory) {
        Vote[] memory votes = new Vote[](list.length);
        bytes[] memory quotes = new bytes[](list.length);
        for (uint256 i = 0; i < list.length; ++i) {
            (votes[i], quotes[i]) = (voteOf(id, list[i], equal()), "quote");
        }
        return abi.encodeCall(rounds.revealMany, (votes, quotes));
    }

    function test_gas_by_certificate() public {
        paidBefore();
        byCertificate("certificate");
    }

    /// @dev What it costs more to pay somebody who never was: only the last figure is another.
    function test_gas_of_first_payments() public {
        byCertificate("first_payments");
    }

    function byCertificate(string memory path) private {
        (bytes32 id, uint256 sum) = seated(true);
        address[] memory all = holders(id);
        bytes memory data = abi.encodeCall(rounds.postCommitRoot, (id, ROOT));
        vm.prank(all[0]);
        sum += told("post_commit_root", measured(address(rounds), data, "root"));
        until(uint256(roundOf(id).commitEnd) + 1);
        sum += ended(id, certificate(id, all, (1 << 31) - 1, ROOT), path);
        emit log_named_uint(string.concat("dispute_", path, "_31"), sum);
    }

    /// @dev The certificate alone.
    function test_gas_of_a_certificate() public {
        (bytes32 id,) = seated(true);
        address[] memory all = holders(id);
        vm.prank(all[0]);
        rounds.postCommitRoot(id, ROOT);
        until(uint256(roundOf(id).commitEnd) + 1);
        told("certificate_31", measured(address(rounds), certificate(id, all, (1 << 31) - 1, ROOT), "certify"));
    }
}

/// @title Certificates of 63 seats: one word and one sum for each seat that signs
/// forge-config: default.isolate = true
contract LargeCertificateGasTest is GasBase {
    bytes32 private constant ROOT = keccak256("root");

    function parameters() internal pure override returns (ParamSet memory p) {
        p = super.parameters();
        p.committee.seats = [uint16(63), 127, 255];
        (p.money.absentPenalty, p.money.noRevealPenalty, p.money.wrongPenalty) = (0.002 ether, 0.003 ether, 0.004 ether);
    }

    function certified(uint256 signers, string memory name) private {
        populated(1_000);
        (Receipt memory r, uint64 batchId,) = posted(1);
        (bytes32 id,) = openedAt(r, batchId);
        keysForAll(id, SALT);
        drawnAll(id, SALT);
        address[] memory all = holders(id);
        vm.prank(all[0]);
        rounds.postCommitRoot(id, ROOT);
        until(uint256(roundOf(id).commitEnd) + 1);
        signers = whole(all, signers);
        told(name, measured(address(rounds), certificate(id, all, signers, ROOT), "certify"));
    }

    function test_gas_of_63() public {
        certified((1 << 63) - 1, "certificate_63");
    }

    function test_gas_of_63_with_many_absent() public {
        certified((1 << 48) - 1, "certificate_63_15_absent");
    }
}

/// @title A draw over growing pools: logarithmic
/// forge-config: default.isolate = true
contract DrawGasTest is GasBase {
    function test_gas_of_draws() public {
        uint256[5] memory sizes = [uint256(100), 316, 1_000, 3_162, 10_000];
        string[5] memory names = ["100", "316", "1000", "3162", "10000"];
        uint256 first = 0;
        for (uint256 i = 0; i < 5; ++i) {
            populated(sizes[i]);
            (Receipt memory r, uint64 batchId,) = posted(1);
            (bytes32 id,) = openedAt(r, batchId);
            uint256 gas = told(string.concat("draw_31_of_", names[i]), drawnAll(id, SALT));
            if (i == 0) first = gas;
            that(gas < 2 * first, "growth");
        }
    }
}
