// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Vm} from "../test/Vm.sol";
import {ILedger} from "../src/interfaces/ILedger.sol";
import {IStakeSource} from "../src/interfaces/IStakeSource.sol";

/// @title Books kept from events alone, from genesis on: what storage must be equal to
/// @dev Checks I4 SHARES, I5 NOT BEFORE ITS TIME, I9 LEAVING IS SLASHABLE, I10 BOUND, I11 NO MORE THAN THERE IS,
///      I25 EVENTS.
contract Mirror {
    mapping(bytes32 ref => uint256) public potOf;
    mapping(address who => uint256) public creditOf;
    mapping(address who => uint256) public stakeOf;
    mapping(address who => uint256) public unbondingOf;
    mapping(address who => uint256) public lockedOf;
    mapping(address who => uint256) public collateralOf;
    mapping(address who => uint256) public obligedOf;
    /// @dev The largest stake that batches were anchored with since the account last had none open.
    mapping(address who => uint256) private _leastOf;
    mapping(bytes32 ref => uint256) public slashedBy;
    /// @dev Of these: what no dispute had locked; and what reporters have of it.
    mapping(bytes32 ref => uint256) private _unlockedBy;
    mapping(bytes32 ref => uint256) private _reportedBy;
    /// @notice What accounts were paid for seats.
    mapping(bytes32 ref => mapping(address who => uint256)) public seatPayOf;
    bytes32[] public pots;
    Totals private _totals;
    /// @notice The first movement that was against a rule; empty if none was.
    string public wrong;

    /// @notice Sums of everything.
    struct Totals {
        uint256 pots;
        uint256 credits;
        uint256 treasury;
        uint256 burned;
        uint256 stake;
        uint256 unbonding;
    }

    /// @notice What binds stake under the parameters of a moment.
    struct Terms {
        uint256 least;
        uint256 slash;
    }

    struct Credit {
        uint256 amount;
        uint64 unlockAt;
    }

    mapping(bytes32 ref => bool) private _seen;
    mapping(address who => Credit[]) private _credits;
    mapping(address who => uint256) private _paid;
    mapping(address who => Credit[]) private _requests;
    mapping(address who => uint256) private _unbonded;
    uint256 private immutable WITHDRAW_DELAY;
    uint256 private immutable UNBOND_DELAY;
    uint256 private immutable MOST_ALPHA_BPS;
    mapping(address who => mapping(bytes32 ref => uint256)) private _lockedBy;
    address[] private _touched;
    bytes32[] private _touchedPots;

    function totals() external view returns (Totals memory) {
        return _totals;
    }

    /// @notice Accounts and pots that events named since the last call, each once or oftener.
    function touched() external returns (address[] memory who, bytes32[] memory refs) {
        (who, refs) = (_touched, _touchedPots);
        delete _touched;
        delete _touchedPots;
    }

    constructor(uint256 withdrawDelay, uint256 unbondDelay, uint256 mostAlphaBps) {
        (WITHDRAW_DELAY, UNBOND_DELAY, MOST_ALPHA_BPS) = (withdrawDelay, unbondDelay, mostAlphaBps);
    }

    function potCount() external view returns (uint256) {
        return pots.length;
    }

    /// @notice One event of the ledger, at this protocol clock.
    function ofLedger(Vm.Log memory e, uint64 clock) external {
        bytes32 kind = e.topics[0];
        if (kind == ILedger.Taken.selector) {
            (uint256 amount,) = abi.decode(e.data, (uint256, uint8));
            _enters(e.topics[1], amount);
        } else if (kind == ILedger.Credited.selector) {
            (uint256 amount, uint8 reason, uint64 unlockAt) = abi.decode(e.data, (uint256, uint8, uint64));
            if (reason == uint8(ILedger.Reason.REPORT)) _reported(e.topics[2], amount);
            _credited(e.topics[2], _account(e.topics[1]), Credit(amount, unlockAt), clock);
        } else if (kind == ILedger.CreditedEach.selector) {
            (uint8 reason, uint64 unlockAt, uint256 amount, address[] memory accounts) =
                abi.decode(e.data, (uint8, uint64, uint256, address[]));
            for (uint256 i = 0; i < accounts.length; ++i) {
                if (reason == uint8(ILedger.Reason.SEAT_PAY)) seatPayOf[e.topics[1]][accounts[i]] += amount;
                _credited(e.topics[1], accounts[i], Credit(amount, unlockAt), clock);
            }
        } else if (kind == ILedger.Burned.selector) {
            (uint256 amount,) = abi.decode(e.data, (uint256, uint8));
            _leaves(e.topics[1], amount);
            _totals.burned += amount;
        } else if (kind == ILedger.Withdrawn.selector) {
            _withdrawn(_account(e.topics[1]), abi.decode(e.data, (uint256)), clock);
        } else {
            _ofTreasury(kind, e);
        }
    }

    /// @notice One event of the vault, at this protocol clock. `terms`: of a batch's own parameters, when it binds collateral.
    function ofVault(Vm.Log memory e, uint64 clock, Terms calldata terms) external {
        if (e.topics.length < 2) return;
        bytes32 kind = e.topics[0];
        address who = _account(e.topics[1]);
        _touched.push(who);
        uint256 amount = _first(e.data);
        if (kind == IStakeSource.Deposited.selector) {
            stakeOf[who] += amount;
            _totals.stake += amount;
        } else if (kind == IStakeSource.UnbondRequested.selector) {
            stakeOf[who] -= amount;
            unbondingOf[who] += amount;
            (_totals.stake, _totals.unbonding) = (_totals.stake - amount, _totals.unbonding + amount);
            (, uint64 finishAt) = abi.decode(e.data, (uint256, uint64));
            if (finishAt < clock + UNBOND_DELAY) _wrong("stake leaves early");
            _requests[who].push(Credit(amount, finishAt));
        } else if (kind == IStakeSource.Unbonded.selector) {
            unbondingOf[who] -= amount;
            _totals.unbonding -= amount;
            _unbonded[who] += amount;
            if (_unbonded[who] > _unlocked(_requests[who], clock)) _wrong("stake was paid before its time");
            if (keptOf(who) > stakeOf[who] + unbondingOf[who]) _wrong("bound stake left");
        } else if (kind == IStakeSource.Slashed.selector) {
            (uint256 want, uint256 taken) = abi.decode(e.data, (uint256, uint256));
            uint256 most = stakeOf[who] + unbondingOf[who];
            if (taken != (want < most ? want : most)) _wrong("a slash took another amount");
            uint256 unlocked = lockedOf[who] < most ? most - lockedOf[who] : 0;
            _unlockedBy[e.topics[2]] += taken < unlocked ? taken : unlocked;
            _slashed(who, e.topics[2], taken);
        } else {
            if (kind == IStakeSource.Reserved.selector) _reserved(who, amount, terms);
            _ofBound(kind, who, e, amount);
        }
    }

    /// @notice What stays of an account's stake: all that is bound and, while a batch is open, the most that one of those that
    ///         were open with it asked for, in whole gwei.
    function keptOf(address who) public view returns (uint256) {
        uint256 least = collateralOf[who] == 0 ? 0 : (_leastOf[who] + 1 gwei - 1) / 1 gwei * 1 gwei;
        return _bound(who) > least ? _bound(who) : least;
    }

    /// @notice What receipts can bind: disputes keep no more from them than one slash takes.
    function freeOf(address who, uint256 slash) public view returns (uint256) {
        uint256 bound = collateralOf[who] + (lockedOf[who] < slash ? lockedOf[who] : slash);
        return bound < stakeOf[who] ? stakeOf[who] - bound : 0;
    }

    function _reserved(address who, uint256 amount, Terms calldata terms) private {
        if (collateralOf[who] == 0 || terms.least > _leastOf[who]) _leastOf[who] = terms.least;
        if (amount > freeOf(who, terms.slash)) _wrong("collateral without stake");
        if (terms.least > freeOf(who, terms.slash)) _wrong("receipts of who has too little");
    }

    /// @dev Of what a report slashed, a reporter has a share of what no dispute had locked then.
    function _reported(bytes32 ref, uint256 amount) private {
        _reportedBy[ref] += amount;
        if (_reportedBy[ref] > _unlockedBy[ref] * MOST_ALPHA_BPS / 10_000) {
            _wrong("a report shares what disputes lock");
        }
    }

    function _ofBound(bytes32 kind, address who, Vm.Log memory e, uint256 amount) private {
        if (kind == IStakeSource.Locked.selector) {
            (, uint256 got) = abi.decode(e.data, (uint256, uint256));
            lockedOf[who] += got;
            _lockedBy[who][e.topics[2]] += got;
        } else if (kind == IStakeSource.Unlocked.selector) {
            lockedOf[who] -= amount;
            _lockedBy[who][e.topics[2]] -= amount;
        } else if (kind == IStakeSource.Reserved.selector) {
            collateralOf[who] += amount;
        } else if (kind == IStakeSource.Released.selector) {
            collateralOf[who] -= amount;
        } else if (kind == IStakeSource.Obliged.selector) {
            obligedOf[who] += amount;
        } else if (kind == IStakeSource.Discharged.selector) {
            obligedOf[who] -= amount;
        }
    }

    /// @dev Active stake goes first. A slash frees what its reference had locked.
    function _slashed(address who, bytes32 ref, uint256 taken) private {
        lockedOf[who] -= _lockedBy[who][ref];
        delete _lockedBy[who][ref];
        uint256 fromActive = taken < stakeOf[who] ? taken : stakeOf[who];
        stakeOf[who] -= fromActive;
        unbondingOf[who] -= taken - fromActive;
        (_totals.stake, _totals.unbonding) = (_totals.stake - fromActive, _totals.unbonding - (taken - fromActive));
        slashedBy[ref] += taken;
    }

    function _credited(bytes32 ref, address who, Credit memory c, uint64 clock) private {
        _leaves(ref, c.amount);
        creditOf[who] += c.amount;
        _totals.credits += c.amount;
        if (c.unlockAt < clock + WITHDRAW_DELAY) _wrong("a credit unlocks early");
        _credits[who].push(c);
        _touched.push(who);
    }

    function _ofTreasury(bytes32 kind, Vm.Log memory e) private {
        uint256 amount = _first(e.data);
        if (kind == ILedger.Advanced.selector) {
            _totals.treasury -= amount;
            _enters(e.topics[1], amount);
        } else if (kind == ILedger.Repaid.selector) {
            _leaves(e.topics[1], amount);
            _totals.treasury += amount;
        } else if (kind == ILedger.Funded.selector) {
            _totals.treasury += amount;
        }
    }

    function _enters(bytes32 ref, uint256 amount) private {
        if (!_seen[ref]) pots.push(ref);
        _seen[ref] = true;
        potOf[ref] += amount;
        _totals.pots += amount;
        _touchedPots.push(ref);
    }

    function _leaves(bytes32 ref, uint256 amount) private {
        potOf[ref] -= amount;
        _totals.pots -= amount;
        _touchedPots.push(ref);
    }

    /// @dev Everything ever paid must be covered by credits that had unlocked.
    function _withdrawn(address who, uint256 amount, uint64 clock) private {
        creditOf[who] -= amount;
        _totals.credits -= amount;
        _touched.push(who);
        _paid[who] += amount;
        if (_paid[who] > _unlocked(_credits[who], clock)) _wrong("a credit was paid before it unlocked");
    }

    function _unlocked(Credit[] storage list, uint64 clock) private view returns (uint256 sum) {
        for (uint256 i = 0; i < list.length; ++i) {
            if (list[i].unlockAt <= clock) sum += list[i].amount;
        }
    }

    function _bound(address who) private view returns (uint256) {
        return lockedOf[who] + collateralOf[who] + obligedOf[who];
    }

    function _wrong(string memory what) private {
        if (bytes(wrong).length == 0) wrong = what;
    }

    function _first(bytes memory data) private pure returns (uint256 word) {
        if (data.length < 32) return 0;
        assembly ("memory-safe") {
            word := mload(add(data, 32))
        }
    }

    function _account(bytes32 topic) private pure returns (address) {
        return address(uint160(uint256(topic)));
    }
}
