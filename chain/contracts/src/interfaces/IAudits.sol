// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {AuditResult, Receipt} from "../libraries/Types.sol";

/// @title IAudits: results of light audits, and their bounties
/// @notice A result is posted inside its receipt's window by a verifier that the beacon drew. After the window its commitment
///         is opened; two verifiers that opened the same digest have a bounty each, as far as the pool reaches and at most
///         `auditsPerHour` for one verifier. What is committed to is more than the receipt says: only who ran the request has
///         the trace root, so nobody is paid for repeating the operator.
interface IAudits {
    struct Audit {
        uint64 batchId; // for which it was drawn
        uint8 result; // 1 match, 2 mismatch, 3 none; 0: no audit
        bool paid;
        bytes32 commitment;
        bytes32 outHash; // 0 until opened
        bytes32 tokensHash; // 0 until opened
    }

    event AuditPosted(
        bytes32 indexed receiptId,
        address indexed verifier,
        uint64 indexed batchId,
        uint8 result,
        bytes32 commitment,
        uint64 auditedAt,
        bytes signature
    );
    event AuditOpened(bytes32 indexed receiptId, address indexed verifier, bytes32 outHash);
    event BountyPaid(bytes32 indexed receiptId, address indexed verifier, uint256 amount);
    event PoolFed(uint256 amount, uint256 pool);

    error BadAuditResult(uint8 result);
    /// @notice A result from before its batch was anchored, or from the future.
    error BadAuditTime(uint64 auditedAt, uint64 anchoredAt);
    /// @notice The epoch of the batch is compromised or unknown: its receipts are not audited.
    error EpochNotOpen(uint64 keyEpoch);
    error NotVerifier(address who);
    error BadSignature(address recovered, address verifier);
    error AlreadyAudited(bytes32 receiptId, address verifier);
    /// @notice What the dispute of this receipt shows, or may show, a result could repeat.
    error AlreadyDisputed(bytes32 receiptId, bytes32 dispute);
    /// @notice The beacon did not draw this verifier for this receipt.
    error NotDrawn(bytes32 receiptId, address verifier);
    error BeaconTooEarly(uint256 now_, uint256 block_);
    error BeaconExpired(uint256 block_);
    error WindowClosed(uint256 now_, uint256 end);
    error WindowOpen(uint256 end);
    error NotAudited(bytes32 receiptId, address verifier);
    /// @notice What was opened is not what was posted: a match has the receipt's tokensHash and its outHash, a mismatch not both.
    error ResultContradicted(bytes32 receiptId, address verifier);
    /// @notice What was found is neither what the receipt says nor what a dispute has put in its place; not yet, perhaps. Found and
    ///         right are one where the tokensHash alone differs.
    error NotRight(bytes32 receiptId, bytes32 found, bytes32 right);
    error AlreadyOpened(bytes32 receiptId, address verifier);
    error BadOpening(bytes32 have, bytes32 want);
    error NobodyAgrees(bytes32 receiptId, bytes32 outHash);
    error AlreadyPaid(bytes32 receiptId, address verifier);
    error RateLimited(address verifier, uint64 until);
    error PoolEmpty(uint256 have, uint256 want);

    /// @notice Post a signed result, inside the receipt's window, of a verifier of the environment's pool that was drawn by the
    ///         stake it had when the batch was anchored. Anybody may bring it, once; the verifier itself again, until it is opened or
    ///         disputed, as the batch is not signed. Nothing is taken once a dispute may have shown a vote. That the receipt is in
    ///         the batch is proven by `claim`.
    function post(AuditResult calldata a, bytes calldata sig, uint64 batchId) external;
    /// @notice Open what a result committed to, after the window. Anybody who knows it.
    function open(bytes32 receiptId, address verifier, bytes32 tokensHash, bytes32 traceRoot, bytes32 salt) external;
    /// @notice Credit the bounty of an opened audit of a member of its batch, with which another verifier's agrees and which is
    ///         right: a match unless a dispute convicted the receipt, a mismatch when one put the same in the receipt's place.
    ///         While a dispute of the receipt runs nothing is paid for it, and for receipts of a void batch never.
    function claim(Receipt calldata r, bytes calldata sig, bytes32[] calldata proof, address verifier) external;
    /// @notice Feed the pool. Anybody; the fee market does.
    function feed() external payable;

    function hashAudit(AuditResult calldata a) external view returns (bytes32);
    /// @notice What a result commits to: keccak256(abi.encode(receiptId, verifier, tokensHash, traceRoot, salt)).
    function commitmentOf(bytes32 receiptId, address verifier, bytes32 tokensHash, bytes32 traceRoot, bytes32 salt)
        external
        pure
        returns (bytes32);
    /// @notice Whether the beacon draws `verifier`: SHA-256(label, beacon, receipt, verifier) < rate * seats of 2^256, beacon
    ///         the hash of the second block after the batch's. Reverts while there is none, or no longer.
    function isDrawn(bytes32 receiptId, address verifier, uint64 batchId) external view returns (bool);
    function audit(bytes32 receiptId, address verifier) external view returns (Audit memory);
    /// @notice Wei for bounties.
    function pool() external view returns (uint256);
    /// @notice Verifiers that opened this digest for this receipt in this batch.
    function agreeing(bytes32 receiptId, uint64 batchId, bytes32 outHash) external view returns (uint256);
}
