// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {Wired} from "../libraries/Wired.sol";
import {Demands} from "../demands/Demands.sol";
import {Finality} from "./Finality.sol";
import {Reports} from "../demands/Reports.sol";
import {Receipt} from "../libraries/Types.sol";
import {Windows} from "./Windows.sol";
import {IDisputes} from "../interfaces/IDisputes.sol";
import {IFeeMarket} from "../interfaces/IFeeMarket.sol";
import {IGuardian} from "../interfaces/IGuardian.sol";
import {IKeyEpochs} from "../interfaces/IKeyEpochs.sol";
import {ILedger} from "../interfaces/ILedger.sol";
import {IParams} from "../interfaces/IParams.sol";
import {IReceiptAnchor} from "../interfaces/IReceiptAnchor.sol";
import {IRegistry} from "../interfaces/IRegistry.sol";
import {IStakeSource} from "../interfaces/IStakeSource.sol";

/// @title ReceiptAnchor: where a receipt's window begins, and the only place to ask whether it is accepted
contract ReceiptAnchor is Demands, Wired {
    /// @notice What this contract works with.
    struct Parts {
        IParams params;
        IGuardian guardian;
        IRegistry registry;
        IStakeSource vault;
        ILedger ledger;
        IKeyEpochs epochs;
        IFeeMarket fees;
    }

    /// @notice What places cost.
    IFeeMarket public immutable FEES;
    /// @dev `Finality`, which knows when a receipt is accepted.
    address private immutable FINALITY;
    /// @inheritdoc IReceiptAnchor
    IDisputes public disputes;

    constructor(Parts memory p)
        EIP712("Bytewise", "1")
        Reports(p.params, p.vault, p.ledger)
        Windows(p.guardian, p.registry)
        Demands(p.epochs)
    {
        FEES = p.fees;
        FINALITY = address(new Finality(p.guardian));
    }

    /// @notice Name the dispute court. Once, by the deployer.
    function wire(IDisputes disputes_) external wiring {
        disputes = IDisputes(_nonZero(address(disputes_)));
    }

    /// @inheritdoc IReceiptAnchor
    function post(BatchHeader calldata header) external payable running returns (uint64 batchId) {
        _checkOpenOperator(msg.sender);
        uint32 version = PARAMS.version();
        (uint256 minStake, uint256 collateral, uint256 maxBatch) = PARAMS.postTerms(version);
        _checkSequence(header, maxBatch);
        bytes32 pool = _checkServable(header.environment, header.modelId, header.keyEpoch);
        batchId = _push(header, pool, _clock(), version, _stoppedSeconds(pool));
        emit BatchAnchored(batchId, msg.sender, header, _shown(batchId));
        VAULT.reserve(msg.sender, batchId, header.count * collateral, minStake);
        _pay(header.count);
    }

    /// @inheritdoc IReceiptAnchor
    function release(uint64 batchId) external {
        Stored storage b = _known(batchId);
        if (b.released) revert AlreadyReleased(batchId);
        if (b.holds != 0) revert BatchHeld(batchId, b.holds);
        _checkOver(_batchEnd(batchId) + _longestHeld[batchId]);
        b.released = true;
        (, uint256 each,) = PARAMS.postTerms(b.paramsVersion);
        VAULT.release(b.operator, batchId, b.count * each);
    }

    /// @inheritdoc IReceiptAnchor
    function isFinal(Receipt calldata r, bytes calldata sig, uint64 batchId, bytes32[] calldata proof)
        external
        view
        returns (bool)
    {
        _asked(FINALITY);
        return true;
    }

    /// @inheritdoc IReceiptAnchor
    function onDispute(uint64 batchId, bool opened) external {
        if (msg.sender != address(disputes)) revert NotAuthorised(msg.sender);
        Stored storage b = _known(batchId);
        if (opened) ++b.holds;
        else --b.holds;
    }

    /// @inheritdoc IReceiptAnchor
    function batch(uint64 batchId) external view returns (Batch memory shown) {
        shown = _shown(batchId);
        shown.extended = uint64(_heldFor(listSubject(batchId)));
    }

    /// @dev An operator that is suspended posts what it signed before, and no more.
    function _checkOpenOperator(address who) private view {
        uint64 until = REGISTRY.operatorUntil(who);
        if (until == 0) revert NotOperator(who);
        if (_clock() > until) revert OperatorSuspended(who, until);
    }

    function _checkOver(uint256 end) private view {
        if (_clock() <= end) revert WindowOpen(end);
    }

    function _checkSequence(BatchHeader calldata h, uint256 max) private view {
        uint64 want = lastSeq[msg.sender] + 1;
        if (h.firstSeq != want) revert SequenceGap(h.firstSeq, want);
        if (h.count == 0 || h.count > max) revert BadCount(h.count, max);
    }

    function _pay(uint256 count) private {
        uint256 fee = FEES.feeFor(count);
        if (msg.value < fee) revert FeeMismatch(msg.value, fee);
        FEES.use{value: fee}(count);
        // The price may have moved since the transaction was made: what is too much comes back, last of all.
        if (msg.value == fee) return;
        (bool ok,) = msg.sender.call{value: msg.value - fee}("");
        if (!ok) revert PaymentRefused(msg.sender);
    }
}
