// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {TallyLib} from "../libraries/TallyLib.sol";
import {Committee, Phase, Receipt, StructHashes, Verdict} from "../libraries/Types.sol";
import {Wired} from "../libraries/Wired.sol";
import {IBreaker} from "../interfaces/IBreaker.sol";
import {IDisputes} from "../interfaces/IDisputes.sol";
import {IGuardian} from "../interfaces/IGuardian.sol";
import {IParams} from "../interfaces/IParams.sol";
import {IRandaoSource} from "../interfaces/IRandaoSource.sol";
import {IReceiptAnchor} from "../interfaces/IReceiptAnchor.sol";
import {IRegistry} from "../interfaces/IRegistry.sol";
import {IRounds} from "../interfaces/IRounds.sol";
import {ISettlement} from "../interfaces/ISettlement.sol";
import {IStakeTree} from "../interfaces/IStakeTree.sol";

/// @title Disputes: a case from a questioned receipt to its end
/// @dev NONE -open-> SEED -draw-> (DRAWING -draw->) COMMIT -time-> REVEAL -settle-> APPEAL -time-> AIRGAP -finalize-> FINAL.
///      settle also leads to SEED (a rerun, or the next level) or, on the last level, to AIRGAP. appeal leads from APPEAL to
///      SEED. rearm leads from SEED or DRAWING to SEED, after the third to AIRGAP. refund leads from APPEAL or AIRGAP to FINAL.
///      Money: `open` and `appeal` hand the bond that was sent to `Settlement`; everything else moves there.
///      No function calls an account that is not a contract of this deployment: payments are pulled from the ledger.
///      What can be computed from what is stored, or read where it is kept already, is not stored a second time.
contract Disputes is IDisputes {
    /// @notice Contracts that the court works with.
    struct Parts {
        IParams params;
        IRegistry registry;
        IReceiptAnchor anchor;
        ISettlement settlement;
        IGuardian guardian;
        IRandaoSource randomness;
        IRounds rounds;
        IBreaker breaker;
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
        uint40 openedAt;
        bytes32 altCommit;
        // Written with the first verdict.
        uint40 appealEnd;
        uint40 airgapEnd;
        uint16 decidedIn; // the round whose verdict stands
        bool mixed;
    }

    uint8 private constant MAX_REARMS = 3;

    IParams public immutable PARAMS;
    IRegistry public immutable REGISTRY;
    IReceiptAnchor public immutable ANCHOR;
    ISettlement public immutable SETTLEMENT;
    IGuardian public immutable GUARDIAN;
    IRandaoSource public immutable RANDOMNESS;
    /// @inheritdoc IDisputes
    IRounds public immutable ROUNDS;
    IBreaker public immutable BREAKER;
    uint256 private immutable SHORTEST;
    uint256 private immutable LONGEST;

    mapping(bytes32 id => Case) private _cases;

    /// @dev A pause stops what the clock alone would not.
    modifier running() {
        if (GUARDIAN.pausedUntil() > block.timestamp) revert IGuardian.NotNow(true);
        _;
    }

    constructor(Parts memory parts) {
        PARAMS = parts.params;
        REGISTRY = parts.registry;
        ANCHOR = parts.anchor;
        SETTLEMENT = parts.settlement;
        GUARDIAN = parts.guardian;
        RANDOMNESS = parts.randomness;
        ROUNDS = parts.rounds;
        BREAKER = parts.breaker;
        (SHORTEST, LONGEST) = (parts.randomness.SHORTEST(), parts.randomness.LONGEST());
    }

    // --- from a receipt to a seated committee ---

    /// @inheritdoc IDisputes
    function open(Receipt calldata r, bytes calldata sig, uint64 batchId, bytes32[] calldata proof, bytes32 altCommit)
        external
        payable
        returns (bytes32 id)
    {
        IReceiptAnchor.Question memory q = ANCHOR.question(r, sig, batchId, proof);
        id = disputeId(q.receiptId);
        Case storage d = _cases[id];
        if (d.phase != Phase.NONE) revert AlreadyDisputed(q.receiptId, id);
        if (msg.sender == r.operator) revert OwnReceipt(r.operator);
        if (altCommit == bytes32(0)) revert EmptyAltCommit();
        _file(d, q, batchId, altCommit);
        emit DisputeOpened(id, q.receiptId, q.operator, msg.sender, batchId, altCommit);
        _startFirst(id, d, r);
        SETTLEMENT.opened{value: msg.value}(id, q.operator, msg.sender, q.paramsVersion);
    }

    /// @inheritdoc IDisputes
    /// @dev In a pause too: a seed is lost with its epoch, and a guardian who dislikes a committee could wait for that. Its members
    ///      have all of their time when the clock goes on.
    function draw(bytes32 id, uint256 count, bytes calldata header) external {
        Case storage d = _cases[id];
        if (d.phase != Phase.DRAWING) d = _inPhase(id, Phase.SEED);
        (uint40 seedBlock, uint8 seats, uint8 from,) = ROUNDS.seatingOf(id, d.round);
        uint256 left = seats - from;
        if (count > left) count = left;
        if (count == 0) revert NoProgress(id);
        bytes32 seed = RANDOMNESS.seedOf(seedBlock, header);
        uint16[] memory places = _drawPlaces(id, d, seed, seedBlock, from, count);
        emit SeatsDrawn(id, d.round, from, places);
        if (count < left) {
            d.phase = Phase.DRAWING;
            ROUNDS.seat(id, d.round, from, places, 0, 0, bytes32(0));
        } else {
            (uint40 commitEnd, uint40 revealEnd, bytes32 roundSeed) = _openCommits(id, d, seed);
            ROUNDS.seat(id, d.round, from, places, commitEnd, revealEnd, roundSeed);
        }
    }

    /// @inheritdoc IDisputes
    function rearm(bytes32 id) external running {
        Case storage d = _cases[id];
        if (d.phase != Phase.DRAWING) d = _inPhase(id, Phase.SEED);
        (uint40 seedBlock, uint8 seats,, uint8 rearms) = ROUNDS.seatingOf(id, d.round);
        if (!d.tree.isOver(seedBlock) && !RANDOMNESS.isExpired(seedBlock)) revert SeedReadable(id, seedBlock);
        if (rearms == MAX_REARMS) return _endUndecided(id, d);
        d.phase = Phase.SEED;
        seedBlock = _seedBlock(d);
        emit SeedNamed(id, d.round, d.level, seats, seedBlock, rearms + 1);
        ROUNDS.rearm(id, d.round, seedBlock);
    }

    // --- verdict and end ---

    /// @inheritdoc IDisputes
    function settle(bytes32 id) external running {
        Case storage d = _inPhase(id, Phase.COMMIT);
        uint16 round = d.round;
        (IRounds.Tally memory t, uint8 seats) = ROUNDS.close(id, round);
        Committee memory c = PARAMS.committee(d.paramsVersion);
        uint256 quorum = PARAMS.quorum(d.paramsVersion, seats);
        TallyLib.Judgement memory j = TallyLib.judge(t, quorum);
        emit Settled(id, round, j.verdict, t);
        if (j.verdict != Verdict.NONE) {
            (d.decidedIn, d.mixed, d.knew) = (round, j.mixed, false);
            _decide(id, d, j.verdict, d.level < c.rounds && d.appealed == Verdict.NONE);
        } else if (t.noKey > seats - quorum && d.reruns < c.maxReruns) {
            d.reruns += 1;
            _startRound(id, d, d.level, 0);
        } else if (d.level < c.rounds) {
            SETTLEMENT.advance(id, c.seats[d.level]);
            _startRound(id, d, d.level + 1, 0);
        } else {
            _endUndecided(id, d);
            if (d.verdict != Verdict.DRAW) return;
            IReceiptAnchor.Batch memory batch = ANCHOR.batch(d.batchId);
            BREAKER.noteDraw(id, batch.environment, batch.operator, d.paramsVersion);
        }
    }

    /// @inheritdoc IDisputes
    function appeal(bytes32 id) external payable {
        Case storage d = _cases[id];
        if (d.appealed != Verdict.NONE) revert AlreadyAppealed(id);
        _inPhase(id, Phase.APPEAL);
        uint40 now_ = _clock();
        if (now_ > d.appealEnd) revert TooLate(now_, d.appealEnd);
        uint256 bond = appealBond(id);
        if (msg.value != bond) revert BondMismatch(msg.value, bond);
        d.appealed = d.verdict;
        emit Appealed(id, msg.sender, bond);
        _startRound(id, d, d.level + 1, 0);
        SETTLEMENT.appealed{value: bond}(id, msg.sender);
    }

    /// @inheritdoc IDisputes
    function openAlt(bytes32 id, bytes32 salt) external {
        Case storage d = _cases[id];
        if (d.phase != Phase.AIRGAP) d = _inPhase(id, Phase.APPEAL);
        uint40 now_ = _clock();
        if (now_ > d.airgapEnd) revert TooLate(now_, d.airgapEnd);
        (bytes32 key,) = _keysOf(id, d);
        (bytes32 have, bytes32 want) = (altCommitOf(id, d.challenger, key, salt), d.altCommit);
        if (key == bytes32(0) || have != want) revert BadAlt(have, want);
        if (d.knew) revert NoProgress(id);
        d.knew = true;
        emit AltOpened(id, d.challenger);
    }

    /// @inheritdoc IDisputes
    function finalize(bytes32 id) external running {
        Case storage d = _cases[id];
        if (phaseOf(id) != Phase.AIRGAP) revert WrongPhase(id, phaseOf(id), Phase.AIRGAP);
        uint40 now_ = _clock();
        if (now_ <= d.airgapEnd) revert TooEarly(now_, uint256(d.airgapEnd) + 1);
        // Lies trip the breaker, and what it holds is every slash: an environment that is at fault lets honest operators be found
        // withholding and malformed, too.
        if (d.verdict == Verdict.OVERTURNED || d.verdict == Verdict.INVALID || d.verdict == Verdict.UNAVAILABLE) {
            bytes32 environment = ANCHOR.batch(d.batchId).environment;
            if (BREAKER.isHeld(environment)) revert Held(environment);
        }
        _end(id, d, d.appealed != Verdict.NONE && d.appealed != d.verdict);
    }

    /// @inheritdoc IDisputes
    function refund(bytes32 id) external {
        if (msg.sender != address(GUARDIAN)) revert Wired.NotAuthorised(msg.sender);
        Case storage d = _cases[id];
        if (d.phase != Phase.AIRGAP) d = _inPhase(id, Phase.APPEAL);
        d.verdict = Verdict.REFUNDED;
        _end(id, d, false);
    }

    // --- views ---

    /// @inheritdoc IDisputes
    function dispute(bytes32 id) external view returns (Dispute memory out) {
        Case storage d = _cases[id];
        if (d.phase == Phase.NONE) return out;
        IReceiptAnchor.Batch memory batch = ANCHOR.batch(d.batchId);
        out.claim = ROUNDS.claimOf(id);
        (out.environment, out.operator, out.keyEpoch) = (batch.environment, batch.operator, batch.keyEpoch);
        (out.challenger, out.batchId, out.openedAt) = (d.challenger, d.batchId, d.openedAt);
        (out.paramsVersion, out.phase, out.level) = (d.paramsVersion, d.phase, d.level);
        (out.round, out.reruns, out.verdict) = (d.round, d.reruns, d.verdict);
        (out.appealed, out.refunded) = (d.appealed != Verdict.NONE, d.verdict == Verdict.REFUNDED);
        (out.appealEnd, out.airgapEnd) = (d.appealEnd, d.airgapEnd);
        (out.key, out.secondKey) = _keysOf(id, d);
        out.replacement = _replacementOf(id, d);
    }

    /// @inheritdoc IDisputes
    function standpointOf(bytes32 id) external view returns (Standpoint memory) {
        Case storage d = _cases[id];
        return Standpoint(d.tree, d.phase, d.verdict, d.decidedIn, d.mixed);
    }

    /// @inheritdoc IDisputes
    function votingOf(bytes32 id) external view returns (IStakeTree, uint16, uint32) {
        Case storage d = _cases[id];
        return (d.tree, d.round, d.paramsVersion);
    }

    /// @inheritdoc IDisputes
    function roundsOf(bytes32 id) external view returns (uint16) {
        return _cases[id].round;
    }

    /// @inheritdoc IDisputes
    function challengerOf(bytes32 id) external view returns (address, bool) {
        return (_cases[id].challenger, _cases[id].knew);
    }

    /// @inheritdoc IDisputes
    function receiptStatus(bytes32 receiptId)
        external
        view
        returns (bytes32 id, Phase phase, Verdict verdict, bytes32 replacement)
    {
        id = disputeId(receiptId);
        Case storage d = _cases[id];
        return (id, phaseOf(id), d.verdict, _replacementOf(id, d));
    }

    /// @inheritdoc IDisputes
    function isSettleable(bytes32 id) external view returns (bool isClosed) {
        if (phaseOf(id) == Phase.REVEAL) (, isClosed) = ROUNDS.votingOf(id, _cases[id].round);
    }

    /// @inheritdoc IDisputes
    function disputeId(bytes32 receiptId) public view returns (bytes32) {
        return keccak256(abi.encode(block.chainid, address(this), receiptId));
    }

    /// @inheritdoc IDisputes
    function phaseOf(bytes32 id) public view returns (Phase) {
        Case storage d = _cases[id];
        if (d.phase == Phase.COMMIT) {
            (uint40 commitEnd,) = ROUNDS.votingOf(id, d.round);
            if (_clock() > commitEnd) return Phase.REVEAL;
        }
        if (d.phase == Phase.APPEAL && _clock() > d.appealEnd) return Phase.AIRGAP;
        return d.phase;
    }

    /// @inheritdoc IDisputes
    function appealBond(bytes32 id) public view returns (uint256) {
        Case storage d = _cases[id];
        Committee memory c = PARAMS.committee(d.paramsVersion);
        if (d.level >= c.rounds) revert LastLevel(id);
        return 2 * uint256(c.seats[d.level]) * PARAMS.money(d.paramsVersion).feePerSeat;
    }

    /// @inheritdoc IDisputes
    function altCommitOf(bytes32 id, address challenger, bytes32 key, bytes32 salt) public view returns (bytes32) {
        return keccak256(abi.encode(block.chainid, address(this), id, challenger, key, salt));
    }

    // --- parts of the steps ---

    function _file(Case storage d, IReceiptAnchor.Question memory q, uint64 batchId, bytes32 altCommit) private {
        // A pause stops what the clock alone would not.
        uint40 now_ = SafeCast.toUint40(GUARDIAN.runningClock());
        if (now_ > q.windowEnd) revert WindowClosed(now_, q.windowEnd);
        uint256 bond = PARAMS.requiredBond(q.paramsVersion);
        if (msg.value != bond) revert BondMismatch(msg.value, bond);
        if (!REGISTRY.isSeatable(q.pool)) revert PoolTooSmall(q.pool);
        (d.tree, d.paramsVersion) = (REGISTRY.treeOf(q.pool), q.paramsVersion);
        (d.challenger, d.batchId, d.openedAt) = (msg.sender, SafeCast.toUint48(batchId), now_);
        d.altCommit = altCommit;
    }

    function _startFirst(bytes32 id, Case storage d, Receipt calldata r) private {
        _startRound(id, d, 1, StructHashes.claim(r.tokensHash, r.outHash));
    }

    /// @dev The next committee; the caller says how large, and of the first what the receipt claims.
    function _startRound(bytes32 id, Case storage d, uint8 level, bytes32 claim) private {
        uint16 round = d.round + 1;
        (d.phase, d.level, d.round) = (Phase.SEED, level, round);
        uint8 seats = SafeCast.toUint8(PARAMS.committee(d.paramsVersion).seats[level - 1]);
        uint40 seedBlock = _seedBlock(d);
        emit SeedNamed(id, round, level, seats, seedBlock, 0);
        ROUNDS.begin(id, round, level, seats, seedBlock, claim);
    }

    /// @dev A block whose mix nobody can foresee, in an epoch whose weights are fixed before anybody could.
    function _seedBlock(Case storage d) private view returns (uint40) {
        uint256 seedBlock = d.tree.seedBlockFrom(block.number + SHORTEST);
        uint256 last = block.number + LONGEST;
        if (seedBlock > last) revert SeedTooFar(seedBlock, last);
        return SafeCast.toUint40(seedBlock);
    }

    function _drawPlaces(bytes32 id, Case storage d, bytes32 seed, uint40 seedBlock, uint8 from, uint256 count)
        private
        view
        returns (uint16[] memory)
    {
        address[] memory excluded = new address[](1);
        // Only the challenger's own account is left out: a rule that looked at more could be steered.
        excluded[0] = d.challenger;
        return d.tree.drawPlaces(seed, seedBlock, id, d.round, excluded, from, count);
    }

    function _openCommits(bytes32 id, Case storage d, bytes32 seed)
        private
        returns (uint40 commitEnd, uint40 revealEnd, bytes32 roundSeed)
    {
        d.phase = Phase.COMMIT;
        (uint32 commitTime, uint32 revealTime) = PARAMS.roundTimes(d.paramsVersion);
        commitEnd = _clock() + commitTime;
        revealEnd = commitEnd + revealTime;
        roundSeed = keccak256(abi.encode(seed, id, d.round));
        emit CommitOpened(id, d.round, seed, roundSeed, commitEnd, revealEnd);
    }

    /// @dev What stands from now on, and until when.
    function _decide(bytes32 id, Case storage d, Verdict verdict, bool appealable) private {
        (uint32 appealTime, uint32 airgap) = PARAMS.endTimes(d.paramsVersion);
        uint40 now_ = _clock();
        uint40 appealEnd = appealable ? now_ + appealTime : 0;
        uint40 airgapEnd = (appealable ? appealEnd : now_) + airgap;
        (d.verdict, d.phase) = (verdict, appealable ? Phase.APPEAL : Phase.AIRGAP);
        (d.appealEnd, d.airgapEnd) = (appealEnd, airgapEnd);
        emit Decided(id, verdict, appealEnd, airgapEnd);
        if (verdict != Verdict.OVERTURNED) return;
        IReceiptAnchor.Batch memory batch = ANCHOR.batch(d.batchId);
        BREAKER.noteConviction(batch.environment, batch.operator, d.paramsVersion);
    }

    /// @dev No round can decide any more: the earlier verdict stands, or nothing does.
    function _endUndecided(bytes32 id, Case storage d) private {
        _decide(id, d, d.verdict == Verdict.NONE ? Verdict.DRAW : d.verdict, false);
    }

    /// @dev Money moves. Nobody who is paid is called, so nobody can stop it.
    function _end(bytes32 id, Case storage d, bool appellantWon) private {
        d.phase = Phase.FINAL;
        emit Finalized(id, d.verdict, _replacementOf(id, d));
        SETTLEMENT.end(id, d.verdict, appellantWon);
        ANCHOR.unhold(d.batchId);
    }

    function _inPhase(bytes32 id, Phase want) private view returns (Case storage d) {
        d = _cases[id];
        if (d.phase != want) revert WrongPhase(id, phaseOf(id), want);
    }

    /// @dev What a conviction says, and in a mixed UNAVAILABLE the leading fault that was right too. 0: nothing.
    function _keysOf(bytes32 id, Case storage d) private view returns (bytes32 key, bytes32 second) {
        return ROUNDS.keysOf(id, d.verdict, d.decidedIn, d.mixed);
    }

    /// @dev The output that replaces the claim, or 0.
    function _replacementOf(bytes32 id, Case storage d) private view returns (bytes32 outHash) {
        if (d.verdict == Verdict.OVERTURNED) (, outHash) = ROUNDS.leadOf(id, d.decidedIn);
    }

    function _clock() private view returns (uint40) {
        return SafeCast.toUint40(GUARDIAN.clock());
    }
}
