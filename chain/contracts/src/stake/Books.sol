// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ILedger} from "../interfaces/ILedger.sol";

/// @title Books: the sums of the ledger and the movements between them
/// @notice After every movement: everything ever received == pots + credits + treasury + burned + everything ever paid.
/// @dev Small, and free of calls and of other libraries, so that a solver can prove it (`make prove`).
abstract contract Books {
    mapping(bytes32 ref => uint256) internal _pots;
    uint256 internal _totalPots;
    uint256 internal _totalCredits;
    uint256 internal _treasury;
    uint256 internal _totalBurned;

    /// @dev From outside into a pot.
    function _take(bytes32 ref, uint256 amount) internal {
        _pots[ref] += amount;
        _totalPots += amount;
    }

    /// @dev From outside into the treasury.
    function _fund(uint256 amount) internal {
        _treasury += amount;
    }

    /// @dev From a pot to credits.
    function _credit(bytes32 ref, uint256 amount) internal {
        _drain(ref, amount);
        _totalCredits += amount;
    }

    /// @dev From a pot to what can never leave.
    function _burn(bytes32 ref, uint256 amount) internal {
        _drain(ref, amount);
        _totalBurned += amount;
    }

    /// @dev From the treasury to a pot, as far as it reaches.
    function _advance(bytes32 ref, uint256 want) internal returns (uint256 amount) {
        // Not `Math.min`, whose bit tricks no solver follows.
        amount = want < _treasury ? want : _treasury;
        _treasury -= amount;
        _take(ref, amount);
    }

    /// @dev From a pot to the treasury.
    function _repay(bytes32 ref, uint256 amount) internal {
        _drain(ref, amount);
        _treasury += amount;
    }

    /// @dev From credits to outside.
    function _pay(uint256 amount) internal {
        _totalCredits -= amount;
    }

    function _drain(bytes32 ref, uint256 amount) private {
        uint256 have = _pots[ref];
        require(have >= amount, ILedger.PotTooSmall(ref, have, amount));
        _pots[ref] = have - amount;
        _totalPots -= amount;
    }
}
