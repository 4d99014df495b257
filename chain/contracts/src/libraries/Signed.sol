// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @title The structs that Solidity and Python share, and their exact EIP-712 hashes (design sections 4, 8, 9)
/// @dev Every signed struct is made of static fields only, so `abi.encode(TYPEHASH, s)` is `hashStruct`'s preimage.

/// @notice The public record of one answer. Signed by the operator under `ReceiptAnchor`.
struct Receipt {
    address operator; // who served, and whose stake answers for it
    uint64 seq; // the operator's own counter; contiguous over its batches
    bytes32 reqHash; // digest of the private Request
    bytes32 tokensHash; // digest of the private Output; compared beside outHash, with which the operator signs it apart
    bytes32 outHash; // keccak256(abi.encode(tokensHash, traceRoot)): tokens and the computation that led to them
    bytes32 modelId; // digest of the converted artifact
    bytes32 environment; // digest of the registered environment
    bytes32 gpuArch; // recorded for forensics under exact-1
    uint64 keyEpoch; // epoch whose public key sealed the envelope
    bytes32 envelopeHash; // digest of the sealed (Request, Output)
    uint64 issuedAt; // operator's word, unix seconds; never starts a window
    uint64 anchorBy; // unix seconds by which the operator promised to anchor
    uint8 mode; // plain or tee
    uint8 clientMode; // signed or delegated
    address enclaveKey; // co-signing enclave in mode tee, else zero
    uint256 chainId; // must be this chain
}

/// @notice A number that was lost in a crash, anchored so that numbers stay contiguous.
struct EmptyLeaf {
    address operator;
    uint64 seq;
    uint256 chainId;
}

/// @notice What a seat owner commits to and later reveals. `seatMask` has one bit per drawn seat.
struct Vote {
    bytes32 dispute;
    uint16 round; // first round is 1
    address voter;
    uint256 seatMask;
    uint8 outcome; // see Outcome
    uint8 code; // reason of INVALID or CANNOT_EXECUTE, else 0
    bytes32 tokensHash; // EXECUTED only, else 0
    bytes32 traceRoot; // EXECUTED only, else 0
    bytes32 roundDigest; // EXECUTED only, else 0
    bytes32 quoteHash; // keccak256 of the quote published with the reveal
    bytes32 salt;
}

/// @notice The public result of one light audit.
struct AuditResult {
    bytes32 receiptId;
    address verifier;
    uint8 result; // 1 match, 2 mismatch, 3 none
    bytes32 commitment; // salted; opened after the window or in a dispute
    uint64 auditedAt;
}

/// @notice What the signers of a verdict certificate all say: a revealed vote without voter, seats, quote and salt.
struct Finding {
    bytes32 dispute;
    uint16 round; // first round is 1
    uint8 outcome; // see Outcome
    uint8 code; // reason of INVALID or CANNOT_EXECUTE, else 0
    bytes32 tokensHash; // EXECUTED only, else 0
    bytes32 traceRoot; // EXECUTED only, else 0
    bytes32 roundDigest; // EXECUTED only, else 0
}

/// @notice What signers of a verdict certificate sign: a finding, under the commitments that were collected before it, for
///         exactly these seats: nobody can be added to what others signed, or left out of it.
struct Certified {
    bytes32 finding; // EIP-712 struct hash of the Finding
    bytes32 commitRoot; // posted before anybody revealed
    uint256 signers; // mask of seats
}

/// @notice What a BLS key signs to prove that it is held by an account.
struct Possession {
    address account;
    bytes32 keyHash; // keccak256 of the key's 128 bytes
}

/// @notice What a seat found. A seat's outcome follows from receipt, envelope bytes and environment alone.
enum Outcome {
    NONE,
    EXECUTED,
    INVALID,
    UNAVAILABLE,
    NO_KEY,
    CANNOT_EXECUTE
}

/// @title EIP-712 struct hashes; the owning contract adds its domain
library StructHashes {
    bytes32 internal constant RECEIPT = keccak256(
        "Receipt(address operator,uint64 seq,bytes32 reqHash,bytes32 tokensHash,bytes32 outHash,bytes32 modelId,bytes32 environment,bytes32 gpuArch,uint64 keyEpoch,bytes32 envelopeHash,uint64 issuedAt,uint64 anchorBy,uint8 mode,uint8 clientMode,address enclaveKey,uint256 chainId)"
    );
    bytes32 internal constant EMPTY_LEAF = keccak256("EmptyLeaf(address operator,uint64 seq,uint256 chainId)");
    bytes32 internal constant VOTE = keccak256(
        "Vote(bytes32 dispute,uint16 round,address voter,uint256 seatMask,uint8 outcome,uint8 code,bytes32 tokensHash,bytes32 traceRoot,bytes32 roundDigest,bytes32 quoteHash,bytes32 salt)"
    );
    bytes32 internal constant AUDIT_RESULT =
        keccak256("AuditResult(bytes32 receiptId,address verifier,uint8 result,bytes32 commitment,uint64 auditedAt)");
    bytes32 internal constant FINDING = keccak256(
        "Finding(bytes32 dispute,uint16 round,uint8 outcome,uint8 code,bytes32 tokensHash,bytes32 traceRoot,bytes32 roundDigest)"
    );
    bytes32 internal constant CERTIFIED = keccak256("Certified(bytes32 finding,bytes32 commitRoot,uint256 signers)");
    bytes32 internal constant POSSESSION = keccak256("Possession(address account,bytes32 keyHash)");

    function receipt(Receipt memory r) internal pure returns (bytes32) {
        return keccak256(abi.encode(RECEIPT, r));
    }

    function emptyLeaf(EmptyLeaf memory e) internal pure returns (bytes32) {
        return keccak256(abi.encode(EMPTY_LEAF, e));
    }

    function vote(Vote memory v) internal pure returns (bytes32) {
        return keccak256(abi.encode(VOTE, v));
    }

    function audit(AuditResult memory a) internal pure returns (bytes32) {
        return keccak256(abi.encode(AUDIT_RESULT, a));
    }

    function finding(Finding memory f) internal pure returns (bytes32) {
        return keccak256(abi.encode(FINDING, f));
    }

    function certified(Certified memory c) internal pure returns (bytes32) {
        return keccak256(abi.encode(CERTIFIED, c));
    }

    function possession(Possession memory p) internal pure returns (bytes32) {
        return keccak256(abi.encode(POSSESSION, p));
    }

    /// @notice Tokens and the computation that led to them. Equal to a receipt is what has its tokensHash and its outHash.
    function outHash(bytes32 tokensHash, bytes32 traceRoot) internal pure returns (bytes32) {
        return keccak256(abi.encode(tokensHash, traceRoot));
    }

    /// @notice Both of what a receipt claims in one word: another tokensHash beside the true outHash is a lie too.
    function claim(bytes32 tokensHash, bytes32 outHash_) internal pure returns (bytes32) {
        return keccak256(abi.encode(tokensHash, outHash_));
    }

    /// @notice Leaf of a batch tree. Hashed twice, so that no inner node can pose as a leaf.
    function batchLeaf(bytes32 id, uint64 seq) internal pure returns (bytes32) {
        return keccak256(bytes.concat(keccak256(abi.encode(id, seq))));
    }
}
