// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ILedger} from "./ILedger.sol";
import {Verdict} from "../libraries/Types.sol";

/// @title ISettlement: the money of a dispute, one function per row of the table of design section 9
/// @notice Every amount is rounded down and what remains is burned. A dispute ends at a cost that does not grow with its
///         committees: seats are paid and charged afterwards, in steps that anybody may take.
///         For each dispute that has ended:
///         bond + appealBond + advanced + slashed == toChallenger + toAppellant + toOperator + toVerifiers + repaid + burned.
///         Penalties are taken beside this and burned whole.
interface ISettlement {
    /// @notice What a dispute holds and where it went. Wei.
    struct Account {
        uint96 bond; // of the challenger
        uint96 appealBond;
        uint96 advanced; // by the treasury, for rounds after the first
        uint96 operatorLocked; // operator stake that it binds
        uint96 slashed; // really taken from the operator; 0 until the end
        uint96 penalties; // taken from verifiers so far, all burned
        uint96 perSeat; // pay of a right (or working) seat
        uint96 toChallenger;
        uint96 toAppellant;
        uint96 toOperator;
        uint96 toVerifiers; // set aside for seats
        uint96 repaid; // to the treasury
        uint96 burned; // without penalties
        address appellant;
        bool ended;
        bool paid; // everybody but the seats has its money
    }

    /// @notice How a dispute ended.
    struct Ending {
        Verdict verdict;
        bool appellantWon; // it is another than the one that was appealed
        bool knew; // the challenger committed to what it says
        uint32 paramsVersion;
        uint16 rounds;
    }

    /// @notice Wei that one voter lost, for all of its seats of a call.
    struct Charge {
        address voter;
        uint256 amount;
    }

    event Advanced(bytes32 indexed id, uint256 amount);
    event Ended(bytes32 indexed id, Verdict indexed verdict, Account account);
    event Paid(bytes32 indexed id);
    /// @notice Seat `from + i` is held by `holders[i]`, 0 for nobody, with the `Standing` of byte i. `perSeat` wei went to the holder of each
    ///         that is RIGHT or WORKED; `charges` is all that was taken.
    event SeatsSettled(
        bytes32 indexed id,
        uint16 indexed round,
        uint16 from,
        uint256 perSeat,
        address[] holders,
        bytes standings,
        Charge[] charges
    );

    /// @notice A dispute ends once.
    error AlreadyEnded(bytes32 id);
    /// @notice Only a dispute that has ended.
    error NotEnded(bytes32 id);
    /// @notice Slashed stake is still on its way: the pot has `have` of `want`.
    error NotArrived(bytes32 id, uint256 have, uint256 want);
    /// @notice Everybody has its money.
    error AlreadyPaid(bytes32 id);
    /// @notice No seat was left to settle.
    error NoProgress(bytes32 id, uint16 round);

    /// @notice Lock the operator's stake. The challenger's `requiredBond` is in the dispute's pot. Court only, as are the next three.
    function opened(bytes32 id, address operator, uint256 slashAmount) external;
    /// @notice The bond of an appeal is in the pot.
    function appealed(bytes32 id, address by, uint256 bond) external;
    /// @notice Advance the fees of another round from the treasury, as far as it reaches.
    function advance(bytes32 id, uint16 seats, uint32 paramsVersion) external;
    /// @notice Slash, split and pay, as the verdict says; what has not arrived is paid by `payOut` later.
    function end(bytes32 id, Ending calldata how) external;

    /// @notice Pay everybody but the seats once slashed stake has arrived, and burn penalties that came late. Anybody.
    function payOut(bytes32 id) external;
    /// @notice Pay or charge up to `count` seats of a round from its first unsettled one. Anybody, once everybody else has its
    ///         money; at least one or revert.
    function settleSeats(bytes32 id, uint16 round, uint256 count) external;

    /// @notice Where all money but stake is.
    function LEDGER() external view returns (ILedger);
    function accountOf(bytes32 id) external view returns (Account memory);
    /// @notice The ledger's pot for penalties of a dispute, apart from what its seats are still to get.
    function penaltyPot(bytes32 id) external pure returns (bytes32);
    /// @notice Seats of a round that are settled.
    function settledSeats(bytes32 id, uint16 round) external view returns (uint16);
}
