// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IRounds} from "../../src/interfaces/IRounds.sol";
import {ParamSet, Receipt, Vote} from "../../src/libraries/Types.sol";
import {CommitTrees} from "../CommitTrees.sol";
import {GasBase} from "./GasBase.sol";

/// @title A vote opened under the root of the largest round, by the member whose first seat is the last of all
/// forge-config: default.isolate = true
contract RootGasTest is GasBase {
    bytes32[256] private leaves;

    function parameters() internal pure override returns (ParamSet memory p) {
        p = super.parameters();
        (p.committee.seats, p.committee.rounds) = ([uint16(255), 0, 0], 1);
        (p.money.absentPenalty, p.money.noRevealPenalty, p.money.wrongPenalty) = (0.002 ether, 0.003 ether, 0.004 ether);
    }

    function test_gas_of_a_vote_under_a_root() public {
        told("reveal_under_root_255", underRoot("quote"));
    }

    /// @dev As long as nodes pass a transaction on, with the vote and its proof beside it; nothing limits it before.
    function test_gas_of_the_longest_quote() public {
        bytes memory quote = new bytes(124 << 10);
        for (uint256 i = 32; i <= quote.length; i += 32) {
            assembly ("memory-safe") {
                mstore(add(quote, i), not(0))
            }
        }
        told("reveal_under_root_255_quote_124_kib", underRoot(quote));
    }

    function underRoot(bytes memory quote) private returns (uint256) {
        populated(1_000);
        Vote memory v = lastMember();
        v.quoteHash = keccak256(quote);
        uint256 place = 0;
        while (v.seatMask >> place & 1 == 0) ++place;
        that(place > 200, "walks over most seats");
        leaves[place] = keccak256(abi.encode(rounds.hashVote(v), v.voter, v.seatMask));
        (bytes32 root, bytes32[8] memory proof) = CommitTrees.proven(leaves, place);
        vm.prank(v.voter);
        rounds.postCommitRoot(v.dispute, root);
        until(uint256(roundOf(v.dispute).commitEnd) + 1);
        bytes memory data = abi.encodeCall(rounds.revealUnderRoot, (v, quote, proof));
        vm.prank(v.voter);
        return measured(address(rounds), data, "revealUnderRoot");
    }

    /// @dev The first that says something else: its group, the largest of its answer, and what leads are new words.
    function lastMember() private returns (Vote memory) {
        (Receipt memory r, uint64 batchId,) = posted(1);
        (bytes32 id,) = openedAt(r, batchId);
        drawnAll(id, SALT);
        IRounds.Member[] memory list = members(id);
        return voteOf(id, list[list.length - 1], other("other"));
    }
}
