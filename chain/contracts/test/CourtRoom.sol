// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IRounds} from "../src/interfaces/IRounds.sol";
import {AccessManager} from "@openzeppelin/contracts/access/manager/AccessManager.sol";
import {Check} from "./Vm.sol";
import {Guardian} from "../src/governance/Guardian.sol";
import {Ledger} from "../src/stake/Ledger.sol";
import {Params} from "../src/governance/Params.sol";
import {Registry} from "../src/stake/Registry.sol";
import {Settlement} from "../src/court/Settlement.sol";
import {StakeBook} from "../src/stake/StakeBook.sol";
import {StakeVault} from "../src/stake/StakeVault.sol";
import {ParamSet, Standing, Verdict} from "../src/libraries/Types.sol";
import {IDisputes} from "../src/interfaces/IDisputes.sol";
import {ILedger} from "../src/interfaces/ILedger.sol";
import {ISettlement} from "../src/interfaces/ISettlement.sol";
import {Defaults} from "./Defaults.sol";

/// @title A court that judges as it is told: what `Settlement` asks of one, with committees given instead of drawn
contract GivenCourt {
    struct Seat {
        address holder;
        Standing standing;
    }

    mapping(bytes32 id => IDisputes.Dispute) private _disputes;
    mapping(bytes32 id => mapping(uint16 round => Seat[])) private _seats;
    mapping(bytes32 id => bool) private _knew;
    mapping(bytes32 id => uint256) public refunds;

    function refund(bytes32 id) external {
        ++refunds[id];
    }

    function setChallenger(bytes32 id, address who, bool knew) external {
        (_disputes[id].challenger, _knew[id]) = (who, knew);
    }

    function addSeat(bytes32 id, uint16 round, address holder, Standing standing) external {
        if (_disputes[id].round < round) _disputes[id].round = round;
        _seats[id][round].push(Seat(holder, standing));
    }

    function dispute(bytes32 id) external view returns (IDisputes.Dispute memory) {
        return _disputes[id];
    }

    /// @dev It knows its seats itself.
    function ROUNDS() external view returns (address) {
        return address(this);
    }

    function roundsOf(bytes32 id) external view returns (uint16) {
        return _disputes[id].round;
    }

    function roundOf(bytes32 id, uint16 round) external view returns (IRounds.Round memory r) {
        r.seats = uint16(_seats[id][round].length);
    }

    function challengerOf(bytes32 id) external view returns (address, bool) {
        return (_disputes[id].challenger, _knew[id]);
    }

    function votingOf(bytes32) external pure returns (address, uint16, uint32) {
        return (address(0), 0, 1);
    }

    /// @notice What it says of the end of a dispute.
    function ending(bytes32 id, Verdict verdict, bool appellantWon) external view returns (ISettlement.Ending memory) {
        return ISettlement.Ending(verdict, appellantWon, _knew[id], 1, _disputes[id].round);
    }

    function standingOf(bytes32 id, uint16 round, uint16 seat) external view returns (address, Standing) {
        Seat memory s = _seats[id][round][seat];
        return (s.holder, s.standing);
    }

    function standingsOf(bytes32 id, uint16 round, uint256 from, uint256 count)
        external
        view
        returns (address[] memory holders, bytes memory standings)
    {
        uint256 left = _seats[id][round].length - from;
        if (count > left) count = left;
        (holders, standings) = (new address[](count), new bytes(count));
        for (uint256 i = 0; i < count; ++i) {
            Seat memory s = _seats[id][round][from + i];
            (holders[i], standings[i]) = (s.holder, bytes1(uint8(s.standing)));
        }
    }

    function paidSeats(bytes32 id, uint16 round) external view returns (uint16 right, uint16 worked) {
        for (uint256 i = 0; i < _seats[id][round].length; ++i) {
            Standing s = _seats[id][round][i].standing;
            if (s == Standing.RIGHT) ++right;
            if (s == Standing.RIGHT || s == Standing.WORKED) ++worked;
        }
    }
}

/// @title Real ledger, vault, parameters and settlement around a given court; this contract speaks for the court
abstract contract CourtRoom is Check {
    bytes32 internal constant ID = "dispute";
    address internal constant OPERATOR = address(0x0BE7);
    address internal constant CHALLENGER = address(0xC4A1);
    address internal constant APPELLANT = address(0xA44);
    uint256 internal constant VERIFIERS = 4;

    AccessManager internal manager;
    Params internal params;
    Guardian internal guardian;
    Ledger internal ledger;
    StakeVault internal vault;
    Settlement internal settlement;
    GivenCourt internal court;

    function setUp() public virtual {
        vm.warp(1_800_000_000);
        manager = new AccessManager(address(this));
        params = new Params(address(manager), Defaults.parameters());
        guardian = new Guardian(address(manager), params);
        ledger = new Ledger(address(manager), guardian, params);
        vault = newVault(StakeBook.Parts(address(manager), guardian, params, ledger));
        Registry registry = new Registry(address(manager), guardian, params, vault);
        settlement = new Settlement(params, ledger, vault);
        court = new GivenCourt();
        ledger.wire(address(vault), address(settlement), address(0xA1), address(0xA2), address(court));
        vault.wire(registry, address(settlement), address(0xA1), address(0xA3));
        registry.wire(address(court));
        settlement.wire(IDisputes(address(court)));
        for (uint256 i = 0; i < VERIFIERS; ++i) {
            stake(verifier(i), 5 ether);
        }
        vm.deal(address(court), 1e9 ether);
    }

    function newVault(StakeBook.Parts memory parts) internal virtual returns (StakeVault) {
        return new StakeVault(parts);
    }

    function stake(address who, uint256 amount) internal {
        vm.deal(who, amount);
        vm.prank(who);
        vault.deposit{value: amount}();
    }

    function verifier(uint256 i) internal pure returns (address) {
        return address(uint160(0xBEEF_0000 + i % VERIFIERS));
    }

    function opened(bool knew) internal {
        (uint256 bond, uint256 slashAmount) = params.openTerms(1);
        vm.prank(address(court));
        ledger.take{value: bond}(ID, CHALLENGER, ILedger.Source.BOND);
        vm.prank(address(court));
        settlement.opened(ID, OPERATOR, slashAmount);
        court.setChallenger(ID, CHALLENGER, knew);
    }

    function appealed(uint256 bond) internal {
        vm.prank(address(court));
        ledger.take{value: bond}(ID, APPELLANT, ILedger.Source.APPEAL_BOND);
        vm.prank(address(court));
        settlement.appealed(ID, APPELLANT, bond);
    }

    function advanced(uint16 seats) internal {
        vm.prank(address(court));
        settlement.advance(ID, seats, 1);
    }

    function ended(Verdict verdict, bool appellantWon) internal {
        ISettlement.Ending memory how = court.ending(ID, verdict, appellantWon);
        vm.prank(address(court));
        settlement.end(ID, how);
    }

    /// @dev Seats with standings that a verdict allows.
    function seated(uint16 round, uint256 seats, Verdict verdict, bytes32 moves) internal {
        bool forgiving = verdict == Verdict.DRAW || verdict == Verdict.REFUNDED;
        for (uint256 i = 0; i < seats; ++i) {
            uint256 r = uint256(keccak256(abi.encode(moves, round, i)));
            Standing s =
                [Standing.RIGHT, Standing.NEUTRAL, Standing.ABSENT, Standing.NOT_REVEALED, Standing.WRONG][r % 5];
            if (forgiving && s == Standing.RIGHT) s = Standing.WORKED;
            if ((r >> 8) % 9 == 0) court.addSeat(ID, round, address(0), Standing.NONE);
            else court.addSeat(ID, round, verifier(r >> 16), s);
        }
    }

    /// @dev All seats of all rounds, in parts.
    function settledAll(bytes32 moves) internal {
        for (uint16 round = 1; round <= court.dispute(ID).round; ++round) {
            uint256 seats = court.roundOf(ID, round).seats;
            for (uint256 step = 0; settlement.settledSeats(ID, round) < seats; ++step) {
                settlement.settleSeats(ID, round, 1 + uint256(keccak256(abi.encode(moves, round, step))) % 9);
            }
        }
    }

    function account() internal view returns (ISettlement.Account memory) {
        return settlement.accountOf(ID);
    }
}
