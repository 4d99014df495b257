// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {SettlementStore} from "./SettlementStore.sol";
import {SplitLib} from "../libraries/SplitLib.sol";
import {Standing, Verdict} from "../libraries/Types.sol";
import {IDisputes} from "../interfaces/IDisputes.sol";
import {ILedger} from "../interfaces/ILedger.sol";
import {IParams} from "../interfaces/IParams.sol";
import {ISettlement} from "../interfaces/ISettlement.sol";
import {IStakeSource} from "../interfaces/IStakeSource.sol";

/// @title Settlement: takes what a dispute costs, and moves it when the dispute has ended
contract Settlement is SettlementStore {
    using SafeCast for uint256;

    modifier onlyCourt() {
        if (msg.sender != address(disputes)) revert NotAuthorised(msg.sender);
        _;
    }

    constructor(IParams params, ILedger ledger, IStakeSource vault) SettlementStore(params, ledger, vault) {}

    /// @notice Name the court. Once, by the deployer.
    function wire(IDisputes disputes_) external wiring {
        disputes = IDisputes(_nonZero(address(disputes_)));
    }

    /// @inheritdoc ISettlement
    function opened(bytes32 id, address operator, address challenger, uint32 paramsVersion) external payable onlyCourt {
        (, uint256 slashAmount) = PARAMS.feeAndSlash(paramsVersion);
        LEDGER.take{value: msg.value}(id, challenger, ILedger.Source.BOND);
        uint256 locked = VAULT.lock(operator, slashAmount, id);
        Case storage c = _cases[id];
        (c.operator, c.bond, c.operatorLocked) = (operator, msg.value.toUint96(), locked.toUint96());
        c.version = paramsVersion;
        emit Opened(id, challenger, msg.value, locked);
    }

    /// @inheritdoc ISettlement
    function appealed(bytes32 id, address by) external payable onlyCourt {
        LEDGER.take{value: msg.value}(id, by, ILedger.Source.APPEAL_BOND);
        Case storage c = _cases[id];
        (c.appealBond, c.appellant) = (msg.value.toUint96(), by);
    }

    /// @inheritdoc ISettlement
    function advance(bytes32 id, uint16 seats) external onlyCourt {
        Case storage c = _cases[id];
        (uint256 fee,) = PARAMS.feeAndSlash(c.version);
        _advance(id, c, seats * fee);
    }

    /// @inheritdoc ISettlement
    function end(bytes32 id, Verdict verdict, bool appellantWon) external onlyCourt {
        Case storage c = _cases[id];
        if (c.stage != Stage.OPEN) revert AlreadyEnded(id);
        (c.verdict, c.appellantWon, c.stage) = (verdict, appellantWon, Stage.ENDED);
        uint16 seats = verdict == Verdict.DRAW ? 0 : _seatsToPay(id, verdict);
        c.seats = seats;
        (, c.knew) = disputes.challengerOf(id);
        (uint256 fee, uint256 slashAmount) = PARAMS.feeAndSlash(c.version);
        if (verdict == Verdict.UPHELD || _isForgiving(verdict)) VAULT.unlock(c.operator, c.operatorLocked, id);
        else c.slashed = VAULT.slash(c.operator, c.operatorLocked, slashAmount, id).toUint96();
        if (verdict == Verdict.REFUNDED && seats * fee > c.advanced) _advance(id, c, seats * fee - c.advanced);
        (SplitLib.Facts memory f, SplitLib.Split memory s) = _split(c);
        c.perSeat = s.perSeat.toUint96();
        bool arrived = LEDGER.potOf(id) >= _due(c);
        emit Ended(id, verdict, _account(c, f, s));
        if (arrived) _pay(id, c, s);
    }

    /// @inheritdoc ISettlement
    function payOut(bytes32 id) public {
        Case storage c = _cases[id];
        if (c.stage == Stage.OPEN) revert NotEnded(id);
        uint256 late = LEDGER.close(penaltyPot(id), ILedger.BurnReason.PENALTY);
        if (c.stage == Stage.PAID) {
            if (late == 0) revert AlreadyPaid(id);
            return;
        }
        _requireArrived(id, c);
        (, SplitLib.Split memory s) = _split(c);
        _pay(id, c, s);
    }

    /// @inheritdoc ISettlement
    function settleSeats(bytes32 id, uint16 round, uint256 count) external {
        Case storage c = _cases[id];
        if (c.stage != Stage.PAID) payOut(id);
        if (round == 0 || round > disputes.roundsOf(id)) revert NoProgress(id, round);
        uint16 from = settledSeats(id, round);
        (address[] memory holders, Standing[] memory standings) = disputes.ROUNDS().standingsOf(id, round, from, count);
        if (holders.length == 0) revert NoProgress(id, round);
        uint256 shift = _shift(round);
        c.settled = uint160(c.settled & ~(uint256(type(uint16).max) << shift) | (from + holders.length) << shift);
        uint256 perSeat = c.perSeat;
        Charge[] memory charges = _charge(id, c, holders, standings);
        _payRight(id, perSeat, _paidStanding(c.verdict), holders, standings);
        emit SeatsSettled(id, round, from, perSeat, holders, standings, charges);
        LEDGER.close(penaltyPot(id), ILedger.BurnReason.PENALTY);
    }

    /// @dev All that were right, in one movement.
    function _payRight(
        bytes32 id,
        uint256 perSeat,
        Standing paid,
        address[] memory holders,
        Standing[] memory standings
    ) private {
        address[] memory accounts = new address[](holders.length);
        uint256 used = 0;
        for (uint256 i = 0; i < holders.length; ++i) {
            if (standings[i] == paid) accounts[used++] = holders[i];
        }
        assembly ("memory-safe") {
            mstore(accounts, used)
        }
        if (used != 0) LEDGER.creditEach(id, accounts, perSeat, ILedger.Reason.SEAT_PAY);
    }

    /// @dev Each once, for all of its seats: a slash costs far more than to look for the others.
    function _charge(bytes32 id, Case storage c, address[] memory holders, Standing[] memory standings)
        private
        returns (Charge[] memory charges)
    {
        if (_isForgiving(c.verdict)) return charges;
        uint256 most = 0;
        for (uint256 i = 0; i < standings.length; ++i) {
            if (standings[i] > Standing.NEUTRAL) ++most;
        }
        if (most == 0) return charges;
        charges = new Charge[](most);
        uint256[7] memory rates = _rates(c.version);
        uint256 used = 0;
        for (uint256 i = 0; i < standings.length; ++i) {
            if (standings[i] <= Standing.NEUTRAL) continue;
            uint256 k = 0;
            while (k < used && charges[k].voter != holders[i]) ++k;
            if (k == used) charges[used++].voter = holders[i];
            charges[k].amount += rates[uint8(standings[i])];
        }
        assembly ("memory-safe") {
            mstore(charges, used)
        }
        _slashEach(id, c, charges);
    }

    /// @dev What was to be taken becomes what was.
    function _slashEach(bytes32 id, Case storage c, Charge[] memory charges) private {
        bytes32 pot = penaltyPot(id);
        uint256 sum = 0;
        for (uint256 i = 0; i < charges.length; ++i) {
            if (charges[i].amount != 0) charges[i].amount = VAULT.slash(charges[i].voter, 0, charges[i].amount, pot);
            sum += charges[i].amount;
        }
        c.penalties += sum.toUint96();
    }

    function _pay(bytes32 id, Case storage c, SplitLib.Split memory s) private {
        c.stage = Stage.PAID;
        (address challenger,) = disputes.challengerOf(id);
        _credit(id, challenger, s.bondBack, ILedger.Reason.BOND_BACK);
        _credit(id, challenger, s.alpha, ILedger.Reason.CHALLENGER_SHARE);
        _credit(id, c.appellant, s.toAppellant, ILedger.Reason.BOND_BACK);
        _credit(id, c.operator, s.toOperator, ILedger.Reason.OPERATOR_SHARE);
        if (s.repaid != 0) LEDGER.repay(id, s.repaid);
        LEDGER.burn(id, s.burned, ILedger.BurnReason.REMAINDER);
        emit Paid(id);
    }

    function _credit(bytes32 id, address account, uint256 amount, ILedger.Reason reason) private {
        if (amount != 0) LEDGER.credit(id, account, amount, reason);
    }

    function _advance(bytes32 id, Case storage c, uint256 want) private {
        uint256 amount = LEDGER.advance(id, want);
        c.advanced += amount.toUint96();
        emit Advanced(id, amount);
    }

    function _requireArrived(bytes32 id, Case storage c) private view {
        (uint256 have, uint256 want) = (LEDGER.potOf(id), _due(c));
        if (have < want) revert NotArrived(id, have, want);
    }

    function _seatsToPay(bytes32 id, Verdict verdict) private view returns (uint16 seats) {
        uint16 rounds = disputes.roundsOf(id);
        for (uint16 round = 1; round <= rounds; ++round) {
            (uint16 right, uint16 worked) = disputes.ROUNDS().paidSeats(id, round);
            seats += _isForgiving(verdict) ? worked : right;
        }
    }

    /// @dev Who worked is paid where the guardian ended the dispute; in a draw the pay is nothing.
    function _paidStanding(Verdict verdict) private pure returns (Standing) {
        return _isForgiving(verdict) ? Standing.WORKED : Standing.RIGHT;
    }

    /// @dev Wei by standing.
    function _rates(uint32 version) private view returns (uint256[7] memory rates) {
        (rates[uint8(Standing.ABSENT)], rates[uint8(Standing.NOT_REVEALED)], rates[uint8(Standing.WRONG)]) =
            PARAMS.penalties(version);
    }
}
