// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Vm} from "../test/Vm.sol";
import {IKeyEpochs} from "../src/interfaces/IKeyEpochs.sol";
import {IDemands} from "../src/interfaces/IDemands.sol";
import {IReceiptAnchor} from "../src/interfaces/IReceiptAnchor.sol";
import {Hearing} from "./Hearing.sol";

/// @title What may be anchored after a closure, what a demand to anchor binds, and what a number costs that was not anchored
/// @dev Checks I10 BOUND, I29 ONE PENALTY, I30 DRAINED.
abstract contract Owing is Hearing {
    /// @dev `maxAnchorDelay` of the campaign.
    uint256 private constant DELAY = 1 hours;

    /// @notice Demands to anchor that are open.
    bytes32[] internal owing;
    /// @dev What an operator has paid for a number that it gave out and did not anchor; the largest penalty that was asked for
    ///      it.
    mapping(address operator => mapping(uint64 seq => uint256)) private _paid;
    mapping(address operator => mapping(uint64 seq => uint256)) private _dearest;

    function _ofAnchor(Vm.Log memory e) internal override {
        bytes32 subject = e.topics[1];
        if (e.topics[0] == IReceiptAnchor.BatchAnchored.selector) {
            _drained(anchor.batch(uint64(uint256(subject))));
        } else if (e.topics[0] == IDemands.Demanded.selector) {
            demanded.push(subject);
            if (demands.demand(subject).kind == IDemands.Kind.ANCHOR) owing.push(subject);
        } else if (e.topics[0] == IDemands.Answered.selector) {
            (uint8 kind,,) = abi.decode(e.data, (uint8, address, bytes));
            that(kind == uint8(demands.demand(subject).kind), "an answer of another kind");
            _close(subject);
        } else if (e.topics[0] == IDemands.Expired.selector) {
            IDemands.Demand memory d = demands.demand(subject);
            (, uint256 slashed) = abi.decode(e.data, (uint8, uint256));
            if (_close(subject)) that(guardian.clock() > d.openedAt + DELAY, "a demand ended too early");
            if (d.kind == IDemands.Kind.ANCHOR) _pays(d.operator, d.seq, slashed, d.paramsVersion);
        } else if (e.topics[0] == IDemands.Skipped.selector) {
            (uint64 batchId,,, uint256 slashed) = abi.decode(e.data, (uint64, bytes32, address, uint256));
            address operator = address(uint160(uint256(subject)));
            _pays(operator, uint64(uint256(e.topics[2])), slashed, anchor.batch(batchId).paramsVersion);
        }
    }

    /// @dev What open demands bind of an operator's stake: the penalty of each, by the parameters that it began with.
    function _owedBy(address operator) internal view returns (uint256 sum) {
        for (uint256 i = 0; i < owing.length; ++i) {
            IDemands.Demand memory d = demands.demand(owing[i]);
            if (d.operator == operator) sum += params.money(d.paramsVersion).unanchoredPenalty;
        }
    }

    function _close(bytes32 subject) private returns (bool found) {
        for (uint256 i = 0; i < owing.length; ++i) {
            if (owing[i] != subject) continue;
            owing[i] = owing[owing.length - 1];
            owing.pop();
            return true;
        }
    }

    /// @dev Nothing is anchored of what was closed for longer than an operator may wait.
    function _drained(IReceiptAnchor.Batch memory b) private view {
        uint256 clock = guardian.clock();
        bool[3] memory uses = [true, b.environment == ENVIRONMENT, b.modelId == MODEL];
        for (uint256 i = 0; i < 3; ++i) {
            that(!uses[i] || shutSince[i] == 0 || clock <= shutSince[i] + DELAY, "a batch after its closure drained");
        }
        uint256 until = suspendedUntil[b.operator];
        that(until == 0 || clock <= until, "a batch of a suspended operator");
        IKeyEpochs.Epoch memory e = epochs.epochInfo(b.keyEpoch);
        bool active = e.state == IKeyEpochs.EpochState.ACTIVE;
        that(active || clock <= e.drainedAt + DELAY, "a batch after its key drained");
    }

    /// @dev By demands and by reports together: one penalty for a number.
    function _pays(address operator, uint64 seq, uint256 slashed, uint32 version) private {
        uint256 penalty = params.money(version).unanchoredPenalty;
        if (penalty > _dearest[operator][seq]) _dearest[operator][seq] = penalty;
        _paid[operator][seq] += slashed;
        that(_paid[operator][seq] <= _dearest[operator][seq], "a number costs its penalty twice");
    }
}
