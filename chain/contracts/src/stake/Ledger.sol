// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {AccessManaged} from "@openzeppelin/contracts/access/manager/AccessManaged.sol";
import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {Wired} from "../libraries/Wired.sol";
import {Books} from "./Books.sol";
import {MaturityQueue} from "../libraries/MaturityQueue.sol";
import {IGuardian} from "../interfaces/IGuardian.sol";
import {ILedger} from "../interfaces/ILedger.sol";
import {IParams} from "../interfaces/IParams.sol";

/// @title Ledger: who may move money, and when credit is paid; the sums are `Books`
/// @dev States of a wei: outside -take-> pot -credit-> credit, locked for `withdrawDelay` -time-> due -withdraw-> outside.
///        pot -burn, close-> burned, for ever; outside -fund-> treasury -advance-> pot -repay-> treasury.
///      Money:
///        | call               | who                     | from     | to                          |
///        | take               | movers, sources         | sender   | pot                         |
///        | credit, creditEach | movers                  | pot      | credit                      |
///        | burn, close        | movers                  | pot      | burned                      |
///        | advance, repay     | movers                  | treasury | pot, and back               |
///        | fund               | anybody                 | sender   | treasury                    |
///        | withdraw           | the account             | credit   | the account                 |
///      Invariants (docs/reference/contracts.md, section 6):
///
///      I1 SUMS: Wei held are pots, credits, treasury and burned.
///      I3 NO CREDIT OF NOBODY: Nothing is credited to the zero address.
///      I5 NOT BEFORE ITS TIME: Credit is paid after its delay, on the protocol clock.
///      I6 REFUSED PAYMENT: An account that refuses a payment stops nobody else, and keeps its credit.
///      I25 EVENTS: The events give every balance.
contract Ledger is ILedger, Books, AccessManaged, Wired, ReentrancyGuardTransient {
    using MaturityQueue for MaturityQueue.Queue;

    /// @notice The protocol clock.
    IGuardian public immutable GUARDIAN;
    /// @notice The network's parameters.
    IParams public immutable PARAMS;

    /// @dev What a contract may do.
    struct Rights {
        bool moves;
        bool brings;
    }

    mapping(address who => Rights) private _rights;
    mapping(address account => MaturityQueue.Queue) private _credits;

    /// @notice `who` may move money from now on, or no longer.
    event MoverSet(address indexed who, bool allowed);
    /// @notice `who` may bring money into pots from now on, or no longer.
    event SourceSet(address indexed who, bool allowed);

    modifier onlyMovers() {
        if (!_rights[msg.sender].moves) revert NotAuthorised(msg.sender);
        _;
    }

    constructor(address authority_, IGuardian guardian, IParams params) AccessManaged(authority_) {
        GUARDIAN = guardian;
        PARAMS = params;
    }

    /// @notice Name the first movers, and who brings slashed stake and bonds. Once, by the deployer.
    function wire(address vault, address settlement, address demands, address audits, address court) external wiring {
        _setSource(vault, true);
        _setSource(court, true);
        _setMover(settlement, true);
        _setMover(demands, true);
        _setMover(audits, true);
    }

    /// @notice Let a new court move money, or an old one no longer. Governance, after a delay in which every dispute that is
    ///         open has ended and every staker can have left.
    function setMover(address who, bool allowed) external restricted {
        _setMover(who, allowed);
    }

    /// @notice Let another stake source bring what it slashes, or a new court the bonds of its disputes. Governance, after the same
    ///         delay.
    function setSource(address who, bool allowed) external restricted {
        _setSource(who, allowed);
    }

    /// @inheritdoc ILedger
    function take(bytes32 ref, address from, Source source) external payable {
        Rights memory own = _rights[msg.sender];
        if (!own.moves && !own.brings) revert NotAuthorised(msg.sender);
        _take(ref, msg.value);
        emit Taken(ref, from, msg.value, source);
    }

    /// @inheritdoc ILedger
    function credit(bytes32 ref, address account, uint256 amount, Reason reason) external onlyMovers {
        if (account == address(0)) revert CreditToZero(ref);
        if (amount == 0) return;
        _credit(ref, amount);
        (uint256 clock, uint256 hour) = _now();
        hour = _credits[account].enter(amount, clock, hour);
        emit Credited(account, amount, reason, ref, MaturityQueue.secondOf(hour));
    }

    /// @inheritdoc ILedger
    function creditEach(bytes32 ref, address[] calldata accounts, uint256 amount, Reason reason) external onlyMovers {
        if (amount == 0 || accounts.length == 0) return;
        _credit(ref, accounts.length * amount);
        (uint256 clock, uint256 hour) = _now();
        for (uint256 i = 0; i < accounts.length; ++i) {
            if (accounts[i] == address(0)) revert CreditToZero(ref);
            _credits[accounts[i]].enter(amount, clock, hour);
        }
        emit CreditedEach(ref, reason, MaturityQueue.secondOf(hour), amount, accounts);
    }

    /// @inheritdoc ILedger
    function burn(bytes32 ref, uint256 amount, BurnReason reason) external onlyMovers {
        _burnOf(ref, amount, reason);
    }

    /// @inheritdoc ILedger
    function close(bytes32 ref, BurnReason reason) external onlyMovers returns (uint256 burned) {
        burned = _pots[ref];
        _burnOf(ref, burned, reason);
    }

    /// @inheritdoc ILedger
    function advance(bytes32 ref, uint256 want) external onlyMovers returns (uint256 amount) {
        amount = _advance(ref, want);
        if (amount != 0) emit Advanced(ref, amount);
    }

    /// @inheritdoc ILedger
    function repay(bytes32 ref, uint256 amount) external onlyMovers {
        if (amount == 0) return;
        _repay(ref, amount);
        emit Repaid(ref, amount);
    }

    /// @inheritdoc ILedger
    function fund() external payable {
        _fund(msg.value);
        emit Funded(msg.sender, msg.value);
    }

    /// @inheritdoc ILedger
    function withdraw() external nonReentrant returns (uint256 amount) {
        if (GUARDIAN.pausedUntil() != 0) revert IGuardian.NotNow(true);
        MaturityQueue.Queue storage q = _credits[msg.sender];
        uint64 next;
        (amount, next) = q.due(GUARDIAN.clock());
        if (amount == 0) revert NothingDue(msg.sender, next);
        q.take(amount);
        _pay(amount);
        emit Withdrawn(msg.sender, amount);
        (bool ok,) = msg.sender.call{value: amount}("");
        if (!ok) revert PaymentRefused(msg.sender);
    }

    /// @notice Whether a contract moves money between pots, credit, treasury and the burned.
    function isMover(address who) external view returns (bool) {
        return _rights[who].moves;
    }

    /// @notice Whether a contract brings money into pots, and moves none.
    function isSource(address who) external view returns (bool) {
        return _rights[who].brings;
    }

    /// @inheritdoc ILedger
    function potOf(bytes32 ref) external view returns (uint256) {
        return _pots[ref];
    }

    /// @inheritdoc ILedger
    function totalPots() external view returns (uint256) {
        return _totalPots;
    }

    /// @inheritdoc ILedger
    function totalCredits() external view returns (uint256) {
        return _totalCredits;
    }

    /// @inheritdoc ILedger
    function treasury() external view returns (uint256) {
        return _treasury;
    }

    /// @inheritdoc ILedger
    function totalBurned() external view returns (uint256) {
        return _totalBurned;
    }

    /// @inheritdoc ILedger
    function creditOf(address account) external view returns (uint256) {
        return _credits[account].total();
    }

    /// @inheritdoc ILedger
    function dueOf(address account) external view returns (uint256 due, uint64 nextUnlockAt) {
        (due, nextUnlockAt) = _credits[account].due(GUARDIAN.clock());
        if (GUARDIAN.pausedUntil() != 0) due = 0;
    }

    /// @dev The protocol clock, and the hour in which matures what is credited now.
    function _now() private view returns (uint256 clock, uint256 hour) {
        clock = GUARDIAN.clock();
        hour = MaturityQueue.hourOf(clock, PARAMS.withdrawDelay());
    }

    function _burnOf(bytes32 ref, uint256 amount, BurnReason reason) private {
        if (amount == 0) return;
        _burn(ref, amount);
        emit Burned(amount, reason, ref);
    }

    function _setMover(address who, bool allowed) private {
        _rights[_nonZero(who)].moves = allowed;
        emit MoverSet(who, allowed);
    }

    function _setSource(address who, bool allowed) private {
        _rights[_nonZero(who)].brings = allowed;
        emit SourceSet(who, allowed);
    }
}
