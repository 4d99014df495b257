// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Wired} from "../libraries/Wired.sol";
import {SplitLib} from "../libraries/SplitLib.sol";
import {SplitTerms, Verdict} from "../libraries/Types.sol";
import {IDisputes} from "../interfaces/IDisputes.sol";
import {ILedger} from "../interfaces/ILedger.sol";
import {IParams} from "../interfaces/IParams.sol";
import {ISettlement} from "../interfaces/ISettlement.sol";
import {IStakeSource} from "../interfaces/IStakeSource.sol";

/// @title SettlementStore: what is stored of a dispute's money, and what follows from it
/// @dev Only what cannot be computed again is stored; the amounts are `SplitLib`'s, whenever somebody asks.
abstract contract SettlementStore is ISettlement, Wired {
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

    mapping(bytes32 id => Case) internal _cases;

    constructor(IParams params, ILedger ledger, IStakeSource vault) {
        PARAMS = params;
        LEDGER = ledger;
        VAULT = vault;
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

    /// @dev What the pot holds once everything is there.
    function _due(Case storage c, uint256 bond) internal view returns (uint256) {
        return bond + c.appealBond + c.advanced + c.slashed;
    }

    /// @dev No split before the end.
    function _split(Case storage c, SplitTerms memory t)
        internal
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
        internal
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
    function _isForgiving(Verdict verdict) internal pure returns (bool) {
        return verdict == Verdict.DRAW || verdict == Verdict.REFUNDED;
    }

    function _shift(uint16 round) internal pure returns (uint256) {
        return 8 * (uint256(round) - 1);
    }
}
