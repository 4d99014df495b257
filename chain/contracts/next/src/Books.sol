// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {ILedger} from "./interfaces/ILedger.sol";

/// @title Books: the sums of the ledger and the six movements between them
/// @notice After every movement: everything ever received == totalPots + totalCredits + treasury + totalBurned + everything ever
///         paid. Small and free of calls, so that a solver can prove it (`make prove`).
abstract contract Books is ILedger {
    /// @inheritdoc ILedger
    mapping(bytes32 ref => uint256) public potOf;
    /// @inheritdoc ILedger
    uint256 public totalPots;
    /// @inheritdoc ILedger
    uint256 public totalCredits;
    /// @inheritdoc ILedger
    uint256 public treasury;
    /// @inheritdoc ILedger
    uint256 public totalBurned;

    /// @dev From outside into a pot.
    function _take(bytes32 ref, uint256 amount) internal {
        potOf[ref] += amount;
        totalPots += amount;
    }

    /// @dev From outside into the treasury.
    function _fund(uint256 amount) internal {
        treasury += amount;
    }

    /// @dev From a pot to credits.
    function _credit(bytes32 ref, uint256 amount) internal {
        _drain(ref, amount);
        totalCredits += amount;
    }

    /// @dev From a pot to what can never leave.
    function _burn(bytes32 ref, uint256 amount) internal {
        _drain(ref, amount);
        totalBurned += amount;
    }

    /// @dev From the treasury to a pot, as far as it reaches.
    function _advance(bytes32 ref, uint256 want) internal returns (uint256 amount) {
        amount = Math.min(want, treasury);
        treasury -= amount;
        _take(ref, amount);
    }

    /// @dev From a pot to the treasury.
    function _repay(bytes32 ref, uint256 amount) internal {
        _drain(ref, amount);
        treasury += amount;
    }

    /// @dev From credits to outside.
    function _pay(uint256 amount) internal {
        totalCredits -= amount;
    }

    function _drain(bytes32 ref, uint256 amount) private {
        uint256 have = potOf[ref];
        if (have < amount) revert PotTooSmall(ref, have, amount);
        potOf[ref] = have - amount;
        totalPots -= amount;
    }
}
