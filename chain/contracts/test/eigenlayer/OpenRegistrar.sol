// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @title A registrar that lets every operator in and out: EigenLayer calls one when an operator set's members change
contract OpenRegistrar {
    function registerOperator(address operator, address avs, uint32[] calldata ids, bytes calldata data) external {}

    function deregisterOperator(address operator, address avs, uint32[] calldata ids) external {}

    function supportsAVS(address) external pure returns (bool) {
        return true;
    }
}
