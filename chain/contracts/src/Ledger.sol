// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {ILedger} from "./interfaces/ILedger.sol";
import {Wired} from "./Wired.sol";

/// @title Ledger: pots, credits, burned
contract Ledger is ILedger, Wired, ReentrancyGuardTransient {
    /// @notice The only contract that may bring slashed stake.
    address public vault;
    /// @notice The dispute court.
    address public disputes;
    /// @notice The receipt anchor, which punishes equivocation.
    address public anchor;

    /// @inheritdoc ILedger
    mapping(address account => uint256) public creditOf;
    /// @inheritdoc ILedger
    mapping(bytes32 ref => uint256) public potOf;
    /// @inheritdoc ILedger
    uint256 public totalBonds;
    /// @inheritdoc ILedger
    uint256 public totalCredits;
    /// @inheritdoc ILedger
    uint256 public totalBurned;

    modifier onlyMovers() {
        if (msg.sender != disputes && msg.sender != anchor) revert NotAuthorised(msg.sender);
        _;
    }

    /// @notice Name the contracts that may move money. Once, by the deployer.
    function wire(address vault_, address disputes_, address anchor_) external wiring {
        vault = _nonZero(vault_);
        disputes = _nonZero(disputes_);
        anchor = _nonZero(anchor_);
    }

    /// @inheritdoc ILedger
    function takeBond(bytes32 ref, address from) external payable {
        if (msg.sender != disputes) revert NotAuthorised(msg.sender);
        _fill(ref);
        emit BondTaken(ref, from, msg.value);
    }

    /// @inheritdoc ILedger
    function takeSlash(bytes32 ref, address from) external payable {
        if (msg.sender != vault) revert NotAuthorised(msg.sender);
        _fill(ref);
        emit SlashTaken(ref, from, msg.value);
    }

    /// @inheritdoc ILedger
    function credit(bytes32 ref, address account, uint256 amount, Reason reason) external onlyMovers {
        if (account == address(0)) revert CreditToZero(ref);
        if (amount == 0) return;
        _drain(ref, amount);
        creditOf[account] += amount;
        totalCredits += amount;
        emit Credited(account, amount, reason, ref);
    }

    /// @inheritdoc ILedger
    function burn(bytes32 ref, uint256 amount, BurnReason reason) external onlyMovers {
        _burn(ref, amount, reason);
    }

    /// @inheritdoc ILedger
    function close(bytes32 ref, BurnReason reason) external onlyMovers returns (uint256 burned) {
        burned = potOf[ref];
        _burn(ref, burned, reason);
    }

    /// @inheritdoc ILedger
    function withdraw() external nonReentrant returns (uint256 amount) {
        amount = creditOf[msg.sender];
        if (amount == 0) revert NothingDue(msg.sender);
        creditOf[msg.sender] = 0;
        totalCredits -= amount;
        emit Withdrawn(msg.sender, amount);
        (bool ok,) = msg.sender.call{value: amount}("");
        if (!ok) revert PaymentRefused(msg.sender);
    }

    function _fill(bytes32 ref) private {
        potOf[ref] += msg.value;
        totalBonds += msg.value;
    }

    function _drain(bytes32 ref, uint256 amount) private {
        uint256 have = potOf[ref];
        if (have < amount) revert PotTooSmall(ref, have, amount);
        potOf[ref] = have - amount;
        totalBonds -= amount;
    }

    function _burn(bytes32 ref, uint256 amount, BurnReason reason) private {
        if (amount == 0) return;
        _drain(ref, amount);
        totalBurned += amount;
        emit Burned(amount, reason, ref);
    }
}
