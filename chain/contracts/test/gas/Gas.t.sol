// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IRounds} from "../../src/interfaces/IRounds.sol";
import {Finding, ParamSet, Receipt, Verdict} from "../../src/libraries/Types.sol";
import {IDisputes} from "../../src/interfaces/IDisputes.sol";
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
        sum += told("prove", proven(id, SALT));
        sum += told("draw_31_of_1000", drawnAll(id));
    }

    /// @dev From the last vote to the last paid seat; `path` ends the names.
    function ended(bytes32 id, string memory path) private returns (uint256 sum) {
        bytes memory data = abi.encodeCall(disputes.settle, (id));
        sum += told(string.concat("settle_", path), measured(address(disputes), data, "settle"));
        until(uint256(disputes.dispute(id).airgapEnd) + 1);
        data = abi.encodeCall(disputes.finalize, (id));
        sum += told(string.concat("finalize_", path), measured(address(disputes), data, "finalize"));
        data = abi.encodeCall(settlement.settleSeats, (id, 1, 255));
        sum += told(string.concat("settle_seats_31_", path), measured(address(settlement), data, "settleSeats"));
        same(uint8(disputes.dispute(id).verdict), uint8(Verdict.UPHELD), "verdict");
    }

    function test_gas_direct() public {
        paidBefore();
        (bytes32 id, uint256 sum) = seated(false);
        IRounds.Member[] memory list = members(id);
        uint256 commits = 0;
        uint256 reveals = 0;
        for (uint256 i = 0; i < list.length; ++i) {
            bytes32 commitment = rounds.hashVote(voteOf(id, list[i], equal()));
            bytes memory data = abi.encodeCall(rounds.commit, (id, list[i].seatMask, commitment));
            vm.prank(list[i].voter);
            commits += told("commit", measured(address(disputes), data, "commit"));
        }
        for (uint256 i = 0; i < list.length; ++i) {
            bytes memory data = abi.encodeCall(rounds.reveal, (voteOf(id, list[i], equal()), "quote"));
            reveals += told("reveal", measured(address(disputes), data, "reveal"));
        }
        that(list.length == 31, "a member for each seat");
        emit log_named_uint("commits_31", commits);
        emit log_named_uint("reveals_31", reveals);
        emit log_named_uint("dispute_direct_31", sum + commits + reveals + ended(id, "direct"));
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
        sum += told("form_committee_31", formed(id, all));
        bytes memory data = abi.encodeCall(rounds.postCommitRoot, (id, ROOT));
        vm.prank(all[0]);
        sum += told("post_commit_root", measured(address(disputes), data, "root"));
        until(uint256(roundOf(id).commitEnd) + 1);
        (Finding memory f, Certificate.Proof memory p) = certificate(id, all, (1 << 31) - 1, ROOT);
        data = abi.encodeCall(rounds.certify, (f, ROOT, p));
        sum += told("certificate_31", measured(address(disputes), data, "certify"));
        emit log_named_uint(string.concat("dispute_", path, "_31"), sum + ended(id, path));
    }
}

/// @title Certificates of 63 seats: no dearer than of 31, and a few thousand for each absent member
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
        proven(id, SALT);
        drawnAll(id);
        address[] memory all = holders(id);
        told("form_committee_63", formed(id, all));
        vm.prank(all[0]);
        rounds.postCommitRoot(id, ROOT);
        until(uint256(roundOf(id).commitEnd) + 1);
        signers = whole(all, signers);
        (Finding memory f, Certificate.Proof memory p) = certificate(id, all, signers, ROOT);
        told(name, measured(address(rounds), abi.encodeCall(rounds.certify, (f, ROOT, p)), "certify"));
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
            proven(id, SALT);
            uint256 gas = told(string.concat("draw_31_of_", names[i]), drawnAll(id));
            if (i == 0) first = gas;
            that(gas < 2 * first, "growth");
        }
    }
}
