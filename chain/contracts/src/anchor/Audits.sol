// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Blockhash} from "@openzeppelin/contracts/utils/Blockhash.sol";
import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";
import {MessageHashUtils} from "@openzeppelin/contracts/utils/cryptography/MessageHashUtils.sol";
import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {LabelLib} from "../libraries/LabelLib.sol";
import {AuditResult, Phase, Receipt, StructHashes, Verdict} from "../libraries/Types.sol";
import {IAudits} from "../interfaces/IAudits.sol";
import {IDisputes} from "../interfaces/IDisputes.sol";
import {IGuardian} from "../interfaces/IGuardian.sol";
import {IKeyEpochs} from "../interfaces/IKeyEpochs.sol";
import {ILedger} from "../interfaces/ILedger.sol";
import {IParams} from "../interfaces/IParams.sol";
import {IReceiptAnchor} from "../interfaces/IReceiptAnchor.sol";
import {IRegistry} from "../interfaces/IRegistry.sol";
import {IStakeSource} from "../interfaces/IStakeSource.sol";

/// @title Audits: what drawn verifiers found, and what they are paid for it
/// @dev The result of one verifier for one receipt:
///
///      NONE -post, inside the window-> POSTED (-post, by the verifier itself-> POSTED) -open, after the window-> OPENED -claim-> PAID
///
///      | transition | who pays   | what                              | to whom      |
///      |------------|------------|-----------------------------------|--------------|
///      | `feed`     | anybody    | what it sends; the fees of places | audit pool   |
///      | `claim`    | audit pool | `bounty`                          | the verifier |
///
///      Invariants (docs/reference/contracts.md, section 6):
///
///      I33 BOUNTY: A bounty is paid once, to a drawn verifier, for what a second one opened too and no verdict contradicts.
contract Audits is IAudits {
    uint256 private constant BPS = 10_000;
    /// @dev Nobody knows the hash of the second block after the batch when the batch is made (ADR-021).
    uint256 private constant BEACON_AFTER = 2;
    uint256 private constant HOUR = 3_600;
    uint256 private constant AGREEMENT = 2;
    uint8 private constant MATCH = 1;
    uint8 private constant NONE = 3;
    /// @notice The ledger's pot for bounties.
    bytes32 public constant POOL = keccak256("audits");

    /// @notice What this contract works with.
    struct Parts {
        IParams params;
        IGuardian guardian;
        IRegistry registry;
        IStakeSource vault;
        ILedger ledger;
        IKeyEpochs epochs;
        IReceiptAnchor anchor;
        IDisputes disputes;
    }

    struct Hour {
        uint64 number; // since 1970, protocol clock
        uint16 bounties;
    }

    /// @notice The network's parameters.
    IParams public immutable PARAMS;
    /// @notice The protocol clock.
    IGuardian public immutable GUARDIAN;
    /// @notice Verifiers and pools.
    IRegistry public immutable REGISTRY;
    /// @notice Where stakes are.
    IStakeSource public immutable VAULT;
    /// @notice Where the pool is.
    ILedger public immutable LEDGER;
    /// @notice Key epochs.
    IKeyEpochs public immutable EPOCHS;
    /// @notice Where receipts are anchored.
    IReceiptAnchor public immutable ANCHOR;
    /// @notice The court, under whose domain results are signed.
    IDisputes public immutable DISPUTES;

    mapping(bytes32 receiptId => mapping(address verifier => Audit)) private _audits;
    mapping(bytes32 receiptId => mapping(uint64 batchId => mapping(bytes32 outHash => uint256))) private _agreeing;
    mapping(address verifier => Hour) private _hours;

    constructor(Parts memory p) {
        (PARAMS, GUARDIAN, REGISTRY, VAULT) = (p.params, p.guardian, p.registry, p.vault);
        (LEDGER, EPOCHS, ANCHOR, DISPUTES) = (p.ledger, p.epochs, p.anchor, p.disputes);
    }

    /// @inheritdoc IAudits
    function post(AuditResult calldata a, bytes calldata sig, uint64 batchId) external {
        if (a.result == 0 || a.result > NONE) revert BadAuditResult(a.result);
        Audit storage audited = _audits[a.receiptId][a.verifier];
        // Anybody may bring a result, so also for a batch that the receipt is not in: its verifier puts that right.
        bool again = audited.result != 0 && (msg.sender != a.verifier || audited.outHash != 0);
        if (again) revert AlreadyAudited(a.receiptId, a.verifier);
        // The same for another batch shows nothing that the first did not: who was run ahead of may put that right at any time.
        bool same = audited.result == a.result && audited.commitment == a.commitment;
        if (!same) _checkUnseen(a.receiptId, audited.result != 0);
        IReceiptAnchor.Batch memory b = ANCHOR.batch(batchId);
        // Nobody audits what is not anchored yet, and watchers compare the time with windows.
        if (a.auditedAt < b.anchoredAt || a.auditedAt > block.timestamp) {
            revert BadAuditTime(a.auditedAt, b.anchoredAt);
        }
        _checkVerifier(a.verifier, b);
        _checkSigner(a, sig);
        if (!EPOCHS.isOpenForAudits(b.keyEpoch)) revert EpochNotOpen(b.keyEpoch);
        (uint256 clock, uint256 end) = (GUARDIAN.clock(), ANCHOR.windowEnd(a.receiptId, batchId));
        if (clock > end) revert WindowClosed(clock, end);
        if (!_isDrawn(a.receiptId, a.verifier, b)) revert NotDrawn(a.receiptId, a.verifier);
        (audited.batchId, audited.result, audited.commitment) = (batchId, a.result, a.commitment);
        emit AuditPosted(a.receiptId, a.verifier, batchId, a.result, a.commitment, a.auditedAt, sig);
    }

    /// @inheritdoc IAudits
    function open(bytes32 receiptId, address verifier, bytes32 tokensHash, bytes32 traceRoot, bytes32 salt) external {
        Audit storage a = _audited(receiptId, verifier);
        if (a.result == NONE) revert BadAuditResult(NONE);
        if (a.outHash != 0) revert AlreadyOpened(receiptId, verifier);
        (uint256 clock, uint256 end) = (GUARDIAN.clock(), ANCHOR.windowEnd(receiptId, a.batchId));
        if (clock <= end) revert WindowOpen(end);
        bytes32 commitment = commitmentOf(receiptId, verifier, tokensHash, traceRoot, salt);
        if (commitment != a.commitment) revert BadOpening(commitment, a.commitment);
        bytes32 outHash = StructHashes.outHash(tokensHash, traceRoot);
        (a.tokensHash, a.outHash) = (tokensHash, outHash);
        ++_agreeing[receiptId][a.batchId][outHash];
        emit AuditOpened(receiptId, verifier, outHash);
    }

    /// @inheritdoc IAudits
    function claim(Receipt calldata r, bytes calldata sig, bytes32[] calldata proof, address verifier) external {
        bytes32 id = ANCHOR.receiptId(r);
        Audit storage a = _audited(id, verifier);
        if (a.paid) revert AlreadyPaid(id, verifier);
        uint64 batchId = a.batchId;
        ANCHOR.checkMember(r, sig, batchId, proof);
        IReceiptAnchor.Batch memory b = ANCHOR.batch(batchId);
        if (b.isVoid) revert IReceiptAnchor.BatchIsVoid(batchId);
        // It is as good as void between the end of its demand and the call that says so.
        (, bytes32 list) = ANCHOR.demands().heldFor(batchId, 0);
        if (list != 0) revert IReceiptAnchor.DemandPending(list);
        _checkFound(id, verifier, a, r);
        a.paid = true;
        _limit(verifier);
        uint256 bounty = PARAMS.money(b.paramsVersion).bounty;
        if (pool() < bounty) revert PoolEmpty(pool(), bounty);
        LEDGER.credit(POOL, verifier, bounty, ILedger.Reason.BOUNTY);
        emit BountyPaid(id, verifier, bounty);
    }

    /// @inheritdoc IAudits
    function feed() external payable {
        LEDGER.take{value: msg.value}(POOL, msg.sender, ILedger.Source.FEE);
        emit PoolFed(msg.value, pool());
    }

    /// @inheritdoc IAudits
    function isDrawn(bytes32 receiptId, address verifier, uint64 batchId) external view returns (bool) {
        return _isDrawn(receiptId, verifier, ANCHOR.batch(batchId));
    }

    /// @inheritdoc IAudits
    function audit(bytes32 receiptId, address verifier) external view returns (Audit memory) {
        return _audits[receiptId][verifier];
    }

    /// @inheritdoc IAudits
    function agreeing(bytes32 receiptId, uint64 batchId, bytes32 outHash) external view returns (uint256) {
        return _agreeing[receiptId][batchId][outHash];
    }

    /// @inheritdoc IAudits
    function pool() public view returns (uint256) {
        return LEDGER.potOf(POOL);
    }

    /// @inheritdoc IAudits
    function hashAudit(AuditResult calldata a) public view returns (bytes32) {
        return MessageHashUtils.toTypedDataHash(DISPUTES.ROUNDS().domainSeparator(), StructHashes.audit(a));
    }

    /// @inheritdoc IAudits
    function commitmentOf(bytes32 receiptId, address verifier, bytes32 tokensHash, bytes32 traceRoot, bytes32 salt)
        public
        pure
        returns (bytes32)
    {
        return keccak256(abi.encode(receiptId, verifier, tokensHash, traceRoot, salt));
    }

    function _audited(bytes32 receiptId, address verifier) private view returns (Audit storage a) {
        a = _audits[receiptId][verifier];
        if (a.result == 0) revert NotAudited(receiptId, verifier);
    }

    /// @dev Two found it, it is what was posted, and it is right.
    function _checkFound(bytes32 id, address verifier, Audit storage a, Receipt calldata r) private view {
        bytes32 found = a.outHash;
        // Also as long as it has not been opened.
        if (_agreeing[id][a.batchId][found] < AGREEMENT) revert NobodyAgrees(id, found);
        // In both fields, which the operator signs apart.
        bool matches = found == r.outHash && a.tokensHash == r.tokensHash;
        if ((a.result == MATCH) != matches) revert ResultContradicted(id, verifier);
        (bool convicted, bytes32 replacement) = _convicted(id);
        if (!convicted && !matches) revert NotRight(id, found, r.outHash);
        if (convicted && found != replacement) revert NotRight(id, found, replacement);
    }

    /// @dev Whether a dispute convicted the receipt, and the output that it put in its place, or 0. Else what the receipt says is
    ///      right: that two verifiers say the same shows nothing when both are somebody's, so who is doubted waits for the court.
    function _convicted(bytes32 receiptId) private view returns (bool, bytes32) {
        (bytes32 dispute, Phase phase, Verdict verdict, bytes32 replacement) = DISPUTES.receiptStatus(receiptId);
        if (phase == Phase.NONE) return (false, 0);
        if (phase != Phase.FINAL) revert IReceiptAnchor.DisputePending(dispute);
        if (verdict == Verdict.OVERTURNED) return (true, replacement);
        return (verdict == Verdict.INVALID || verdict == Verdict.UNAVAILABLE, 0);
    }

    /// @dev Votes show what a request leads to, the first of them in the first REVEAL: from then on a result could be a copy.
    ///      A verifier's second, different result is refused with the dispute itself: it knew the answer when it brought the first.
    function _checkUnseen(bytes32 receiptId, bool again) private view {
        (bytes32 dispute, Phase phase,,) = DISPUTES.receiptStatus(receiptId);
        if (phase == Phase.NONE) return;
        if (again || phase >= Phase.REVEAL || DISPUTES.roundsOf(dispute) > 1) {
            revert AlreadyDisputed(receiptId, dispute);
        }
    }

    /// @dev In the pool that judges the environment, and there before the batch was.
    function _checkVerifier(address who, IReceiptAnchor.Batch memory b) private view {
        IRegistry.Verifier memory v = REGISTRY.verifier(who);
        if (v.pool == 0 || v.pool != REGISTRY.item(b.environment).pool || v.joinedAt > b.blockNumber) {
            revert NotVerifier(who);
        }
    }

    function _checkSigner(AuditResult calldata a, bytes calldata sig) private view {
        (address recovered, ECDSA.RecoverError err,) = ECDSA.tryRecoverCalldata(hashAudit(a), sig);
        if (err != ECDSA.RecoverError.NoError || recovered != a.verifier) revert BadSignature(recovered, a.verifier);
    }

    function _isDrawn(bytes32 receiptId, address who, IReceiptAnchor.Batch memory b) private view returns (bool) {
        uint256 beaconBlock = b.blockNumber + BEACON_AFTER;
        if (block.number <= beaconBlock) revert BeaconTooEarly(block.number, beaconBlock);
        bytes32 beacon = Blockhash.blockHash(beaconBlock);
        if (beacon == 0) revert BeaconExpired(beaconBlock);
        uint256 seats = VAULT.stakeAt(who, b.blockNumber) / PARAMS.money(b.paramsVersion).auditUnit;
        uint256 rate = PARAMS.shares(b.paramsVersion).auditRateBps;
        // drawn / 2^256 < rate * seats / BPS, without a rounding: the low word of drawn * BPS is the fraction.
        (uint256 high,) = Math.mul512(uint256(LabelLib.auditDraw(beacon, receiptId, who)), BPS);
        return high < rate * seats;
    }

    function _limit(address verifier) private {
        Hour storage h = _hours[verifier];
        uint64 now_ = uint64(GUARDIAN.clock() / HOUR);
        if (h.number != now_) (h.number, h.bounties) = (now_, 0);
        uint256 most = PARAMS.shares(PARAMS.version()).auditsPerHour;
        if (h.bounties >= most) revert RateLimited(verifier, uint64((now_ + 1) * HOUR));
        ++h.bounties;
    }
}
