// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Receipt} from "../src/libraries/Types.sol";
import {IReceiptAnchor} from "../src/interfaces/IReceiptAnchor.sol";

/// @title What the court asks of an anchor, for batches that are simply said to exist
contract Docket {
    IReceiptAnchor.Batch[] private _batches;
    mapping(uint64 batchId => uint256) public openDisputes;
    uint64 public end;

    bytes32 private immutable POOL;

    error NotHere(uint64 batchId);

    constructor(bytes32 pool) {
        POOL = pool;
    }

    function anchor(address operator, bytes32 environment, uint32 version) external returns (uint64) {
        IReceiptAnchor.Batch storage b = _batches.push();
        (b.operator, b.environment, b.paramsVersion, b.keyEpoch) = (operator, environment, version, 7);
        return uint64(_batches.length - 1);
    }

    function closeWindows(uint64 end_) external {
        end = end_;
    }

    function checkMember(Receipt calldata r, bytes calldata, uint64 batchId, bytes32[] calldata)
        external
        view
        returns (bytes32)
    {
        if (_batches[batchId].operator != r.operator) revert NotHere(batchId);
        return keccak256(abi.encode(r));
    }

    function disputable(bytes32, uint64 batchId) external view returns (uint64, uint32, bytes32) {
        return (end, _batches[batchId].paramsVersion, POOL);
    }

    function batch(uint64 batchId) external view returns (IReceiptAnchor.Batch memory) {
        return _batches[batchId];
    }

    function onDispute(uint64 batchId, bool opened) external {
        if (opened) ++openDisputes[batchId];
        else --openDisputes[batchId];
    }
}
