// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {Wired} from "../libraries/Wired.sol";
import {SplitLib} from "../libraries/SplitLib.sol";
import {SplitTerms, Standing, Verdict} from "../libraries/Types.sol";
import {IDisputes} from "../interfaces/IDisputes.sol";
import {ILedger} from "../interfaces/ILedger.sol";
import {IParams} from "../interfaces/IParams.sol";
import {IRounds} from "../interfaces/IRounds.sol";
import {ISettlement} from "../interfaces/ISettlement.sol";
import {IStakeSource} from "../interfaces/IStakeSource.sol";

/// @title Settlement: binds what a dispute may cost, and moves it when the dispute has ended
/// @notice Only what cannot be computed again is stored; the amounts are `SplitLib`'s, whenever somebody asks.
/// @dev States of a dispute's money: OPEN -end-> PAID, or ENDED while slashed stake is on its way -payOut, settleSeats-> PAID.
///        In PAID each seat is settled once, in parts.
///      Money (`SplitLib` has the amounts):
///        | call        | from                | to                                                                        |
///        | opened      | operator's stake    | bound                                                                     |
///        | advance     | treasury            | pot                                                                       |
///        | end         | operator's stake    | pot, or free again                                                        |
///        | end, payOut | pot                 | credit of challenger, appellant, operator; treasury; burned; rest: seats  |
///        | settleSeats | pot                 | credit of right seats                                                     |
///        | settleSeats | verifiers' stake    | penalty pot, burned                                                       |
///      Invariants (docs/reference/contracts.md, section 6):
///
///      I2 IN EQUALS OUT: What came into a dispute is what left it, and what is burned.
///      I4 SHARES: The parts of a slash are the slash, and a fifth of it at least is burned.
///      I11 NO MORE THAN THERE IS: A slash takes no more than there is.
///      I15 ONE END: A dispute ends once, and each seat is settled once.
contract Settlement is ISettlement, Wired {
    using SafeCast for uint256;

    /// @dev How far the money is.
    enum Stage {
        OPEN,
        ENDED, // the split is fixed; slashed stake may be on its way
        PAID // everybody but the seats has its money
    }

    /// @dev One word while a dispute is open, two when it has ended. The other two are for what few disputes have: an appeal; a
    ///      slash, or penalties. The bond is that of the version, the version the court's until the end.
    struct Case {
        address operator;
        uint96 operatorLocked;
        uint96 advanced;
        uint32 version; // of the parameters
        uint16 seats; // to be paid
        Verdict verdict;
        Stage stage;
        bool appellantWon;
        bool knew;
        uint80 settled; // 8 bits for each of up to 10 rounds (`ParamLaw.MAX_RERUNS`): seats that are settled, 255 at most
        address appellant;
        uint96 appealBond;
        uint96 slashed;
        uint96 penalties;
    }

    /// @notice The network's parameters.
    IParams public immutable PARAMS;
    /// @inheritdoc ISettlement
    ILedger public immutable LEDGER;
    /// @notice Where stake is.
    IStakeSource public immutable VAULT;

    /// @notice The court whose disputes are settled here.
    IDisputes public disputes;

    mapping(bytes32 id => Case) private _cases;

    modifier onlyCourt() {
        if (msg.sender != address(disputes)) revert NotAuthorised(msg.sender);
        _;
    }

    constructor(IParams params, ILedger ledger, IStakeSource vault) {
        (PARAMS, LEDGER, VAULT) = (params, ledger, vault);
    }

    /// @notice Name the court. Once, by the deployer.
    function wire(IDisputes disputes_) external wiring {
        disputes = IDisputes(_nonZero(address(disputes_)));
    }

    /// @inheritdoc ISettlement
    function opened(bytes32 id, address operator, uint256 slashAmount) external onlyCourt {
        (_cases[id].operator, _cases[id].operatorLocked) = (operator, VAULT.lock(operator, slashAmount, id).toUint96());
    }

    /// @inheritdoc ISettlement
    function appealed(bytes32 id, address by, uint256 bond) external onlyCourt {
        (_cases[id].appellant, _cases[id].appealBond) = (by, bond.toUint96());
    }

    /// @inheritdoc ISettlement
    function advance(bytes32 id, uint16 seats, uint32 paramsVersion) external onlyCourt {
        (uint256 fee,) = PARAMS.feeAndSlash(paramsVersion);
        _advance(id, _cases[id], seats * fee);
    }

    /// @inheritdoc ISettlement
    function end(bytes32 id, Ending calldata how) external onlyCourt {
        Case storage c = _cases[id];
        if (c.stage != Stage.OPEN) revert AlreadyEnded(id);
        Verdict verdict = how.verdict;
        uint16 seats = verdict == Verdict.DRAW ? 0 : _seatsToPay(id, how);
        (c.verdict, c.appellantWon, c.knew) = (verdict, how.appellantWon, how.knew);
        (c.version, c.seats, c.stage) = (how.paramsVersion, seats, Stage.ENDED);
        SplitTerms memory t = PARAMS.splitTerms(how.paramsVersion);
        if (verdict == Verdict.UPHELD || _isForgiving(verdict)) VAULT.unlock(c.operator, c.operatorLocked, id);
        else c.slashed = VAULT.slash(c.operator, c.operatorLocked, t.slashAmount, id).toUint96();
        uint256 fees = seats * t.feePerSeat;
        if (verdict == Verdict.REFUNDED && fees > c.advanced) _advance(id, c, fees - c.advanced);
        (SplitLib.Facts memory f, SplitLib.Split memory s) = _split(c, t);
        bool arrived = LEDGER.potOf(id) >= _due(c, t.bond);
        emit Ended(id, verdict, _account(c, f, s));
        if (arrived) _pay(id, c, s);
    }

    /// @inheritdoc ISettlement
    function payOut(bytes32 id) external {
        Case storage c = _cases[id];
        if (c.stage == Stage.OPEN) revert NotEnded(id);
        uint256 late = LEDGER.close(penaltyPot(id), ILedger.BurnReason.PENALTY);
        if (c.stage == Stage.ENDED) _payArrived(id, c);
        else if (late == 0) revert AlreadyPaid(id);
    }

    /// @inheritdoc ISettlement
    function settleSeats(bytes32 id, uint16 round, uint256 count) external {
        Case storage c = _cases[id];
        if (c.stage == Stage.OPEN) revert NotEnded(id);
        uint256 perSeat = (c.stage == Stage.ENDED ? _payArrived(id, c) : _splitOf(c)).perSeat;
        if (round == 0 || round > disputes.roundsOf(id)) revert NoProgress(id, round);
        uint16 from = settledSeats(id, round);
        (address[] memory holders, bytes memory standings) = disputes.ROUNDS().standingsOf(id, round, from, count);
        if (holders.length == 0) revert NoProgress(id, round);
        uint256 shift = _shift(round);
        c.settled = uint80(c.settled & ~(uint256(type(uint8).max) << shift) | (from + holders.length) << shift);
        Charge[] memory charges = _charge(id, c, holders, standings);
        _payRight(id, perSeat, _paidStanding(c.verdict), holders, standings);
        emit SeatsSettled(id, round, from, perSeat, holders, standings, charges);
        LEDGER.close(penaltyPot(id), ILedger.BurnReason.PENALTY);
    }

    /// @inheritdoc ISettlement
    function accountOf(bytes32 id) external view returns (Account memory a) {
        Case storage c = _cases[id];
        if (c.operator == address(0)) return a;
        uint32 version = c.version;
        if (c.stage == Stage.OPEN) (,, version) = disputes.votingOf(id);
        (SplitLib.Facts memory f, SplitLib.Split memory s) = _split(c, PARAMS.splitTerms(version));
        return _account(c, f, s);
    }

    /// @inheritdoc ISettlement
    function settledSeats(bytes32 id, uint16 round) public view returns (uint16) {
        return uint8(_cases[id].settled >> _shift(round));
    }

    /// @inheritdoc ISettlement
    function penaltyPot(bytes32 id) public pure returns (bytes32) {
        return keccak256(abi.encode("penalties", id));
    }

    /// @dev All that were right, in one movement.
    function _payRight(bytes32 id, uint256 perSeat, Standing paid, address[] memory holders, bytes memory standings)
        private
    {
        address[] memory accounts = new address[](holders.length);
        uint256 used = 0;
        for (uint256 i = 0; i < holders.length; ++i) {
            if (uint8(standings[i]) == uint8(paid)) accounts[used++] = holders[i];
        }
        assembly ("memory-safe") {
            mstore(accounts, used)
        }
        if (used != 0) LEDGER.creditEach(id, accounts, perSeat, ILedger.Reason.SEAT_PAY);
    }

    /// @dev Each once, for all of its seats: a slash costs far more than to look for the others.
    function _charge(bytes32 id, Case storage c, address[] memory holders, bytes memory standings)
        private
        returns (Charge[] memory charges)
    {
        if (_isForgiving(c.verdict)) return charges;
        uint256 most = 0;
        for (uint256 i = 0; i < standings.length; ++i) {
            if (uint8(standings[i]) > uint8(Standing.NEUTRAL)) ++most;
        }
        if (most == 0) return charges;
        charges = new Charge[](most);
        uint256 seen = 0;
        uint256[7] memory rates = _rates(c.version);
        uint256 used = 0;
        for (uint256 i = 0; i < standings.length; ++i) {
            if (uint8(standings[i]) <= uint8(Standing.NEUTRAL)) continue;
            // One bit for an account: without it there is nobody to look for.
            uint256 bit = 1 << (uint160(holders[i]) & 0xff);
            uint256 k = seen & bit == 0 ? used : 0;
            while (k < used && charges[k].voter != holders[i]) ++k;
            if (k == used) charges[used++].voter = holders[i];
            seen |= bit;
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

    /// @dev Reverts while slashed stake is on its way.
    function _payArrived(bytes32 id, Case storage c) private returns (SplitLib.Split memory s) {
        SplitTerms memory t = PARAMS.splitTerms(c.version);
        (uint256 have, uint256 want) = (LEDGER.potOf(id), _due(c, t.bond));
        if (have < want) revert NotArrived(id, have, want);
        (, s) = _split(c, t);
        _pay(id, c, s);
    }

    function _pay(bytes32 id, Case storage c, SplitLib.Split memory s) private {
        c.stage = Stage.PAID;
        if (s.bondBack + s.alpha != 0) {
            (address challenger,) = disputes.challengerOf(id);
            _credit(id, challenger, s.bondBack, ILedger.Reason.BOND_BACK);
            _credit(id, challenger, s.alpha, ILedger.Reason.CHALLENGER_SHARE);
        }
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

    function _splitOf(Case storage c) private view returns (SplitLib.Split memory s) {
        (, s) = _split(c, PARAMS.splitTerms(c.version));
    }

    function _seatsToPay(bytes32 id, Ending calldata how) private view returns (uint16 seats) {
        IRounds rounds = disputes.ROUNDS();
        for (uint16 round = 1; round <= how.rounds; ++round) {
            (uint16 right, uint16 worked) = rounds.paidSeats(id, round);
            seats += _isForgiving(how.verdict) ? worked : right;
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

    /// @dev What the pot holds once everything is there.
    function _due(Case storage c, uint256 bond) private view returns (uint256) {
        return bond + c.appealBond + c.advanced + c.slashed;
    }

    /// @dev No split before the end.
    function _split(Case storage c, SplitTerms memory t)
        private
        view
        returns (SplitLib.Facts memory f, SplitLib.Split memory s)
    {
        f = SplitLib.Facts({
            verdict: c.verdict,
            appellantWon: c.appellantWon,
            knew: c.knew,
            bond: t.bond,
            appealBond: c.appealBond,
            advanced: c.advanced,
            slashed: c.slashed,
            seats: c.seats
        });
        if (c.stage != Stage.OPEN) s = SplitLib.split(f, t);
    }

    /// @dev No cast loses anything: no sum of ether needs 96 bits.
    function _account(Case storage c, SplitLib.Facts memory f, SplitLib.Split memory s)
        private
        view
        returns (Account memory a)
    {
        (a.bond, a.appealBond, a.advanced, a.operatorLocked) =
        (uint96(f.bond), c.appealBond, c.advanced, c.operatorLocked);
        (a.slashed, a.penalties, a.perSeat, a.appellant) = (c.slashed, c.penalties, uint96(s.perSeat), c.appellant);
        (a.ended, a.paid) = (c.stage != Stage.OPEN, c.stage == Stage.PAID);
        (a.toChallenger, a.toAppellant, a.toOperator) =
        (uint96(s.bondBack + s.alpha), uint96(s.toAppellant), uint96(s.toOperator));
        a.toVerifiers = uint96(s.perSeat * f.seats);
        (a.repaid, a.burned) = (uint96(s.repaid), uint96(s.burned));
    }

    /// @dev Ends without penalties.
    function _isForgiving(Verdict verdict) private pure returns (bool) {
        return verdict == Verdict.DRAW || verdict == Verdict.REFUNDED;
    }

    function _shift(uint16 round) private pure returns (uint256) {
        return 8 * (uint256(round) - 1);
    }
}
