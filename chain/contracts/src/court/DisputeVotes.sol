// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";
import {Bls} from "../libraries/Bls.sol";
import {Certificate} from "../libraries/Certificate.sol";
import {CommitTree} from "../libraries/CommitTree.sol";
import {DisputeStore} from "./DisputeStore.sol";
import {IBallots} from "../interfaces/IBallots.sol";
import {SeatsLib} from "../libraries/SeatsLib.sol";
import {TallyLib} from "../libraries/TallyLib.sol";
import {Commit, Finding, Outcome, Phase, StructHashes, Vote} from "../libraries/Types.sol";

/// @title DisputeVotes: commitments, votes and certificates, counted as they come
abstract contract DisputeVotes is IBallots, DisputeStore {
    using SeatsLib for uint256;
    using SeatsLib for uint256[16];
    using SeatsLib for uint16[];

    /// @dev A finding as it is counted.
    struct Said {
        Outcome outcome;
        uint8 code;
        bytes32 tokensHash; // EXECUTED only
        bytes32 outHash; // EXECUTED only
        bytes32 group;
    }

    /// @dev Relayed at once: 14.0 million gas, of the 16,777,216 that a transaction may use (EIP-7825).
    uint256 private constant MAX_COMMITS = 200;
    bytes32 private constant COMMIT =
        keccak256("Commit(bytes32 dispute,uint16 round,uint256 seatMask,bytes32 commitment)");

    /// @inheritdoc IBallots
    function commit(bytes32 id, uint256 seatMask, bytes32 commitment) external {
        uint40 now_ = _runningClock();
        uint16 round = _cases[id].round;
        if (!_commit(Commit(id, round, seatMask, commitment), msg.sender, now_)) {
            revert AlreadyCommitted(id, round, msg.sender);
        }
    }

    /// @inheritdoc IBallots
    function commitFor(Commit[] calldata commits, address[] calldata voters, bytes[] calldata sigs) external {
        uint40 now_ = _runningClock();
        if (commits.length > MAX_COMMITS) revert TooManyCommits(commits.length, MAX_COMMITS);
        if (voters.length != commits.length || sigs.length != commits.length) {
            revert LengthMismatch(commits.length, voters.length, sigs.length);
        }
        for (uint256 i = 0; i < commits.length; ++i) {
            (address recovered, ECDSA.RecoverError err,) = ECDSA.tryRecoverCalldata(hashCommit(commits[i]), sigs[i]);
            if (err != ECDSA.RecoverError.NoError || recovered != voters[i]) revert BadSignature(recovered, voters[i]);
            _commit(commits[i], voters[i], now_);
        }
    }

    /// @inheritdoc IBallots
    function postCommitRoot(bytes32 id, bytes32 root) external {
        uint40 now_ = _runningClock();
        Case storage d = _inPhase(id, Phase.COMMIT);
        RoundData storage r = _rounds[id][d.round];
        if (now_ > r.commitEnd) revert TooLate(now_, r.commitEnd);
        if (root == bytes32(0)) revert EmptyCommitment();
        // Or a stranger could be first with a root of nothing.
        if (_seatsOf(d, r, msg.sender) == 0) revert NotMember(id, d.round, msg.sender);
        // Only the first opens to single votes: with several to choose from, a member would not be bound to one.
        if (r.roots[root] == Root.NONE) r.roots[root] = r.rooted ? Root.LATER : Root.FIRST;
        r.rooted = true;
        emit CommitRootPosted(id, d.round, root, msg.sender);
    }

    /// @inheritdoc IBallots
    function formCommittee(bytes32 id, uint256 seated, Bls.G1[] calldata points) external running {
        Case storage d = _inPhase(id, Phase.COMMIT);
        RoundData storage r = _rounds[id][d.round];
        if (r.committee != bytes32(0)) revert CommitteeExists(id, d.round);
        address[] memory holders = d.tree.accountsAt(r.places.all(r.seats));
        bytes32 committee = CERTIFIER.form(holders, r.seedBlock - 1, seated, points);
        r.committee = committee;
        emit CommitteeFormed(id, d.round, committee, seated);
    }

    /// @inheritdoc IBallots
    function reveal(Vote calldata vote, bytes calldata quote) external {
        (Case storage d, RoundData storage r) = _voting(vote.dispute, vote.round, vote.voter);
        uint256 first = vote.seatMask.lowest();
        if (_revealed(r) & first != 0) revert AlreadyRevealed(vote.dispute, vote.round, vote.voter);
        bytes32 want = r.words[first];
        if (want == bytes32(0)) revert NotCommitted(vote.dispute, vote.round, vote.voter);
        bytes32 have = _seal(hashVote(vote), vote.voter, vote.seatMask);
        if (have != want) revert BadReveal(have, want);
        _open(d, r, vote, quote);
    }

    /// @inheritdoc IBallots
    function revealUnderRoot(Vote calldata vote, bytes calldata quote, bytes32[8] calldata proof) external {
        (Case storage d, RoundData storage r) = _voting(vote.dispute, vote.round, vote.voter);
        // Anybody can put anything under a root: it is the voter's word only if the voter shows it.
        if (msg.sender != vote.voter) revert NotVoter(msg.sender, vote.voter);
        uint256 mask = _seatsOf(d, r, vote.voter);
        if (mask == 0) revert NotMember(vote.dispute, vote.round, vote.voter);
        if (mask != vote.seatMask) revert WrongSeatMask(vote.seatMask, mask);
        if (_revealed(r) & mask != 0) revert AlreadyRevealed(vote.dispute, vote.round, vote.voter);
        if (r.committed & mask != 0) revert CommittedThemselves(vote.dispute, vote.round, mask);
        bytes32 root = CommitTree.rootOf(_seal(hashVote(vote), vote.voter, mask), mask, proof);
        if (r.roots[root] != Root.FIRST) revert UnknownRoot(root);
        _open(d, r, vote, quote);
    }

    /// @inheritdoc IBallots
    function certify(Finding calldata f, bytes32 commitRoot, Certificate.Proof calldata proof) external {
        (Case storage d, RoundData storage r) = _voting(f.dispute, f.round, address(0));
        if (r.certified != Outcome.NONE) revert AlreadyCertified(f.dispute, f.round);
        if (r.committee == bytes32(0)) revert NoCommittee(f.dispute, f.round);
        if (r.roots[commitRoot] == Root.NONE) revert UnknownRoot(commitRoot);
        // Who committed itself is bound to that, and reveals it.
        uint256 themselves = proof.signers & r.committed;
        if (themselves != 0) revert CommittedThemselves(f.dispute, f.round, themselves);
        (uint256 seats, uint256 quorum) = (proof.signers.size(), PARAMS.quorum(d.paramsVersion, r.seats));
        if (seats < quorum) revert QuorumNotMet(seats, quorum);
        bytes32 digest = Certificate.digestOf(domainSeparator(), f, commitRoot, proof.signers);
        CERTIFIER.verify(_absent(d, r, proof), r.seedBlock - 1, r.committee, digest, proof);
        // A signer that has opened its vote is counted for that, and cannot spoil the certificate of the others.
        uint256 counted = proof.signers & ~r.opened;
        if (counted == 0) revert NoProgress(f.dispute);
        seats = counted.size();
        Said memory said = _said(f);
        (r.certified, r.certifiedMask, r.certifiedGroup) = (said.outcome, counted, said.group);
        _count(d, r, said, seats);
        emit Certified(f.dispute, f.round, f, counted, uint16(seats));
    }

    /// @inheritdoc IBallots
    function domainSeparator() public view returns (bytes32) {
        return _domainSeparatorV4();
    }

    /// @inheritdoc IBallots
    function hashVote(Vote calldata vote) public view returns (bytes32) {
        return _hashTypedDataV4(StructHashes.vote(vote));
    }

    /// @inheritdoc IBallots
    function hashCommit(Commit calldata commit_) public view returns (bytes32) {
        return _hashTypedDataV4(keccak256(abi.encode(COMMIT, commit_)));
    }

    /// @dev False if the voter has committed already.
    function _commit(Commit memory c, address voter, uint40 now_) private returns (bool) {
        Case storage d = _inPhase(c.dispute, Phase.COMMIT);
        if (c.round != d.round) revert ForeignVote(c.dispute, c.round, voter);
        RoundData storage r = _rounds[c.dispute][c.round];
        uint256 mask = _seatsOf(d, r, voter);
        if (mask == 0) revert NotMember(c.dispute, c.round, voter);
        uint256 committed = r.committed;
        // Before the clock is asked: who runs ahead of a relay may have ended the phase for the rest of it.
        if (committed & mask != 0) return false;
        if (now_ > r.commitEnd) revert TooLate(now_, r.commitEnd);
        if (mask != c.seatMask) revert WrongSeatMask(c.seatMask, mask);
        if (c.commitment == bytes32(0)) revert EmptyCommitment();
        committed |= mask;
        r.committed = committed;
        r.words[mask.lowest()] = _seal(c.commitment, voter, mask);
        // Nobody is left to wait for: commits end before this second, reveals begin in it.
        if (committed == SeatsLib.first(r.seats)) {
            r.commitEnd = now_ - 1;
            (, uint32 revealTime) = PARAMS.roundTimes(d.paramsVersion);
            r.revealEnd = now_ + revealTime;
        }
        emit Committed(c.dispute, c.round, voter, mask, c.commitment);
        return true;
    }

    function _seatsOf(Case storage d, RoundData storage r, address voter) private view returns (uint256) {
        (bool has, uint16 place) = d.tree.placeOf(voter);
        return has ? r.places.maskOf(r.seats, place) : 0;
    }

    /// @dev What is stored of a commitment binds who made it with which seats: nobody else's opens it, and a reveal needs
    ///      not look again at who holds the seats.
    function _seal(bytes32 commitment, address voter, uint256 seatMask) private pure returns (bytes32) {
        return keccak256(abi.encode(commitment, voter, seatMask));
    }

    /// @dev Votes are shown after the commits and until the end of reveals, each in its round.
    function _voting(bytes32 id, uint16 round, address voter)
        private
        view
        returns (Case storage d, RoundData storage r)
    {
        uint40 now_ = _runningClock();
        d = _inPhase(id, Phase.COMMIT);
        r = _rounds[id][d.round];
        if (now_ <= r.commitEnd) revert TooEarly(now_, uint256(r.commitEnd) + 1);
        if (now_ > r.revealEnd) revert TooLate(now_, r.revealEnd);
        if (round != d.round) revert ForeignVote(id, round, voter);
    }

    /// @dev Holders of the seated who did not sign. A member whose seats sign in part could not reveal the rest.
    function _absent(Case storage d, RoundData storage r, Certificate.Proof calldata proof)
        private
        view
        returns (address[] memory)
    {
        uint256 mask = proof.seated & ~proof.signers;
        uint16[] memory absent = new uint16[](mask.size());
        if (absent.length == 0) return new address[](0);
        uint16[] memory places = r.places.all(r.seats);
        uint256 used = 0;
        uint256 signing = places.marks(proof.signers);
        for (uint256 seat = 0; seat < places.length; ++seat) {
            if (mask & (1 << seat) == 0) continue;
            // All seats of the round are read for whoever may also have signed, and not for everybody who is absent.
            if (signing & SeatsLib.mark(places[seat]) != 0) {
                uint256 own = places.maskIn(places[seat]);
                if (own & proof.signers != 0) revert WrongSeatMask(own & proof.signers, own);
            }
            absent[used++] = places[seat];
        }
        return d.tree.accountsAt(absent);
    }

    /// @dev The voter's own seats, closed until now, open to what it committed to.
    function _open(Case storage d, RoundData storage r, Vote calldata vote, bytes calldata quote) private {
        Said memory said = _said(_findingOf(vote));
        // A machine without a quote still votes; it may lose its fee for it later (design section 7).
        bytes32 quoteHash = quote.length == 0 ? bytes32(0) : keccak256(quote);
        if (quoteHash != vote.quoteHash) revert BadQuote(quoteHash, vote.quoteHash);
        r.words[vote.seatMask.lowest()] = said.group;
        r.opened |= vote.seatMask;
        uint256 seats = vote.seatMask.size();
        // Safe: a round has at most 255 seats.
        r.groups[said.group] = Group(uint8(r.groups[said.group].seats + seats), said.outcome);
        _count(d, r, said, seats);
        emit Revealed(vote.dispute, vote.round, vote.voter, vote, quote);
    }

    /// @dev Adds seats of one group to the tally. Counts only grow, and a group leads once it is larger than any before.
    function _count(Case storage d, RoundData storage r, Said memory said, uint256 seats) private {
        bytes32 key = TallyLib.keyOf(said.outcome, said.code, said.outHash);
        uint256 size = _sizeOf(r, said.group);
        bytes32 largest = r.largest[key];
        if (largest != said.group && size > _sizeOf(r, largest)) r.largest[key] = said.group;
        // Narrowing is safe: a round has at most 255 seats.
        if (said.outcome == Outcome.UNAVAILABLE) {
            r.unavailable += uint8(seats);
        } else if (said.outcome == Outcome.NO_KEY) {
            r.noKey += uint8(seats);
        } else if (said.outcome == Outcome.CANNOT_EXECUTE) {
            r.cannotExecute += uint8(seats);
        } else if (said.outcome == Outcome.EXECUTED && _isEqual(d, said)) {
            if (size > r.equal) r.equal = uint8(size);
        } else if (size > r.lead) {
            (r.lead, r.leadOutcome, r.leadCode) = (uint8(size), said.outcome, said.code);
            if (r.leadOutHash != said.outHash) r.leadOutHash = said.outHash;
        }
    }

    /// @dev Equal to the receipt in both fields, which its operator signs apart: another tokensHash beside the true outHash is a lie too.
    function _isEqual(Case storage d, Said memory said) private view returns (bool) {
        return said.outHash == d.claimed && said.tokensHash == d.claimedTokens;
    }

    function _findingOf(Vote calldata v) private pure returns (Finding memory) {
        return Finding(v.dispute, v.round, v.outcome, v.code, v.tokensHash, v.traceRoot, v.roundDigest);
    }

    /// @dev What a finding says, in the one form that it may have: equal findings are equal bytes.
    function _said(Finding memory f) private pure returns (Said memory said) {
        bool executed = f.outcome == uint8(Outcome.EXECUTED);
        bool coded = f.outcome == uint8(Outcome.INVALID) || f.outcome == uint8(Outcome.CANNOT_EXECUTE);
        bool bare = f.tokensHash | f.traceRoot | f.roundDigest == 0;
        bool known = f.outcome != 0 && f.outcome <= uint8(type(Outcome).max);
        if (!known || (!executed && !bare) || (!coded && f.code != 0)) revert MalformedVote(f.outcome, f.code);
        (said.outcome, said.code) = (Outcome(f.outcome), f.code);
        if (executed) {
            (said.tokensHash, said.outHash) = (f.tokensHash, StructHashes.outHash(f.tokensHash, f.traceRoot));
        }
        said.group = TallyLib.groupOf(f.outcome, f.code, f.tokensHash, f.traceRoot, f.roundDigest);
    }
}
