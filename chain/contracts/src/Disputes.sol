// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";
import {DisputeMoney} from "./DisputeMoney.sol";
import {DisputeStore} from "./DisputeStore.sol";
import {IDisputes} from "./interfaces/IDisputes.sol";
import {SortitionLib} from "./SortitionLib.sol";
import {TallyLib} from "./TallyLib.sol";
import {AuditResult, Hashes, Outcome, ParamSet, Phase, Receipt, Verdict, Vote} from "./Types.sol";

/// @title Disputes: the steps of a dispute. Storage is in `DisputeStore`, money in `DisputeMoney`, the rule in `TallyLib`
/// @dev No function calls an account that is not a contract of this deployment: payments are pulled from the ledger.
contract Disputes is DisputeMoney {
    uint8 private constant MAX_REARMS = 3;
    uint8 private constant AUDIT_RESULTS = 3;

    constructor(Parts memory parts) DisputeStore(parts) {}

    /// @inheritdoc IDisputes
    function open(Receipt calldata r, bytes calldata sig, uint64 batchId, bytes32[] calldata proof)
        external
        payable
        returns (bytes32 id)
    {
        (bytes32 receipt, uint64 anchoredAt) = ANCHOR.checkMember(r, sig, batchId, proof);
        ParamSet memory p = _params();
        uint256 end = uint256(anchoredAt) + p.window;
        if (block.timestamp > end) revert WindowClosed(block.timestamp, end);
        id = disputeId(receipt);
        Dispute storage d = _disputes[id];
        if (d.phase != Phase.NONE) revert AlreadyDisputed(receipt, id);
        uint256 bond = requiredBond();
        if (msg.value != bond) revert BondMismatch(msg.value, bond);
        d.receiptId = receipt;
        d.operator = r.operator;
        d.batchId = batchId;
        d.challenger = msg.sender;
        d.openedAt = uint64(block.timestamp);
        d.claimedOutHash = r.outHash;
        d.keyEpoch = r.keyEpoch;
        d.bond = bond;
        _ids.push(id);
        uint64 seedBlock = _startRound(id, d, 1, p);
        _checkJudges(id, d);
        LEDGER.takeBond{value: bond}(id, msg.sender);
        // What is there is locked: an operator whose stake is bound elsewhere can still be disputed.
        d.operatorLocked = VAULT.lock(r.operator, p.slashAmount, id);
        emit DisputeOpened(id, receipt, r.operator, msg.sender, batchId, bond, d.operatorLocked, seedBlock);
    }

    /// @inheritdoc IDisputes
    function draw(bytes32 id) external {
        Dispute storage d = _inPhase(id, Phase.SEED);
        uint16 round = d.round;
        Round storage r = _rounds[id][round];
        bytes32 seed = RANDOMNESS.seed(r.seedBlock);
        (address[] memory voters, uint256[] memory stakes, uint256 total) = _weights(id, d);
        if (total == 0) {
            return _endUndrawn(id, round);
        }
        ParamSet memory p = _params();
        d.phase = Phase.COMMIT;
        r.roundSeed = SortitionLib.roundSeed(seed, id, round);
        r.commitEnd = uint64(block.timestamp) + p.commitTime;
        r.revealEnd = r.commitEnd + p.revealTime;
        uint256[] memory holders = SortitionLib.draw(seed, id, round, r.seats, stakes, total);
        _seat(id, round, voters, holders, p.seatStake);
        emit SeatsDrawn(id, round, seed, r.roundSeed, r.seats, r.commitEnd);
    }

    /// @inheritdoc IDisputes
    function rearm(bytes32 id) external {
        Dispute storage d = _inPhase(id, Phase.SEED);
        Round storage r = _rounds[id][d.round];
        if (!RANDOMNESS.isExpired(r.seedBlock)) revert SeedReadable(id, r.seedBlock);
        if (r.rearms == MAX_REARMS) {
            return _endUndrawn(id, d.round);
        }
        r.rearms += 1;
        r.seedBlock = uint64(block.number) + _params().seedDelayBlocks;
        emit SeedRearmed(id, d.round, r.seedBlock, r.rearms);
    }

    /// @inheritdoc IDisputes
    function commit(bytes32 id, uint256 seatMask, bytes32 commitment) external {
        Dispute storage d = _inPhase(id, Phase.COMMIT);
        Round storage r = _rounds[id][d.round];
        if (block.timestamp > r.commitEnd) revert TooLate(block.timestamp, r.commitEnd);
        Member storage m = _member(id, d.round, msg.sender);
        if (m.commitment != bytes32(0)) revert AlreadyCommitted(id, d.round, msg.sender);
        if (seatMask != m.seatMask) revert WrongSeatMask(seatMask, m.seatMask);
        if (commitment == bytes32(0)) revert EmptyCommitment();
        m.commitment = commitment;
        r.committedSeats += m.seats;
        if (r.committedSeats == r.seats) {
            r.commitEnd = uint64(block.timestamp);
            r.revealEnd = r.commitEnd + _params().revealTime;
        }
        emit Committed(id, d.round, msg.sender, seatMask, commitment);
    }

    /// @inheritdoc IDisputes
    function reveal(Vote calldata vote, bytes calldata quote) external {
        bytes32 id = vote.dispute;
        Dispute storage d = _inPhase(id, Phase.COMMIT);
        uint16 round = d.round;
        Round storage r = _rounds[id][round];
        if (!_commitsClosed(r)) revert TooEarly(block.timestamp, r.commitEnd);
        if (block.timestamp > r.revealEnd) revert TooLate(block.timestamp, r.revealEnd);
        Member storage m = _member(id, round, msg.sender);
        if (m.commitment == bytes32(0)) revert NotCommitted(id, round, msg.sender);
        if (m.revealed) revert AlreadyRevealed(id, round, msg.sender);
        if (vote.round != round || vote.voter != msg.sender) revert ForeignVote(id, vote.round, vote.voter);
        if (vote.seatMask != m.seatMask) revert WrongSeatMask(vote.seatMask, m.seatMask);
        bytes32 digest = hashVote(vote);
        if (digest != m.commitment) revert BadReveal(digest, m.commitment);
        _checkForm(vote, quote);
        m.revealed = true;
        m.outcome = Outcome(vote.outcome);
        m.code = vote.code;
        m.group = keccak256(abi.encode(vote.outcome, vote.code, vote.tokensHash, vote.traceRoot, vote.roundDigest));
        if (m.outcome == Outcome.EXECUTED) m.outHash = Hashes.outHash(vote.tokensHash, vote.traceRoot);
        r.revealedSeats += m.seats;
        emit Revealed(id, round, msg.sender, vote, quote);
    }

    /// @inheritdoc IDisputes
    function settle(bytes32 id) external {
        Dispute storage d = _inPhase(id, Phase.COMMIT);
        uint16 round = d.round;
        Round storage r = _rounds[id][round];
        if (!_commitsClosed(r)) revert TooEarly(block.timestamp, r.commitEnd);
        if (!_revealsClosed(r)) revert TooEarly(block.timestamp, r.revealEnd);
        ParamSet memory p = _params();
        Tally memory t = TallyLib.count(_members[id][round], d.claimedOutHash);
        uint256 quorum = PARAMS.quorum(r.seats);
        TallyLib.Judgement memory j = TallyLib.judge(t, d.claimedOutHash, quorum, p.paperRule);
        if (j.verdict == Verdict.NONE && round == p.rounds) j.verdict = Verdict.DRAW;
        emit Settled(id, round, j.verdict, t);
        if (j.verdict == Verdict.NONE) {
            uint64 seedBlock = _startRound(id, d, round + 1, p);
            emit Escalated(id, round + 1, p.seats[round], seedBlock);
        } else {
            _finalize(id, j, TallyLib.replacementOf(t, j, quorum));
        }
    }

    /// @inheritdoc IDisputes
    function postAudit(AuditResult calldata a, bytes calldata sig) external {
        if (a.result == 0 || a.result > AUDIT_RESULTS) revert BadAuditResult(a.result);
        if (!REGISTRY.isVerifier(a.verifier)) revert NotVerifier(a.verifier);
        (address recovered, ECDSA.RecoverError err,) = ECDSA.tryRecoverCalldata(hashAudit(a), sig);
        if (err != ECDSA.RecoverError.NoError || recovered != a.verifier) revert BadSignature(recovered, a.verifier);
        if (_audited[a.receiptId][a.verifier]) revert AlreadyAudited(a.receiptId, a.verifier);
        _audited[a.receiptId][a.verifier] = true;
        emit AuditPosted(a.receiptId, a.verifier, a.result, a.commitment, a.auditedAt, sig);
    }

    function _inPhase(bytes32 id, Phase want) private view returns (Dispute storage d) {
        d = _disputes[id];
        if (d.phase != want) revert WrongPhase(id, phaseOf(id), want);
    }

    function _member(bytes32 id, uint16 round, address who) private view returns (Member storage) {
        uint256 position = _positions[id][round][who];
        if (position == 0) revert NotMember(id, round, who);
        return _members[id][round][position - 1];
    }

    /// @dev The weights are those of the block before: fixed before anyone can know the seed.
    function _startRound(bytes32 id, Dispute storage d, uint16 round, ParamSet memory p)
        private
        returns (uint64 seedBlock)
    {
        d.phase = Phase.SEED;
        d.round = round;
        seedBlock = uint64(block.number) + p.seedDelayBlocks;
        Round storage r = _rounds[id][round];
        r.seedBlock = seedBlock;
        r.stakeBlock = uint64(block.number) - 1;
        r.seats = p.seats[round - 1];
    }

    function _checkJudges(bytes32 id, Dispute storage d) private view {
        (,, uint256 total) = _weights(id, d);
        if (total == 0) revert NobodyToJudge(d.challenger);
    }

    /// @dev Only the opener's own account is left out; a rule that looked at more could be steered.
    function _weights(bytes32 id, Dispute storage d)
        private
        view
        returns (address[] memory voters, uint256[] memory stakes, uint256 total)
    {
        return REGISTRY.weights(_rounds[id][d.round].stakeBlock, d.challenger);
    }

    /// @dev Members in the order of their first seats; all seats of a voter are one member with one mask.
    function _seat(bytes32 id, uint16 round, address[] memory voters, uint256[] memory holders, uint256 seatStake)
        private
    {
        Member[] storage members = _members[id][round];
        for (uint256 i = 0; i < holders.length; ++i) {
            address voter = voters[holders[i]];
            if (_positions[id][round][voter] != 0) continue;
            Member storage m = members.push();
            _positions[id][round][voter] = members.length;
            m.voter = voter;
            (m.seatMask, m.seats) = _seatsOf(holders, i);
            m.locked = VAULT.lock(voter, m.seats * seatStake, id);
            emit SeatTaken(id, round, voter, m.seatMask, m.locked);
        }
    }

    function _seatsOf(uint256[] memory holders, uint256 first) private pure returns (uint256 mask, uint16 seats) {
        for (uint256 i = first; i < holders.length; ++i) {
            if (holders[i] != holders[first]) continue;
            mask |= 1 << i;
            ++seats;
        }
    }

    /// @dev One form per vote, so that equal findings are equal bytes.
    function _checkForm(Vote calldata v, bytes calldata quote) private pure {
        bool executed = v.outcome == uint8(Outcome.EXECUTED);
        bool coded = v.outcome == uint8(Outcome.INVALID) || v.outcome == uint8(Outcome.CANNOT_EXECUTE);
        bool bare = v.tokensHash == 0 && v.traceRoot == 0 && v.roundDigest == 0;
        bool known = v.outcome != 0 && v.outcome <= uint8(type(Outcome).max);
        if (!known || (!executed && !bare) || (!coded && v.code != 0)) revert MalformedVote(v.outcome, v.code);
        // A machine without a quote still votes; it may lose its fee for it later (design section 7).
        bytes32 have = quote.length == 0 ? bytes32(0) : keccak256(quote);
        if (have != v.quoteHash) revert BadQuote(have, v.quoteHash);
    }

    /// @dev A round that could not be drawn: DRAW; only work of the round before is paid.
    function _endUndrawn(bytes32 id, uint16 round) private {
        Tally memory nobody;
        emit Settled(id, round, Verdict.DRAW, nobody);
        _finalize(id, TallyLib.Judgement(Verdict.DRAW, 0, 0), 0);
    }
}
