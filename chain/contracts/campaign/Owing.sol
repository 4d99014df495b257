// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Vm} from "../test/Vm.sol";
import {Receipt, Status} from "../src/libraries/Types.sol";
import {IKeyEpochs} from "../src/interfaces/IKeyEpochs.sol";
import {IReceiptAnchor} from "../src/interfaces/IReceiptAnchor.sol";
import {Hearing} from "./Hearing.sol";

/// @title Demands to anchor: what each binds while it is open, and who is excused in the end
abstract contract Owing is Hearing {
    /// @dev `maxAnchorDelay` of the campaign.
    uint256 private constant DELAY = 1 hours;

    /// @dev Receipts that were given out, by the subject of their demand, whether it was made or not.
    mapping(bytes32 subject => Receipt) internal lateOf;
    /// @notice Demands to anchor that are open.
    bytes32[] internal owing;
    /// @dev What had been lost of the time to post when such a receipt was signed.
    mapping(bytes32 subject => uint256) internal lostAtIssue;
    mapping(bytes32 subject => uint256) private _stoppedAt;
    mapping(bytes32 subject => bool) private _excused;

    function _ofAnchor(Vm.Log memory e) internal override {
        bytes32 subject = e.topics[1];
        if (e.topics[0] == IReceiptAnchor.Demanded.selector) {
            demanded.push(subject);
            if (anchor.demand(subject).kind != IReceiptAnchor.Kind.ANCHOR) return;
            owing.push(subject);
            _stoppedAt[subject] = registry.stoppedSeconds(POOL);
        } else if (e.topics[0] == IReceiptAnchor.Answered.selector) {
            (uint8 kind,,) = abi.decode(e.data, (uint8, address, bytes));
            that(kind == uint8(anchor.demand(subject).kind), "an answer of another kind");
            _close(subject);
        } else if (e.topics[0] == IReceiptAnchor.Expired.selector) {
            if (_close(subject)) _judge(subject);
            (, uint256 slashed) = abi.decode(e.data, (uint8, uint256));
            that(!_excused[subject] || slashed == 0, "who was excused pays");
        }
    }

    /// @dev What open demands bind of an operator's stake: the penalty of each, by the parameters that it began with.
    function _owedBy(address operator) internal view returns (uint256 sum) {
        for (uint256 i = 0; i < owing.length; ++i) {
            IReceiptAnchor.Demand memory d = anchor.demand(owing[i]);
            if (d.operator == operator) sum += params.money(d.paramsVersion).unanchoredPenalty;
        }
    }

    /// @dev Seconds of all pauses and, between them, of what keeps batches out, until now.
    function _lost() internal view returns (uint256) {
        uint64 clock = guardian.clock();
        return block.timestamp - clock + _stillSeconds(clock);
    }

    function _close(bytes32 subject) private returns (bool found) {
        for (uint256 i = 0; i < owing.length; ++i) {
            if (owing[i] != subject) continue;
            owing[i] = owing[owing.length - 1];
            owing.pop();
            return true;
        }
    }

    /// @dev Excused is whose key is compromised; who lost more than a pause since the receipt was signed; whose pool stood still for half
    ///      of its time, and whose receipt fits no batch any more; nobody else, and before the deadline only whose key is gone.
    function _judge(bytes32 subject) private {
        IReceiptAnchor.Demand memory d = anchor.demand(subject);
        Receipt storage r = lateOf[subject];
        uint256 stopped = registry.stoppedSeconds(POOL) - _stoppedAt[subject];
        uint256 deadline = d.openedAt + DELAY + stopped;
        uint256 last = _lastSecondOf(r.keyEpoch);
        uint256 time = last > d.openedAt + DELAY ? DELAY : last > d.openedAt ? last - d.openedAt : 0;
        bool open =
            registry.item(r.environment).status == Status.ACTIVE && registry.item(r.modelId).status == Status.ACTIVE;
        uint256 lost = _lost() - lostAtIssue[subject];
        bool expired = lost > params.pauseLimit() && lost >= DELAY / 2;
        bool shut = (!open || last < deadline) && stopped != 0 && stopped >= (time + 1) / 2;
        _excused[subject] = last == 0 || expired || shut;
        that(guardian.clock() > deadline || _excused[subject] && last < guardian.clock(), "a demand ended too early");
        same(
            uint8(d.state),
            uint8(_excused[subject] ? IReceiptAnchor.State.EXCUSED : IReceiptAnchor.State.EXPIRED),
            "excused"
        );
    }

    /// @dev In which batches of an epoch are taken.
    function _lastSecondOf(uint64 epoch) private view returns (uint256) {
        IKeyEpochs.Epoch memory e = epochs.epochInfo(epoch);
        if (e.state == IKeyEpochs.EpochState.ACTIVE) return type(uint64).max;
        return e.state == IKeyEpochs.EpochState.COMPROMISED ? 0 : e.drainedAt + DELAY;
    }
}
