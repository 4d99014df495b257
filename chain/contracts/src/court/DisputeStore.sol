// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {AccessManaged} from "@openzeppelin/contracts/access/manager/AccessManaged.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {IRandaoSource} from "../interfaces/IRandaoSource.sol";
import {IStakeTree} from "../interfaces/IStakeTree.sol";
import {BreakerLib} from "../libraries/BreakerLib.sol";
import {Certifier} from "./Certifier.sol";
import {ICourt} from "../interfaces/ICourt.sol";
import {IGuardian} from "../interfaces/IGuardian.sol";
import {IParams} from "../interfaces/IParams.sol";
import {IReceiptAnchor} from "../interfaces/IReceiptAnchor.sol";
import {IRegistry} from "../interfaces/IRegistry.sol";
import {ISettlement} from "../interfaces/ISettlement.sol";
import {SeatsLib} from "../libraries/SeatsLib.sol";
import {TallyLib} from "../libraries/TallyLib.sol";
import {Outcome, Phase, Verdict} from "../libraries/Types.sol";

/// @title DisputeStore: the court's storage, packed by what is read together, and what follows from it
/// @dev What can be computed from what is stored, or read where it is kept already, is not stored a second time.
abstract contract DisputeStore is ICourt, EIP712, AccessManaged {
    using SeatsLib for uint256;

    /// @notice Contracts that the court works with.
    struct Parts {
        address authority;
        IParams params;
        IRegistry registry;
        IReceiptAnchor anchor;
        ISettlement settlement;
        IGuardian guardian;
        IRandaoSource randomness;
        Certifier certifier;
    }

    struct Case {
        // What every step reads.
        IStakeTree tree; // of the environment's pool
        Phase phase;
        uint8 level;
        uint16 round;
        uint8 reruns;
        uint32 paramsVersion;
        Verdict verdict;
        Verdict appealed; // the verdict that was appealed; NONE: none was
        bool knew; // the challenger showed that it knew what the verdict says
        // Who.
        address challenger;
        uint48 batchId;
        uint48 index; // in `_receipts`
        bytes32 claimedTokens; // tokensHash of the receipt
        bytes32 claimed; // its outHash
        bytes32 altCommit; // the challenger's
        // When, and why.
        uint40 openedAt;
        uint40 appealEnd;
        uint40 airgapEnd;
        uint16 decidedIn; // the round whose verdict stands
        bool mixed;
    }

    /// @dev Seats of votes that agree in everything.
    struct Group {
        uint8 seats; // of those that revealed directly
        Outcome outcome;
    }

    /// @dev What a commit root is to a round.
    enum Root {
        NONE, // not posted
        FIRST, // the first that was: members open their commitments under it
        LATER // certificates name it, nobody opens under it
    }

    struct RoundData {
        uint40 seedBlock;
        uint40 commitEnd; // 0 before the draw
        uint40 revealEnd;
        uint8 seats;
        uint8 drawn;
        uint8 level;
        uint8 rearms;
        bool settled;
        bool rooted; // a commit root was posted
        Outcome certified; // what the certificate found; NONE without one
        uint8 equal; // these as in `Tally`
        uint8 lead;
        uint8 unavailable;
        uint8 noKey;
        uint8 cannotExecute;
        Outcome leadOutcome;
        uint8 leadCode;
        uint256 committed; // mask of seats
        uint256 opened; // mask of seats that revealed directly
        uint256 certifiedMask; // of seats that the certificate counts for
        bytes32 certifiedGroup;
        bytes32 leadOutHash;
        bytes32 committee;
        uint256[16] places; // `SeatsLib`
        mapping(uint256 firstSeat => bytes32) words; // of a member: sealed commitment, then group
        mapping(bytes32 group => Group) groups;
        mapping(bytes32 key => bytes32) largest; // group; the first that got so large
        mapping(bytes32 root => Root) roots;
    }

    /// @notice keccak256 of the encoded parts: the two halves of the court work with the same.
    bytes32 public immutable PARTS;
    IParams public immutable PARAMS;
    IRegistry public immutable REGISTRY;
    IReceiptAnchor public immutable ANCHOR;
    ISettlement public immutable SETTLEMENT;
    IGuardian public immutable GUARDIAN;
    IRandaoSource public immutable RANDOMNESS;
    Certifier public immutable CERTIFIER;
    uint256 internal immutable SHORTEST;

    bytes32[] internal _receipts;
    mapping(bytes32 id => Case) internal _cases;
    mapping(bytes32 id => mapping(uint16 round => RoundData)) internal _rounds;
    mapping(bytes32 environment => BreakerLib.Entry[]) internal _convicted;
    mapping(bytes32 environment => BreakerLib.Entry[]) internal _drawn;
    mapping(bytes32 environment => bool) internal _held;

    /// @dev A pause stops what the clock alone would not.
    modifier running() {
        if (GUARDIAN.pausedUntil() > block.timestamp) revert IGuardian.NotNow(true);
        _;
    }

    constructor(Parts memory parts) EIP712("Bytewise", "1") AccessManaged(parts.authority) {
        PARTS = keccak256(abi.encode(parts));
        PARAMS = parts.params;
        REGISTRY = parts.registry;
        ANCHOR = parts.anchor;
        SETTLEMENT = parts.settlement;
        GUARDIAN = parts.guardian;
        RANDOMNESS = parts.randomness;
        CERTIFIER = parts.certifier;
        SHORTEST = parts.randomness.SHORTEST();
    }

    function _idOf(bytes32 receiptId) internal view returns (bytes32) {
        return keccak256(abi.encode(block.chainid, address(this), receiptId));
    }

    function _phaseOf(bytes32 id) internal view returns (Phase) {
        Case storage d = _cases[id];
        uint40 now_ = _clock();
        if (d.phase == Phase.COMMIT && now_ > _rounds[id][d.round].commitEnd) return Phase.REVEAL;
        if (d.phase == Phase.APPEAL && now_ > d.appealEnd) return Phase.AIRGAP;
        return d.phase;
    }

    function _tallyOf(RoundData storage r) internal view returns (Tally memory t) {
        if (r.commitEnd == 0) return t;
        (t.equal, t.lead, t.unavailable) = (r.equal, r.lead, r.unavailable);
        (t.noKey, t.cannotExecute) = (r.noKey, r.cannotExecute);
        (uint256 committed, uint256 revealed) = (r.committed, _revealed(r));
        // Safe: at most 255 seats.
        t.notRevealed = uint16((committed & ~revealed).size());
        t.absent = uint16(r.seats - (committed | revealed).size());
        if (r.lead == 0) return t;
        t.leadKey = _leadKey(r);
        t.leadOutHash = r.leadOutHash;
        t.leadVerdict = r.leadOutcome == Outcome.INVALID ? Verdict.INVALID : Verdict.OVERTURNED;
    }

    function _clock() internal view returns (uint40) {
        return SafeCast.toUint40(GUARDIAN.clock());
    }

    /// @dev The clock, for what a pause stops: instead of `running` where the time is needed anyway.
    function _runningClock() internal view returns (uint40) {
        return SafeCast.toUint40(GUARDIAN.runningClock());
    }

    function _inPhase(bytes32 id, Phase want) internal view returns (Case storage d) {
        d = _cases[id];
        if (d.phase != want) revert WrongPhase(id, _phaseOf(id), want);
    }

    /// @dev Mask of seats whose vote is known, directly or by certificate.
    function _revealed(RoundData storage r) internal view returns (uint256) {
        return r.certified == Outcome.NONE ? r.opened : r.opened | r.certifiedMask;
    }

    /// @dev Reveals end early once nothing more can come. Of whom a root stands for nobody knows: each seat may still open.
    function _revealsClosed(RoundData storage r, uint40 now_) internal view returns (bool) {
        if (now_ > r.revealEnd) return true;
        uint256 revealed = _revealed(r);
        if (revealed == SeatsLib.first(r.seats)) return true;
        return r.committed & ~revealed == 0 && !r.rooted;
    }

    /// @dev Seats of a group, those of the certificate included.
    function _sizeOf(RoundData storage r, bytes32 group) internal view returns (uint256 seats) {
        if (group == bytes32(0)) return 0;
        seats = r.groups[group].seats;
        if (r.certified != Outcome.NONE && group == r.certifiedGroup) seats += r.certifiedMask.size();
    }

    function _leadKey(RoundData storage r) internal view returns (bytes32) {
        return r.lead == 0 ? bytes32(0) : TallyLib.keyOf(r.leadOutcome, r.leadCode, r.leadOutHash);
    }

    /// @dev What the standing verdict says, and in a mixed UNAVAILABLE the leading fault that was right too. 0: nothing.
    function _keysOf(bytes32 id, Case storage d) internal view returns (bytes32 key, bytes32 second) {
        Verdict v = d.verdict;
        if (v == Verdict.UPHELD) return (TallyLib.keyOf(Outcome.EXECUTED, 0, d.claimed), 0);
        if (v == Verdict.OVERTURNED || v == Verdict.INVALID) return (_leadKey(_rounds[id][d.decidedIn]), 0);
        if (v != Verdict.UNAVAILABLE) return (0, 0);
        return (TallyLib.keyOf(Outcome.UNAVAILABLE, 0, 0), d.mixed ? _leadKey(_rounds[id][d.decidedIn]) : bytes32(0));
    }

    /// @dev The output that replaces the claim, or 0.
    function _replacementOf(bytes32 id, Case storage d) internal view returns (bytes32) {
        return d.verdict == Verdict.OVERTURNED ? _rounds[id][d.decidedIn].leadOutHash : bytes32(0);
    }
}
