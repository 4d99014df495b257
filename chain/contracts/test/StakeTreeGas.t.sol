// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {DrawnAccounts} from "./DrawnAccounts.sol";
import {Grove, OpenTree} from "./StakeTree.t.sol";

/// @title What the tree costs, storage cold: `forge test --match-contract StakeTreeGas -vv` prints it
contract StakeTreeGasTest is Grove {
    using DrawnAccounts for OpenTree;

    /// @dev EIP-7825 caps a transaction at 2^24 gas.
    uint256 private constant CAP = 16_000_000;

    /// @dev The event that forge prints.
    event log_named_uint(string key, uint256 val);

    /// @dev `people` accounts with stakes between one and a thousand units; the last epoch ends with all written.
    function planted(uint256 from, uint256 people) private {
        for (uint256 i = from; i < people; ++i) {
            tree.setStake(person(i), UNIT * (1 + uint256(keccak256(abi.encode(i))) % 1_000));
        }
        nextEpoch();
    }

    function cost(bytes32 seed, uint256 seats, address[] memory excluded) private returns (uint256 gas) {
        uint256 at_ = seedBlock();
        vm.cool(address(tree));
        uint256 before = gasleft();
        tree.draw(seed, at_, ID, 1, excluded, 0, seats);
        gas = before - gasleft();
    }

    /// @dev Logarithmic: a hundred times as many verifiers cost about twice as much; how many nodes 31 seats share is the seed's chance.
    /// forge-config: default.fuzz.runs = 1
    function test_a_draw_hardly_grows_with_the_pool(bytes32 seed) public {
        string[5] memory names =
            ["draw_31_of_100", "draw_31_of_316", "draw_31_of_1000", "draw_31_of_3162", "draw_31_of_10000"];
        uint256[5] memory sizes = [uint256(100), 316, 1_000, 3_162, 10_000];
        uint256[5] memory gas;
        for (uint256 i = 0; i < 5; ++i) {
            planted(i == 0 ? 0 : sizes[i - 1], sizes[i]);
            gas[i] = cost(seed, 31, nobody());
            emit log_named_uint(names[i], gas[i]);
        }
        that(10 * gas[4] < 22 * gas[0], "growth");
        emit log_named_uint("draw_255_of_10000", cost(seed, 255, nobody()));
    }

    /// @dev The dearest legal draw: all seats of the largest round, every path of the tree written in this very epoch, and
    ///      eight excluded accounts with so much that most tries are lost on them.
    /// forge-config: default.fuzz.runs = 1
    function test_the_dearest_draw_fits_a_transaction(bytes32 seed) public {
        planted(0, 3_000);
        address[] memory excluded = new address[](8);
        for (uint256 i = 0; i < 8; ++i) {
            excluded[i] = person(i * 300);
            tree.setStake(excluded[i], MAX_UNITS * UNIT);
        }
        nextEpoch();
        for (uint256 i = 0; i < 3_000; ++i) {
            tree.setStake(person(i), 2 * UNIT);
        }
        uint256 gas = cost(seed, 255, excluded);
        emit log_named_uint("draw_255_dearest", gas);
        that(gas < CAP, "dearest draw");
    }

    /// @dev The first write of an epoch keeps what every node on the path was before.
    /// forge-config: default.fuzz.runs = 4
    function test_a_write_is_cheap(uint16 who, uint96 stake) public {
        vm.cool(address(tree));
        uint256 before = gasleft();
        tree.setStake(person(0), UNIT);
        emit log_named_uint("write_first_ever", before - gasleft());
        planted(0, 100);
        nextEpoch();
        planted(0, 100);
        for (uint256 i = 0; i < 2; ++i) {
            vm.cool(address(tree));
            before = gasleft();
            tree.setStake(person(who % 100), bound(stake, 0, 100 * UNIT) + i * UNIT);
            emit log_named_uint(i == 0 ? "write_first_of_epoch" : "write_again_in_epoch", before - gasleft());
            that(before - gasleft() < 200_000, "write");
        }
    }
}
