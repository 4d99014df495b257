// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Proxy} from "@openzeppelin/contracts/proxy/Proxy.sol";
import {DisputeStore} from "./DisputeStore.sol";
import {DisputeViews} from "./DisputeViews.sol";
import {Proceedings} from "./Proceedings.sol";

/// @title Disputes: the court, at one address. Votes are in `DisputeVotes`, what others ask in `DisputeViews`, everything
///         else in `Proceedings`, which is too large for the same contract; money is in `Settlement`
/// @dev Whatever is not a function here is `Proceedings`'s, run on this storage. Its address never changes.
contract Disputes is DisputeViews, Proxy {
    /// @notice The code of `IProceedings`.
    Proceedings public immutable PROCEEDINGS;

    /// @notice The other half was deployed to work with other contracts.
    error OtherParts(bytes32 have, bytes32 want);

    /// @param proceedings deployed with the same parts
    constructor(Parts memory parts, Proceedings proceedings) DisputeStore(parts) {
        if (proceedings.PARTS() != PARTS) revert OtherParts(proceedings.PARTS(), PARTS);
        PROCEEDINGS = proceedings;
    }

    function _implementation() internal view override returns (address) {
        return address(PROCEEDINGS);
    }
}
