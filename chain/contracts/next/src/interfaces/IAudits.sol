// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {AuditResult} from "../Types.sol";

/// @title IAudits: results of light audits, and their bounties
/// @notice A result is posted inside its receipt's window by a verifier that the beacon drew. After the window its commitment
///         is opened; two verifiers that opened the same digest have a bounty each, as far as the pool reaches and at most
///         `auditsPerHour` for one verifier.
interface IAudits {
    event AuditPosted(
        bytes32 indexed receiptId,
        address indexed verifier,
        uint8 result,
        bytes32 commitment,
        uint64 auditedAt,
        bytes signature
    );
    event AuditOpened(bytes32 indexed receiptId, address indexed verifier, bytes32 outHash);
    event BountyPaid(bytes32 indexed receiptId, address indexed verifier, uint256 amount);
    event PoolFed(uint256 amount, uint256 pool);

    error BadAuditResult(uint8 result);
    error NotVerifier(address who);
    error BadSignature(address recovered, address verifier);
    error AlreadyAudited(bytes32 receiptId, address verifier);
    /// @notice The beacon did not draw this verifier for this receipt.
    error NotDrawn(bytes32 receiptId, address verifier);
    error BeaconTooEarly(uint256 now_, uint256 block_);
    error BeaconExpired(uint256 block_);
    error WindowClosed(uint256 now_, uint256 end);
    error WindowOpen(uint256 end);
    error NotAudited(bytes32 receiptId, address verifier);
    error AlreadyOpened(bytes32 receiptId, address verifier);
    error BadOpening(bytes32 have, bytes32 want);
    error NobodyAgrees(bytes32 receiptId, bytes32 outHash);
    error AlreadyPaid(bytes32 receiptId, address verifier);
    error RateLimited(address verifier, uint64 until);
    error PoolEmpty(uint256 have, uint256 want);

    /// @notice Post a signed result. Anybody may bring it.
    function post(AuditResult calldata a, bytes calldata sig, uint64 batchId) external;
    /// @notice Open what a result committed to: commitment == keccak256(abi.encode(receiptId, verifier, outHash, salt)).
    function open(bytes32 receiptId, address verifier, bytes32 outHash, bytes32 salt) external;
    /// @notice Credit the bounty of an opened audit with which another verifier's agrees.
    function claim(bytes32 receiptId, address verifier) external;
    /// @notice Feed the pool. Anybody; the fee market does.
    function feed() external payable;

    function hashAudit(AuditResult calldata a) external view returns (bytes32);
    function pool() external view returns (uint256);
    function agreeing(bytes32 receiptId, bytes32 outHash) external view returns (uint256);
}
