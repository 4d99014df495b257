// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IStakeTree} from "../src/interfaces/IStakeTree.sol";

/// @title The accounts of a draw, of which the court asks for places only
library DrawnAccounts {
    function draw(
        IStakeTree tree,
        bytes32 seed,
        uint256 seedBlock,
        bytes32 id,
        uint16 round,
        address[] memory excluded,
        uint256 from,
        uint256 count
    ) internal view returns (address[] memory) {
        uint16[] memory places = tree.drawPlaces(seed, seedBlock, id, round, excluded, from, count);
        return tree.accountsAt(places);
    }
}
