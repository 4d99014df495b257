// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {IReceiptAnchor} from "../interfaces/IReceiptAnchor.sol";

/// @title BatchStore: how batches and demands lie in storage
/// @dev A batch is four words. What many batches have in common (environment, model, epoch, pool) is stored once, as a
///      service. Whether a batch is void and how long its window stood still follow from its demand.
abstract contract BatchStore is IReceiptAnchor {
    /// @dev What the receipts of a batch were made with.
    struct Service {
        bytes32 environment;
        bytes32 modelId;
        bytes32 pool; // of the environment, which never changes
        uint64 keyEpoch;
    }

    /// @dev Times are seconds: `anchoredAt` wall time, the others of the protocol clock.
    struct Stored {
        address operator;
        uint40 anchoredAt;
        uint40 startedAt;
        bool released;
        uint64 firstSeq;
        uint32 count;
        uint40 blockNumber;
        uint32 paramsVersion;
        uint32 stoppedAtStart; // the pool's stopped seconds
        uint24 service;
        uint32 holds; // demands and disputes that are open
        bytes32 root;
        bytes32 listHash;
    }

    /// @dev Bond and deadline follow from the version.
    struct StoredDemand {
        address by;
        uint40 openedAt;
        uint40 closedAt; // when the window went on; 0 while open
        Kind kind;
        State state;
        address operator;
        uint64 number; // batch, or sequence number of a receipt that is not anchored
        uint32 paramsVersion;
    }

    /// @inheritdoc IReceiptAnchor
    mapping(address operator => uint64) public lastSeq;

    Stored[] private _batches;
    Service[] private _services;
    mapping(bytes32 hash => uint256 place) private _servicePlace; // from 1
    mapping(bytes32 subject => StoredDemand) internal _demands;
    /// @dev The longest that a demand for an envelope has held the window of one receipt of a batch.
    mapping(uint64 batchId => uint64) internal _longestHeld;

    /// @inheritdoc IReceiptAnchor
    function batchCount() external view returns (uint64) {
        return uint64(_batches.length);
    }

    /// @inheritdoc IReceiptAnchor
    function listSubject(uint64 batchId) public view returns (bytes32) {
        return keccak256(abi.encode("list", block.chainid, address(this), batchId));
    }

    function _known(uint64 batchId) internal view returns (Stored storage) {
        if (batchId >= _batches.length) revert UnknownBatch(batchId);
        return _batches[batchId];
    }

    function _service(uint24 place) internal view returns (Service storage) {
        return _services[place];
    }

    function _isVoid(uint64 batchId) internal view returns (bool) {
        return _demands[listSubject(batchId)].state == State.EXPIRED;
    }

    /// @dev Store a batch of the caller that begins now.
    function _push(BatchHeader calldata h, bytes32 pool, uint64 clock, uint32 version, uint64 stopped)
        internal
        returns (uint64 batchId)
    {
        batchId = uint64(_batches.length);
        lastSeq[msg.sender] = h.firstSeq + h.count - 1;
        Stored storage b = _batches.push();
        b.operator = msg.sender;
        b.anchoredAt = SafeCast.toUint40(block.timestamp);
        b.startedAt = SafeCast.toUint40(clock);
        b.firstSeq = h.firstSeq;
        b.count = h.count;
        b.blockNumber = SafeCast.toUint40(block.number);
        b.paramsVersion = version;
        b.stoppedAtStart = SafeCast.toUint32(stopped);
        b.service = _serviceOf(h.environment, h.modelId, h.keyEpoch, pool);
        b.root = h.root;
        b.listHash = h.listHash;
    }

    /// @dev A batch as the interface shows it.
    function _shown(uint64 batchId) internal view returns (Batch memory shown) {
        Stored storage b = _known(batchId);
        Service storage s = _service(b.service);
        shown.operator = b.operator;
        shown.anchoredAt = b.anchoredAt;
        shown.blockNumber = b.blockNumber;
        shown.startedAt = b.startedAt;
        shown.paramsVersion = b.paramsVersion;
        shown.firstSeq = b.firstSeq;
        shown.count = b.count;
        shown.keyEpoch = s.keyEpoch;
        shown.stoppedAtStart = b.stoppedAtStart;
        shown.isVoid = _isVoid(batchId);
        shown.released = b.released;
        shown.root = b.root;
        shown.listHash = b.listHash;
        shown.environment = s.environment;
        shown.modelId = s.modelId;
    }

    function _serviceOf(bytes32 environment, bytes32 modelId, uint64 keyEpoch, bytes32 pool) private returns (uint24) {
        bytes32 hash = keccak256(abi.encode(environment, modelId, keyEpoch));
        uint256 place = _servicePlace[hash];
        if (place == 0) {
            _services.push(Service(environment, modelId, pool, keyEpoch));
            place = _services.length;
            _servicePlace[hash] = place;
        }
        return SafeCast.toUint24(place - 1);
    }
}
