// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Bls} from "../libraries/Bls.sol";
import {Certificate} from "../libraries/Certificate.sol";
import {IBlsKeys} from "../interfaces/IBlsKeys.sol";

/// @title Certifier: the court's arithmetic on keys and signatures, apart because of the size limit of EIP-170. No state
contract Certifier {
    /// @notice Whose key is whose.
    IBlsKeys public immutable KEYS;

    constructor(IBlsKeys keys) {
        KEYS = keys;
    }

    /// @notice `Certificate.form`.
    function form(address[] calldata holders, uint256 blockNumber, uint256 seated, Bls.G1[] calldata points)
        external
        view
        returns (bytes32)
    {
        return Certificate.form(KEYS, holders, blockNumber, seated, points);
    }

    /// @notice `Certificate.verify`.
    function verify(
        address[] calldata absent,
        uint256 blockNumber,
        bytes32 committee,
        bytes32 digest,
        Certificate.Proof calldata proof
    ) external view {
        Certificate.verify(KEYS, absent, blockNumber, committee, digest, proof);
    }
}
