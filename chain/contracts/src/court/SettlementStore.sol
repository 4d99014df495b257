// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Wired} from "../libraries/Wired.sol";
import {SplitLib} from "../libraries/SplitLib.sol";
import {Shares, Verdict} from "../libraries/Types.sol";
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

    /// @dev Five words.
    struct Case {
        address operator;
        uint96 bond;
        uint96 operatorLocked;
        uint96 appealBond;
        uint32 version; // of the parameters
        Verdict verdict;
        Stage stage;
        bool appellantWon;
        address appellant;
        uint96 advanced;
        uint96 slashed;
        uint96 perSeat;
        uint16 seats; // to be paid
        bool knew;
        uint96 penalties;
        uint160 settled; // 16 bits for each of up to 10 rounds: seats that are settled (`ParamLaw.MAX_RERUNS`)
    }

    /// @notice The network's parameters.
    IParams public immutable PARAMS;
    /// @notice Where all money but stake is.
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
    function accountOf(bytes32 id) external view returns (Account memory) {
        Case storage c = _cases[id];
        (SplitLib.Facts memory f, SplitLib.Split memory s) = _split(c);
        return _account(c, f, s);
    }

    /// @inheritdoc ISettlement
    function settledSeats(bytes32 id, uint16 round) public view returns (uint16) {
        return uint16(_cases[id].settled >> _shift(round));
    }

    /// @inheritdoc ISettlement
    function penaltyPot(bytes32 id) public pure returns (bytes32) {
        return keccak256(abi.encode("penalties", id));
    }

    /// @dev What the pot holds once everything is there.
    function _due(Case storage c) internal view returns (uint256) {
        return uint256(c.bond) + c.appealBond + c.advanced + c.slashed;
    }

    function _split(Case storage c) internal view returns (SplitLib.Facts memory f, SplitLib.Split memory s) {
        if (c.stage == Stage.OPEN) return (f, s);
        f = SplitLib.Facts({
            verdict: c.verdict,
            appellantWon: c.appellantWon,
            knew: c.knew,
            bond: c.bond,
            appealBond: c.appealBond,
            advanced: c.advanced,
            slashed: c.slashed,
            seats: c.seats
        });
        Shares memory shares = PARAMS.shares(c.version);
        (uint256 fee,) = PARAMS.feeAndSlash(c.version);
        s = SplitLib.split(f, SplitLib.Terms(fee, shares.alphaBps, shares.betaBps, shares.operatorShareBps));
    }

    /// @dev No cast loses anything: no sum of ether needs 96 bits.
    function _account(Case storage c, SplitLib.Facts memory f, SplitLib.Split memory s)
        internal
        view
        returns (Account memory a)
    {
        (a.bond, a.appealBond, a.advanced, a.operatorLocked) = (c.bond, c.appealBond, c.advanced, c.operatorLocked);
        (a.slashed, a.penalties, a.perSeat, a.appellant) = (c.slashed, c.penalties, c.perSeat, c.appellant);
        (a.ended, a.paid) = (c.stage != Stage.OPEN, c.stage == Stage.PAID);
        if (!a.ended) return a;
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
        return 16 * (uint256(round) - 1);
    }
}
