// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {TallyLib} from "../libraries/TallyLib.sol";
import {Committee, Phase, Receipt, StructHashes, Verdict} from "../libraries/Types.sol";
import {Wired} from "../libraries/Wired.sol";
import {IBreaker} from "../interfaces/IBreaker.sol";
import {IDisputes} from "../interfaces/IDisputes.sol";
import {IGuardian} from "../interfaces/IGuardian.sol";
import {ILedger} from "../interfaces/ILedger.sol";
import {IParams} from "../interfaces/IParams.sol";
import {IRandaoSource} from "../interfaces/IRandaoSource.sol";
import {IReceiptAnchor} from "../interfaces/IReceiptAnchor.sol";
import {IRegistry} from "../interfaces/IRegistry.sol";
import {IRounds} from "../interfaces/IRounds.sol";
import {ISettlement} from "../interfaces/ISettlement.sol";
import {IStakeTree} from "../interfaces/IStakeTree.sol";

/// @title Disputes: a case from a questioned receipt to its end
/// @dev States (`docs/reference/contracts.md` section 1):
///        NONE -open-> SEED -draw-> (DRAWING -draw->) COMMIT -time-> REVEAL -settle-> APPEAL -time-> AIRGAP -finalize-> FINAL
///        REVEAL -settle-> SEED (a rerun, or the next level), or AIRGAP (the last level)
///        APPEAL -appeal-> SEED; SEED, DRAWING -rearm-> SEED, after the third AIRGAP; APPEAL, AIRGAP -refund-> FINAL
///      Money: `open` and `appeal` bring the bond that was sent to the dispute's pot; everything else moves in `Settlement`.
///        | call     | from       | to                       |
///        | open     | challenger | pot: `requiredBond`      |
///        | appeal   | appellant  | pot: `appealBond`        |
///        | finalize | pot, stake | `Settlement.end`         |
///      Invariants (docs/reference/contracts.md, section 6):
///
///      I13 TABLE: A dispute moves along the rows of the table alone.
///      I14 ENDS: From everywhere the end can be reached in the time of the law, by anybody.
///      I15 ONE END: A dispute ends once, and its money with it.
///      I16 DRAWN FIRST: All seats are drawn before the first commitment.
///      I18 ONE VERDICT: No two verdicts of one round are possible.
///      I19 QUORUM: Who is convicted was convicted by a quorum that says one thing; who is upheld, by one that says what the receipt says.
///      I21 FIXED PARAMETERS: A dispute keeps to the parameters under which its receipt was anchored.
///      I24 QUESTIONED ONCE: A receipt has one dispute.
///
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
        uint8 round; // three levels and their reruns: ten at most (`ParamLaw.MAX_RERUNS`)
        uint8 reruns;
        uint32 paramsVersion;
        Verdict verdict;
        Verdict appealed; // the verdict that was appealed; NONE: none was
        uint8 decidedIn; // the round whose verdict stands
        bool knew; // the challenger showed that it knew what the verdict says
        // Who, and for what it waits.
        address challenger;
        uint48 batchId;
        uint40 until; // number of the seed block while seats are to be drawn; from a verdict on, the end of the airgap
        bool mixed;
        bytes32 altCommit;
    }

    uint8 private constant MAX_REARMS = 3;

    IParams private immutable PARAMS;
    IRegistry private immutable REGISTRY;
    IReceiptAnchor private immutable ANCHOR;
    ISettlement private immutable SETTLEMENT;
    /// @notice The protocol clock, which alone has disputes refunded.
    IGuardian public immutable GUARDIAN;
    IRandaoSource private immutable RANDOMNESS;
    /// @inheritdoc IDisputes
    IRounds public immutable ROUNDS;
    IBreaker public immutable BREAKER;
    ILedger private immutable LEDGER;
    uint256 private immutable SHORTEST;
    uint256 private immutable LONGEST;

    mapping(bytes32 id => Case) private _cases;

    /// @dev A pause stops what the clock alone would not.
    modifier running() {
        _requireRunning();
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
        LEDGER = parts.settlement.LEDGER();
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
        uint256 slashAmount = _file(d, q, batchId, altCommit);
        emit DisputeOpened(id, q.receiptId, q.operator, msg.sender, batchId, altCommit);
        ROUNDS.begin(id, StructHashes.claim(r.tokensHash, r.outHash));
        _startRound(id, d, 1);
        LEDGER.take{value: msg.value}(id, msg.sender, ILedger.Source.BOND);
        SETTLEMENT.opened(id, q.operator, slashAmount);
    }

    /// @inheritdoc IDisputes
    /// @dev In a pause too: a seed is lost with its epoch, and a guardian who dislikes a committee could wait for that. Its members
    ///      have all of their time when the clock goes on.
    function draw(bytes32 id, uint256 count, bytes calldata header) external {
        Case storage d = _cases[id];
        IRounds.Seating memory s;
        if (d.phase == Phase.DRAWING) (s.from,) = ROUNDS.seatingOf(id, d.round);
        else d = _inPhase(id, Phase.SEED);
        (uint8 seats, uint32 commitTime, uint32 revealTime) = PARAMS.roundTerms(d.paramsVersion, d.level);
        (s.level, s.seats, s.seedBlock) = (d.level, seats, d.until);
        uint256 left = seats - s.from;
        if (count > left) count = left;
        if (count == 0) revert NoProgress(id);
        bytes32 seed = RANDOMNESS.seedOf(s.seedBlock, header);
        s.places = _drawPlaces(id, d, seed, s, count);
        emit SeatsDrawn(id, d.round, s.from, s.places);
        if (count < left) {
            d.phase = Phase.DRAWING;
        } else {
            d.phase = Phase.COMMIT;
            s.commitEnd = _clock() + commitTime;
            s.revealEnd = s.commitEnd + revealTime;
            s.roundSeed = keccak256(abi.encode(seed, id, d.round));
            emit CommitOpened(id, d.round, seed, s.roundSeed, s.commitEnd, s.revealEnd);
        }
        ROUNDS.seat(id, d.round, s);
    }

    /// @inheritdoc IDisputes
    function rearm(bytes32 id) external running {
        Case storage d = _cases[id];
        if (d.phase != Phase.DRAWING) d = _inPhase(id, Phase.SEED);
        uint40 seedBlock = d.until;
        if (!d.tree.isOver(seedBlock) && !RANDOMNESS.isExpired(seedBlock)) revert SeedReadable(id, seedBlock);
        (, uint8 rearms) = ROUNDS.seatingOf(id, d.round);
        if (rearms == MAX_REARMS) return _endUndecided(id, d);
        ROUNDS.rearm(id, d.round);
        _nameSeed(id, d, rearms + 1);
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
            // Safe: `round` is a byte.
            (d.decidedIn, d.mixed, d.knew) = (uint8(round), j.mixed, false);
            _decide(id, d, j.verdict, d.level < c.rounds && d.appealed == Verdict.NONE);
        } else if (t.noKey > seats - quorum && d.reruns < c.maxReruns) {
            d.reruns += 1;
            _startRound(id, d, d.level);
        } else if (d.level < c.rounds) {
            SETTLEMENT.advance(id, c.seats[d.level], d.paramsVersion);
            _startRound(id, d, d.level + 1);
        } else {
            _endUndecided(id, d);
            if (d.verdict != Verdict.DRAW) return;
            IReceiptAnchor.Batch memory batch = _batch(d);
            BREAKER.noteDraw(id, batch.environment, batch.operator, d.paramsVersion);
        }
    }

    /// @inheritdoc IDisputes
    function appeal(bytes32 id) external payable {
        Case storage d = _cases[id];
        if (d.appealed != Verdict.NONE) revert AlreadyAppealed(id);
        _inPhase(id, Phase.APPEAL);
        uint40 now_ = _clock();
        uint40 appealEnd = _appealEnd(d);
        if (now_ > appealEnd) revert TooLate(now_, appealEnd);
        uint256 bond = appealBond(id);
        if (msg.value != bond) revert BondMismatch(msg.value, bond);
        d.appealed = d.verdict;
        emit Appealed(id, msg.sender, bond);
        _startRound(id, d, d.level + 1);
        LEDGER.take{value: bond}(id, msg.sender, ILedger.Source.APPEAL_BOND);
        SETTLEMENT.appealed(id, msg.sender, bond);
    }

    /// @inheritdoc IDisputes
    function openAlt(bytes32 id, bytes32 salt) external {
        Case storage d = _cases[id];
        if (d.phase != Phase.AIRGAP) d = _inPhase(id, Phase.APPEAL);
        uint40 now_ = _clock();
        if (now_ > d.until) revert TooLate(now_, d.until);
        (bytes32 key,,) = _foundBy(id, d);
        (bytes32 have, bytes32 want) = (altCommitOf(id, d.challenger, key, salt), d.altCommit);
        if (key == bytes32(0) || have != want) revert BadAlt(have, want);
        if (d.knew) revert NoProgress(id);
        d.knew = true;
        emit AltOpened(id, d.challenger);
    }

    /// @inheritdoc IDisputes
    function finalize(bytes32 id) external running {
        Case storage d = _cases[id];
        uint40 now_ = _clock();
        // What is past its airgap is past its time to appeal.
        if ((d.phase != Phase.APPEAL && d.phase != Phase.AIRGAP) || now_ <= d.until) {
            Phase have = phaseOf(id);
            if (have != Phase.AIRGAP) revert WrongPhase(id, have, Phase.AIRGAP);
            revert TooEarly(now_, uint256(d.until) + 1);
        }
        // Lies trip the breaker, and what it holds is every slash: an environment that is at fault lets honest operators be found
        // withholding and malformed, too.
        if (d.verdict == Verdict.OVERTURNED || d.verdict == Verdict.INVALID || d.verdict == Verdict.UNAVAILABLE) {
            bytes32 environment = _batch(d).environment;
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
        IReceiptAnchor.Batch memory batch = _batch(d);
        out.claim = ROUNDS.claimOf(id);
        (out.environment, out.operator, out.keyEpoch) = (batch.environment, batch.operator, batch.keyEpoch);
        (out.challenger, out.batchId) = (d.challenger, d.batchId);
        (out.paramsVersion, out.phase, out.level) = (d.paramsVersion, d.phase, d.level);
        (out.round, out.reruns, out.verdict) = (d.round, d.reruns, d.verdict);
        (out.appealed, out.refunded) = (d.appealed != Verdict.NONE, d.verdict == Verdict.REFUNDED);
        if (d.phase >= Phase.APPEAL) out.airgapEnd = d.until;
        if (d.phase == Phase.APPEAL) out.appealEnd = _appealEnd(d);
        (out.key, out.secondKey, out.replacement) = _foundBy(id, d);
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
    function seedOf(bytes32 id) external view returns (uint16, uint8, uint8, uint40) {
        Case storage d = _cases[id];
        if (d.phase != Phase.SEED && d.phase != Phase.DRAWING) return (0, 0, 0, 0);
        (uint8 seats,,) = PARAMS.roundTerms(d.paramsVersion, d.level);
        return (d.round, d.level, seats, d.until);
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
        if (d.phase == Phase.APPEAL && _clock() > _appealEnd(d)) return Phase.AIRGAP;
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

    /// @dev What a conviction would cost the operator.
    function _file(Case storage d, IReceiptAnchor.Question memory q, uint64 batchId, bytes32 altCommit)
        private
        returns (uint256 slash)
    {
        // A pause stops what the clock alone would not.
        uint256 now_ = GUARDIAN.runningClock();
        if (now_ > q.windowEnd) revert WindowClosed(now_, q.windowEnd);
        uint256 bond;
        (bond, slash) = PARAMS.openTerms(q.paramsVersion);
        if (msg.value != bond) revert BondMismatch(msg.value, bond);
        if (!REGISTRY.isSeatable(q.pool)) revert PoolTooSmall(q.pool);
        (d.tree, d.paramsVersion) = (REGISTRY.treeOf(q.pool), q.paramsVersion);
        (d.challenger, d.batchId) = (msg.sender, SafeCast.toUint48(batchId));
        d.altCommit = altCommit;
    }

    /// @dev The next committee, which is as large as its level says.
    function _startRound(bytes32 id, Case storage d, uint8 level) private {
        (d.level, d.round) = (level, d.round + 1);
        _nameSeed(id, d, 0);
    }

    /// @dev A block whose mix nobody can foresee, in an epoch whose weights are fixed before anybody could.
    function _nameSeed(bytes32 id, Case storage d, uint8 rearms) private {
        uint256 seedBlock = d.tree.seedBlockFrom(block.number + SHORTEST);
        uint256 last = block.number + LONGEST;
        if (seedBlock > last) revert SeedTooFar(seedBlock, last);
        (d.phase, d.until) = (Phase.SEED, SafeCast.toUint40(seedBlock));
        // Safe: it fits 40 bits.
        emit SeedNamed(id, d.round, d.level, uint64(seedBlock), rearms);
    }

    function _drawPlaces(bytes32 id, Case storage d, bytes32 seed, IRounds.Seating memory s, uint256 count)
        private
        view
        returns (uint16[] memory)
    {
        address[] memory excluded = new address[](1);
        // Only the challenger's own account is left out: a rule that looked at more could be steered.
        excluded[0] = d.challenger;
        return d.tree.drawPlaces(seed, s.seedBlock, id, d.round, excluded, s.from, count);
    }

    /// @dev What stands from now on, and until when.
    function _decide(bytes32 id, Case storage d, Verdict verdict, bool appealable) private {
        (uint32 appealTime, uint32 airgap) = PARAMS.endTimes(d.paramsVersion);
        uint40 now_ = _clock();
        uint40 appealEnd = appealable ? now_ + appealTime : 0;
        uint40 airgapEnd = (appealable ? appealEnd : now_) + airgap;
        (d.verdict, d.phase, d.until) = (verdict, appealable ? Phase.APPEAL : Phase.AIRGAP, airgapEnd);
        emit Decided(id, verdict, appealEnd, airgapEnd);
        if (verdict != Verdict.OVERTURNED) return;
        IReceiptAnchor.Batch memory batch = _batch(d);
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
        SETTLEMENT.end(id, ISettlement.Ending(d.verdict, appellantWon, d.knew, d.paramsVersion, d.round));
        ANCHOR.unhold(d.batchId);
    }

    /// @dev Last second to appeal a verdict that may be: the airgap comes behind it.
    function _appealEnd(Case storage d) private view returns (uint40) {
        (, uint32 airgap) = PARAMS.endTimes(d.paramsVersion);
        return d.until - airgap;
    }

    function _inPhase(bytes32 id, Phase want) private view returns (Case storage d) {
        d = _cases[id];
        if (d.phase != want) revert WrongPhase(id, phaseOf(id), want);
    }

    /// @dev What a conviction says, in a mixed UNAVAILABLE the leading fault that was right too, and the output that replaces the
    ///      claim. 0: nothing.
    function _foundBy(bytes32 id, Case storage d) private view returns (bytes32 key, bytes32 second, bytes32 outHash) {
        (key, second, outHash) = ROUNDS.keysOf(id, d.verdict, d.decidedIn, d.mixed);
        if (d.verdict != Verdict.OVERTURNED) outHash = 0;
    }

    function _replacementOf(bytes32 id, Case storage d) private view returns (bytes32 outHash) {
        if (d.verdict == Verdict.OVERTURNED) (,, outHash) = _foundBy(id, d);
    }

    function _requireRunning() private view {
        if (GUARDIAN.pausedUntil() > block.timestamp) revert IGuardian.NotNow(true);
    }

    function _batch(Case storage d) private view returns (IReceiptAnchor.Batch memory) {
        return ANCHOR.batch(d.batchId);
    }

    function _clock() private view returns (uint40) {
        return SafeCast.toUint40(GUARDIAN.clock());
    }
}
