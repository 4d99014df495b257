// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ParamSet, Verdict} from "../src/Types.sol";
import {IDisputes} from "../src/interfaces/IDisputes.sol";
import {Network} from "./Network.sol";

/// @title The dearest steps at the largest committees that `Params` allows, drawn from the largest pool
/// @dev Isolated: every call is a transaction of its own that pays for cold storage, as on a chain.
contract GasTest is Network {
    uint256 private constant POOL = 64;
    /// @dev EIP-7825 caps a transaction at 2^24 gas; nobody may be able to make a step dearer than that.
    uint256 private constant CAP = 16_000_000;

    function parameters() internal pure override returns (ParamSet memory p) {
        p = super.parameters();
        p.seats = [uint16(253), 255];
        // The least quorum: most members can be wrong, and a wrong one is dearer than a right one.
        (p.tauNum, p.tauDen) = (501, 1_000);
    }

    function setUp() public override {
        super.setUp();
        for (uint256 i = 0; i < POOL; ++i) {
            keyOf[verifier(i)] = VERIFIER_KEY + i;
            stake(verifier(i), 1_000 ether);
            if (i < VERIFIERS) continue;
            vm.prank(verifier(i));
            registry.registerVerifier();
        }
        vm.roll(block.number + 1);
    }

    function cheap(uint256 before, string memory step) private view {
        if (before - gasleft() >= CAP) revert Differ(step, before - gasleft(), CAP);
    }

    function seated(bytes32 id) private {
        vm.roll(lens.disputeView(id).seedBlock + 1);
        uint256 before = gasleft();
        disputes.draw(id);
        cheap(before, "draw");
    }

    /// @dev A drawn second round; in the first one everybody said what the second may say too.
    function started(uint64 salt) private returns (bytes32 id) {
        vm.roll(block.number + salt % 1_000);
        id = opened(challenger, 1);
        seated(id);
        played(id, apart(id, "true"));
        settled(id, "escalation");
        seated(id);
        that(members(id).length > 55, "the pool is seated");
    }

    /// @dev Everybody says the same about the output and nobody agrees on the digest: each is a group of its own.
    function apart(bytes32 id, bytes32 tokens) private view returns (Act[] memory acts) {
        acts = new Act[](members(id).length);
        for (uint256 i = 0; i < acts.length; ++i) {
            acts[i] = other(tokens);
            acts[i].digest = keccak256(abi.encode("digest", i));
        }
    }

    function settled(bytes32 id, string memory step) private {
        uint256 before = gasleft();
        disputes.settle(id);
        cheap(before, step);
    }

    /// forge-config: default.isolate = true
    /// forge-config: default.fuzz.runs = 2
    function test_a_conviction_with_most_members_wrong_fits_a_transaction(uint64 salt) public {
        bytes32 id = started(salt);
        IDisputes.Member[] memory list = members(id);
        Act[] memory acts = apart(id, "true");
        uint256 right;
        for (uint256 i = 0; right < 128; ++i) {
            acts[i] = other("true");
            right += list[i].seats;
        }
        played(id, acts);
        settled(id, "conviction");
        same(uint8(disputes.dispute(id).verdict), uint8(Verdict.OVERTURNED), "verdict");
        moneyBalances();
        nothingIsBound(id);
    }

    /// forge-config: default.isolate = true
    /// forge-config: default.fuzz.runs = 2
    function test_a_draw_in_which_everybody_worked_fits_a_transaction(uint64 salt) public {
        bytes32 id = started(salt);
        played(id, apart(id, "true"));
        settled(id, "draw");
        same(uint8(disputes.dispute(id).verdict), uint8(Verdict.DRAW), "verdict");
        moneyBalances();
        nothingIsBound(id);
    }
}
