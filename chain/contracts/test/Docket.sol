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

    function question(Receipt calldata r, bytes calldata, uint64 batchId, bytes32[] calldata)
        external
        returns (IReceiptAnchor.Question memory)
    {
        IReceiptAnchor.Batch storage b = _batches[batchId];
        if (b.operator != r.operator) revert NotHere(batchId);
        ++openDisputes[batchId];
        return IReceiptAnchor.Question(keccak256(abi.encode(r)), r.operator, b.count, b.paramsVersion, end, POOL);
    }

    function batch(uint64 batchId) external view returns (IReceiptAnchor.Batch memory) {
        return _batches[batchId];
    }

    function unhold(uint64 batchId) external {
        --openDisputes[batchId];
    }
}
