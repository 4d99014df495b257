// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IRounds} from "../src/interfaces/IRounds.sol";
import {Phase} from "../src/libraries/Types.sol";
import {CourtActions} from "./CourtActions.sol";

/// @title Disputes go on: for most of them what can be done now, then time until the next can go on
/// @dev Without it random calls would rarely get beyond a first draw.
abstract contract Onward is CourtActions {
    mapping(bytes32 id => mapping(uint16 round => bool)) private _voted;

    function goOn(uint256 salt) external step {
        for (uint256 i = live.length; i > 0; --i) {
            if (spread(salt ^ i) % 8 != 0) _goOn(live[i - 1], spread(~salt ^ i));
        }
        if (spread(salt) % 4 != 0) _wait();
    }

    function _goOn(bytes32 id, uint256 salt) private {
        if (guardian.pausedUntil() != 0) return;
        Phase phase = disputes.phaseOf(id);
        if (_waits(id)) {
            _goOnDrawing(id, salt);
        } else if (phase == Phase.COMMIT) {
            if (_byCertificate(id)) _postRoots(id, salt >> 8);
            _commitAll(id, salt >> 8);
            _voted[id][disputes.roundsOf(id)] = true;
        } else if (phase == Phase.REVEAL) {
            if (salt % 2 == 0) _revealAll(id);
            if (salt % 16 >= 12) _openRooted(id, salt);
            if (_byCertificate(id)) _certify(id, salt >> 8);
            _revealAll(id);
            if (salt % 4 != 0) _openRooted(id, ~salt);
            _settle(id, salt, false);
        } else if (phase == Phase.FINAL) {
            _settleSeats(id, salt >> 8, salt);
        } else if (salt % 4 == 0) {
            _appeal(id, salt >> 8);
        } else {
            _openAlt(id, salt >> 8);
            _finalize(id, salt, false);
        }
    }

    /// @dev Of the unlucky nobody brings the header in time, or nobody draws more than a seat.
    function _goOnDrawing(bytes32 id, uint256 salt) private {
        // Who dislikes a seed would rather have another one.
        if (rarely(salt)) return _rearm(id, false);
        uint256 seedBlock = roundOf(id).seedBlock;
        if (block.number <= seedBlock) return;
        if (tree.isOver(seedBlock) || randao.isExpired(seedBlock)) {
            return must(personAt(salt), address(disputes), abi.encodeCall(disputes.rearm, (id)), "rearm");
        }
        if (_unlucky(id) && !_begun(id)) return;
        // In parts or at once.
        if (!_unlucky(id)) _draw(id, salt, salt % 3 == 0 ? 2 : 9);
        else if (disputes.phaseOf(id) == Phase.SEED) _draw(id, salt, 1);
    }

    function _unlucky(bytes32 id) private pure returns (bool) {
        return luck(id, 0, 0, "header") % 16 == 0;
    }

    /// @dev Of the unlucky half.
    function _begun(bytes32 id) private pure returns (bool) {
        return luck(id, 0, 0, "part") % 2 == 1;
    }

    /// @dev Until the first of the live disputes can go on by the clock; not at all while a seed or a committee waits for
    ///      somebody. A pause is sat out.
    function _wait() private {
        if (guardian.pausedUntil() != 0) return pass(guardian.pausedUntil() - block.timestamp);
        uint256 least = 6 hours;
        for (uint256 i = 0; i < live.length; ++i) {
            uint256 next = _secondsTo(live[i]);
            if (next < least) least = next;
        }
        if (least != 0) pass(least);
    }

    function _secondsTo(bytes32 id) private view returns (uint256) {
        Phase phase = disputes.phaseOf(id);
        IRounds.Round memory r = roundOf(id);
        if (_waits(id)) {
            uint256 number = uint256(r.seedBlock) + 1;
            // Their seeds are forgotten, or out of their epoch: often only one of both.
            if (_unlucky(id)) number = _begun(id) ? (number / EPOCH_BLOCKS + 1) * EPOCH_BLOCKS : number + 256;
            return block.number < number ? (number - block.number) * BLOCK_TIME : 0;
        }
        if (phase == Phase.COMMIT && !_voted[id][disputes.roundsOf(id)]) return 0;
        uint256 end = phase == Phase.COMMIT ? r.commitEnd : r.revealEnd;
        if (phase == Phase.APPEAL || phase == Phase.AIRGAP) end = disputes.dispute(id).airgapEnd;
        // What is past its time waits for somebody, not for the clock.
        return phase == Phase.FINAL || end < guardian.clock() ? type(uint256).max : end + 1 - guardian.clock();
    }
}
