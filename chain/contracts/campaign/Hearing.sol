// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IBreaker} from "../src/interfaces/IBreaker.sol";
import {IRounds} from "../src/interfaces/IRounds.sol";
import {Finding, Money, Phase, Standing, Status, Vote} from "../src/libraries/Types.sol";
import {Vm} from "../test/Vm.sol";
import {IDisputes} from "../src/interfaces/IDisputes.sol";
import {IGuardian} from "../src/interfaces/IGuardian.sol";
import {IRegistry} from "../src/interfaces/IRegistry.sol";
import {ISettlement} from "../src/interfaces/ISettlement.sol";
import {IStakeSource} from "../src/interfaces/IStakeSource.sol";
import {Mirror} from "./Mirror.sol";
import {People} from "./People.sol";
import {Recount} from "./Recount.sol";
import {Table} from "./Table.sol";

/// @title Every event becomes an entry in a book, and names what must be looked at
/// @dev Checks I15 ONE END, I22 BOUNDED PAUSE, I24 QUESTIONED ONCE, I28 HELD.
abstract contract Hearing is People, Recount {
    Mirror public mirror;
    mapping(bytes32 id => Table.Look) internal looks;
    mapping(bytes32 id => mapping(uint16 round => mapping(uint16 seat => bool))) private _seatSettled;
    mapping(bytes32 id => uint256) public seatPay;
    mapping(bytes32 id => uint256) public seatPenalty;
    mapping(bytes32 id => mapping(address who => uint256)) private _seatPayOf;
    bytes32[] public demanded;
    /// @dev Disputes that events named and nobody has looked at since; those whose money moved; whether anything was heard.
    bytes32[] internal stirred;
    bytes32[] internal paidOrCharged;
    bool internal heard;
    bool internal ruled;
    /// @dev Verifiers who entered or left the pool since the last check.
    address[] internal movers;
    mapping(bytes32 id => address operator) internal accused;
    mapping(bytes32 id => uint64) internal batchOf;
    mapping(bytes32 id => uint64) internal openedAt;
    mapping(bytes32 id => bytes32) internal receiptIdOf;
    /// @dev Seats that a certificate was made for; rounds whose commitments have a root.
    mapping(bytes32 id => mapping(uint16 round => uint256)) internal signedFor;
    mapping(bytes32 id => mapping(uint16 round => bool)) internal rooted;
    /// @dev Last second, by the clock, for batches of an operator that draws suspended; 0: it is not suspended.
    mapping(address operator => uint256) internal suspendedUntil;
    /// @dev Whether the breaker must hold convictions.
    bool internal holds;
    /// @dev Since when, by the clock, the pool stands still, the environment is closed, the model is closed; 0: it is open.
    uint256[3] internal shutSince;
    uint256 private _stopped;
    uint256 private _pausedFrom;
    uint256 private _pauseEnd;

    function _hear() internal override {
        Vm.Log[] memory logs = vm.getRecordedLogs();
        if (logs.length == 0) return;
        heard = true;
        uint64 clock = guardian.clock();
        for (uint256 i = 0; i < logs.length; ++i) {
            address by = logs[i].emitter;
            if (by == address(ledger)) mirror.ofLedger(logs[i], clock);
            else if (by == address(vault)) _ofVault(logs[i], clock);
            else if (by == address(registry)) _ofRegistry(logs[i], clock);
            else if (by == address(disputes) || by == address(rounds)) _ofCourt(logs[i]);
            else if (by == address(breaker)) _ofBreaker(logs[i]);
            else if (by == address(settlement)) _ofSettlement(logs[i]);
            else if (by == address(guardian)) _ofGuardian(logs[i]);
            else if (by == address(params)) ruled = true;
            else if (by == address(anchor) || by == address(demands)) _ofAnchor(logs[i]);
            else _ofOthers(logs[i]);
        }
    }

    function _ofVault(Vm.Log memory e, uint64 clock) private {
        Mirror.Terms memory terms;
        if (e.topics[0] == IStakeSource.Reserved.selector) terms = _termsOf(e);
        mirror.ofVault(e, clock, terms);
        if (e.topics[0] != IStakeSource.Released.selector) return;
        uint64 batchId = uint64(uint256(e.topics[2]));
        for (uint256 i = 0; i < unreleased.length; ++i) {
            if (receipts[unreleased[i]].batchId != batchId) continue;
            that(anchor.batch(batchId).released, "collateral leaves an open batch");
            for (uint256 k = 0; k < live.length; ++k) {
                bool open = looks[live[k]].phase != Phase.NONE && looks[live[k]].phase != Phase.FINAL;
                that(!open || batchOf[live[k]] != batchId, "a batch was released under a dispute");
            }
            unreleased[i] = unreleased[unreleased.length - 1];
            unreleased.pop();
            return;
        }
        revert Failed("collateral leaves twice");
    }

    function _termsOf(Vm.Log memory e) private view returns (Mirror.Terms memory) {
        Money memory m = params.money(anchor.batch(uint64(uint256(e.topics[2]))).paramsVersion);
        return Mirror.Terms(m.minOperatorStake, m.slashAmount);
    }

    function _ofRegistry(Vm.Log memory e, uint64 clock) private {
        bytes32 kind = e.topics[0];
        if (kind == IRegistry.PoolStopped.selector) _turn(0, true, clock);
        if (kind == IRegistry.PoolResumed.selector) _turn(0, false, clock);
        if (kind == IRegistry.OperatorMoved.selector && abi.decode(e.data, (uint64)) == type(uint64).max) {
            delete suspendedUntil[address(uint160(uint256(e.topics[1])))];
        }
        if (kind == IRegistry.ItemMoved.selector) {
            (, Status to) = abi.decode(e.data, (Status, Status));
            _turn(e.topics[1] == ENVIRONMENT ? 1 : 2, to == Status.CLOSED, clock);
        }
        bool moved_ = kind == IRegistry.VerifierJoined.selector || kind == IRegistry.VerifierLeft.selector;
        if (moved_) movers.push(address(uint160(uint256(e.topics[1]))));
    }

    function _turn(uint256 which, bool still, uint64 clock) private {
        shutSince[which] = still ? clock : 0;
    }

    /// @dev Batches and demands: `Owing`.
    function _ofAnchor(Vm.Log memory e) internal virtual;

    /// @dev What later parts of the campaign keep books of.
    function _ofOthers(Vm.Log memory e) internal virtual {}

    function _ofBreaker(Vm.Log memory e) private {
        if (e.topics[0] == IBreaker.BreakerReset.selector) holds = false;
    }

    /// @dev What the court and its rounds say is of one dispute.
    function _ofCourt(Vm.Log memory e) private {
        (bytes32 kind, bytes32 id) = (e.topics[0], e.topics[1]);
        if (kind == IDisputes.DisputeOpened.selector) {
            ids.push(id);
            live.push(id);
            (receiptIdOf[id], openedAt[id]) = (e.topics[2], guardian.clock());
            accused[id] = address(uint160(uint256(e.topics[3])));
            (, batchOf[id],) = abi.decode(e.data, (address, uint64, bytes32));
        } else {
            that(looks[id].phase != Phase.NONE || _isStirred(id), "an event of no dispute");
            that(looks[id].phase != Phase.FINAL, "an ended dispute moves");
        }
        stirred.push(id);
        _ofVotes(e, kind, id);
    }

    function _ofVotes(Vm.Log memory e, bytes32 kind, bytes32 id) private {
        if (kind == IRounds.Revealed.selector) {
            (Vote memory v,) = abi.decode(e.data, (Vote, bytes));
            that(_maskOf(id, v.round, v.voter) == v.seatMask && v.seatMask != 0, "a vote with other seats");
            that(_spoke(id, v.round) & v.seatMask == 0, "a seat spoke twice");
            _heard(v);
        } else if (kind == IRounds.Certified.selector) {
            (Finding memory f, uint256 seats,) = abi.decode(e.data, (Finding, uint256, uint16));
            same(seats, signedFor[f.dispute][f.round], "seats of a certificate");
            that(_spoke(id, f.round) & seats == 0, "a seat spoke twice");
            _heard(f, seats);
        } else if (kind == IRounds.CommitRootPosted.selector) {
            uint16 round = uint16(uint256(e.topics[2]));
            (, address by) = abi.decode(e.data, (bytes32, address));
            that(_maskOf(id, round, by) != 0, "a root of a stranger");
            rooted[id][round] = true;
        }
    }

    function _maskOf(bytes32 id, uint16 round, address who) private view returns (uint256 mask) {
        IRounds.Member[] memory list = rounds.membersOf(id, round);
        for (uint256 i = 0; i < list.length; ++i) {
            if (list[i].voter == who) mask |= list[i].seatMask;
        }
    }

    function _isStirred(bytes32 id) private view returns (bool found) {
        for (uint256 i = 0; i < stirred.length; ++i) {
            found = found || stirred[i] == id;
        }
    }

    /// @dev Pauses, kept by hand: none longer than allowed, no two nearer than a dispute is long.
    function _ofGuardian(Vm.Log memory e) private {
        if (e.topics[0] == IGuardian.Paused.selector) {
            if (_pauseEnd != 0) _stopped += _pauseEnd - _pausedFrom;
            // A version that is long over may have had longer disputes.
            uint256 longest = params.longestDispute(params.version());
            that(_pauseEnd == 0 || block.timestamp >= _pauseEnd + longest, "two pauses in one dispute");
            (_pauseEnd,) = abi.decode(e.data, (uint256, address));
            _pausedFrom = block.timestamp;
            that(_pauseEnd - _pausedFrom <= params.times(1).maxPause, "a long pause");
        } else if (e.topics[0] == IGuardian.Unpaused.selector) {
            _pauseEnd = block.timestamp;
        }
    }

    /// @notice Wall time without pauses.
    function expectedClock() public view returns (uint256) {
        uint256 now_ = block.timestamp < _pauseEnd ? _pausedFrom : block.timestamp;
        return now_ - _stopped - (block.timestamp < _pauseEnd ? 0 : _pauseEnd - _pausedFrom);
    }

    function _ofSettlement(Vm.Log memory e) private {
        paidOrCharged.push(e.topics[1]);
        if (e.topics[0] != ISettlement.SeatsSettled.selector) return;
        (bytes32 id, uint16 round) = (e.topics[1], uint16(uint256(e.topics[2])));
        (
            uint16 from,
            uint256 perSeat,
            address[] memory holders,
            bytes memory standings,
            ISettlement.Charge[] memory charges
        ) = abi.decode(e.data, (uint16, uint256, address[], bytes, ISettlement.Charge[]));
        for (uint16 i = 0; i < standings.length; ++i) {
            that(!_seatSettled[id][round][from + i], "a seat was settled twice");
            _seatSettled[id][round][from + i] = true;
            Standing standing = Standing(uint8(standings[i]));
            same(uint8(standing), uint8(standingOf(id, round, from + i)), "standing");
            if (standing != Standing.RIGHT && standing != Standing.WORKED) continue;
            seatPay[id] += perSeat;
            _seatPayOf[id][holders[i]] += perSeat;
        }
        for (uint256 i = 0; i < holders.length; ++i) {
            same(mirror.seatPayOf(id, holders[i]), _seatPayOf[id][holders[i]], "pay of who held it");
        }
        for (uint256 i = 0; i < charges.length; ++i) {
            seatPenalty[id] += charges[i].amount;
        }
        same(mirror.slashedBy(settlement.penaltyPot(id)), seatPenalty[id], "penalties by events");
        _held(id, round, from, holders, standings);
    }

    /// @dev The settlement names who was drawn, unless the draw was never ended.
    function _held(bytes32 id, uint16 round, uint16 from, address[] memory holders, bytes memory standings)
        private
        view
    {
        IRounds.Member[] memory list = rounds.membersOf(id, round);
        for (uint256 i = 0; i < list.length; ++i) {
            for (uint256 seat = 0; seat < holders.length; ++seat) {
                if (standings[seat] == 0 || list[i].seatMask & (1 << (from + seat)) == 0) continue;
                that(holders[seat] == list[i].voter, "another holder of a seat");
            }
        }
    }

    /// @notice What a seat is worth, from what was said: `Watch`.
    function standingOf(bytes32 id, uint16 round, uint16 seat) internal view virtual returns (Standing);
}
