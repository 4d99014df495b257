// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";
import {MessageHashUtils} from "@openzeppelin/contracts/utils/cryptography/MessageHashUtils.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {RoundStore} from "./RoundStore.sol";
import {Bls} from "../libraries/Bls.sol";
import {CommitTree} from "../libraries/CommitTree.sol";
import {SeatsLib} from "../libraries/SeatsLib.sol";
import {Certified as CertifiedStruct} from "../libraries/Signed.sol";
import {TallyLib} from "../libraries/TallyLib.sol";
import {Commit, Finding, Outcome, StructHashes, Vote} from "../libraries/Types.sol";
import {IBlsKeys} from "../interfaces/IBlsKeys.sol";
import {IDisputes} from "../interfaces/IDisputes.sol";
import {IGuardian} from "../interfaces/IGuardian.sol";
import {IParams} from "../interfaces/IParams.sol";
import {IRounds} from "../interfaces/IRounds.sol";
import {IStakeTree} from "../interfaces/IStakeTree.sol";

/// @title Rounds: seats, commitments, votes and certificates of every round, counted as they come
/// @dev States of a round: waiting -seat (last)-> commits until `commitEnd` -time, or everybody committed-> reveals until
///        `revealEnd` -close-> counted; rearm forgets the seats of a round that waits. A round that is seated and not counted is
///        the running one of its dispute, so no vote asks the court.
///      Money: none.
///      Invariants (docs/reference/contracts.md, section 6):
///
///      I16 DRAWN FIRST: Each seat is drawn once, before the first commitment.
///      I17 TALLY: The tally is every seat once.
///      I20 OWN VOTE: Nobody opens the commitment of another, or another vote than was committed to.
///      I23 CERTIFICATE: A certificate is the votes of its signers.
///
///      A vote, a commitment and a finding are decoded to memory once: hash, count and event read the same copy.
contract Rounds is RoundStore {
    using SeatsLib for uint256;
    using SeatsLib for uint256[16];
    using SeatsLib for uint16[];

    /// @dev A finding as it is counted.
    struct Said {
        Outcome outcome;
        uint8 code;
        bool isEqual; // to the receipt, in both fields, which its operator signs apart
        bytes32 outHash; // EXECUTED only
        bytes32 group;
    }

    /// @dev Relayed at once: 14.0 million gas, of the 16,777,216 that a transaction may use (EIP-7825).
    uint256 private constant MAX_COMMITS = 200;
    bytes32 private constant COMMIT =
        keccak256("Commit(bytes32 dispute,uint16 round,uint256 seatMask,bytes32 commitment)");
    bytes32 private constant DOMAIN =
        keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)");
    bytes32 private constant NAME = keccak256("Bytewise");
    bytes32 private constant VERSION = keccak256("1");

    IParams private immutable PARAMS;
    IGuardian private immutable GUARDIAN;
    IBlsKeys public immutable KEYS;

    modifier onlyCourt() {
        _requireCourt();
        _;
    }

    constructor(IParams params, IGuardian guardian, IBlsKeys keys) {
        (PARAMS, GUARDIAN, KEYS) = (params, guardian, keys);
    }

    /// @notice Name the court. Once, by the deployer.
    function wire(IDisputes disputes_) external wiring {
        disputes = IDisputes(_nonZero(address(disputes_)));
    }

    // --- the court's own calls ---

    /// @inheritdoc IRounds
    function begin(bytes32 id, bytes32 claim) external onlyCourt {
        claimOf[id] = claim;
    }

    /// @inheritdoc IRounds
    function rearm(bytes32 id, uint16 round) external onlyCourt {
        RoundData storage r = _rounds[id][round];
        (r.rearms, r.drawn) = (r.rearms + 1, 0);
    }

    /// @inheritdoc IRounds
    function seat(bytes32 id, uint16 round, Seating calldata s) external onlyCourt {
        RoundData storage r = _rounds[id][round];
        r.places.write(s.from, s.places);
        (r.level, r.seats, r.seedBlock) = (s.level, s.seats, s.seedBlock);
        // Safe: at most `seats`.
        (r.drawn, r.commitEnd, r.revealEnd) = (uint8(s.from + s.places.length), s.commitEnd, s.revealEnd);
        if (s.roundSeed != bytes32(0)) r.roundSeed = s.roundSeed;
    }

    /// @inheritdoc IRounds
    function close(bytes32 id, uint16 round) external onlyCourt returns (Tally memory, uint8) {
        RoundData storage r = _rounds[id][round];
        uint40 now_ = _runningClock();
        _requireAfter(now_, r.commitEnd);
        if (!_revealsClosed(r, now_)) revert TooEarly(now_, uint256(r.revealEnd) + 1);
        r.settled = true;
        return (_tallyOf(r), r.seats);
    }

    // --- commitments ---

    /// @inheritdoc IRounds
    function commit(bytes32 id, uint256 seatMask, bytes32 commitment) external {
        (IStakeTree tree, uint16 round,) = _votingOf(id);
        if (!_commit(Commit(id, round, seatMask, commitment), msg.sender, _runningClock(), tree)) {
            revert AlreadyCommitted(id, round, msg.sender);
        }
    }

    /// @inheritdoc IRounds
    function commitFor(Commit[] calldata commits, address[] calldata voters, bytes[] calldata sigs) external {
        uint40 now_ = _runningClock();
        if (commits.length > MAX_COMMITS) revert TooManyCommits(commits.length, MAX_COMMITS);
        if (voters.length != commits.length || sigs.length != commits.length) {
            revert LengthMismatch(commits.length, voters.length, sigs.length);
        }
        bytes32 id;
        IStakeTree tree;
        for (uint256 i = 0; i < commits.length; ++i) {
            Commit memory c = commits[i];
            // Most are of one dispute.
            if (i == 0 || c.dispute != id) {
                id = c.dispute;
                (tree,,) = _votingOf(id);
            }
            (address recovered, ECDSA.RecoverError err,) = ECDSA.tryRecoverCalldata(hashCommit(c), sigs[i]);
            if (err != ECDSA.RecoverError.NoError || recovered != voters[i]) revert BadSignature(recovered, voters[i]);
            _commit(c, voters[i], now_, tree);
        }
    }

    /// @inheritdoc IRounds
    function postCommitRoot(bytes32 id, bytes32 root) external {
        uint40 now_ = _runningClock();
        (IStakeTree tree, uint16 round,) = _votingOf(id);
        RoundData storage r = _votable(id, round);
        _requireBy(now_, r.commitEnd);
        if (root == bytes32(0)) revert EmptyCommitment();
        // Reverts for a stranger, who could be first with a root of nothing.
        _seatsOf(tree, r, id, round, msg.sender);
        // Only the first opens to single votes: with several to choose from, a member would not be bound to one.
        if (r.roots[root] == Root.NONE) r.roots[root] = r.rooted ? Root.LATER : Root.FIRST;
        r.rooted = true;
        emit CommitRootPosted(id, round, root, msg.sender);
    }

    // --- votes ---

    /// @inheritdoc IRounds
    function reveal(Vote memory vote, bytes calldata quote) external {
        RoundData storage r = _voting(vote.dispute, vote.round);
        if (!_reveal(r, vote, quote)) {
            revert AlreadyRevealed(vote.dispute, vote.round, vote.voter);
        }
    }

    /// @inheritdoc IRounds
    function revealMany(Vote[] calldata votes, bytes[] calldata quotes) external {
        if (votes.length != quotes.length || votes.length == 0) {
            revert LengthMismatch(votes.length, quotes.length, quotes.length);
        }
        (bytes32 id, uint16 round) = (votes[0].dispute, votes[0].round);
        RoundData storage r = _voting(id, round);
        for (uint256 i = 0; i < votes.length; ++i) {
            Vote memory vote = votes[i];
            if (vote.dispute != id || vote.round != round) revert ForeignVote(vote.dispute, vote.round, vote.voter);
            // Who runs ahead with one of them does not spoil the others.
            _reveal(r, vote, quotes[i]);
        }
    }

    /// @inheritdoc IRounds
    function revealUnderRoot(Vote memory vote, bytes calldata quote, bytes32[8] calldata proof) external {
        RoundData storage r = _voting(vote.dispute, vote.round);
        // Anybody can put anything under a root: it is the voter's word only if the voter shows it.
        if (msg.sender != vote.voter) revert NotVoter(msg.sender, vote.voter);
        (IStakeTree tree,,) = _votingOf(vote.dispute);
        uint256 mask = _seatsOf(tree, r, vote.dispute, vote.round, vote.voter);
        if (mask != vote.seatMask) revert WrongSeatMask(vote.seatMask, mask);
        if (_revealed(r) & mask != 0) revert AlreadyRevealed(vote.dispute, vote.round, vote.voter);
        if (r.committed & mask != 0) revert CommittedThemselves(vote.dispute, vote.round, mask);
        bytes32 root = CommitTree.rootOf(_seal(hashVote(vote), vote.voter, mask), mask, proof);
        if (r.roots[root] != Root.FIRST) revert UnknownRoot(root);
        _open(r, vote, quote);
    }

    /// @inheritdoc IRounds
    function certify(
        Finding memory f,
        bytes32 commitRoot,
        uint256 signers,
        Bls.G1[] calldata keys,
        Bls.G2 calldata signature
    ) external {
        RoundData storage r = _voting(f.dispute, f.round);
        if (r.certified != Outcome.NONE) revert AlreadyCertified(f.dispute, f.round);
        if (r.roots[commitRoot] == Root.NONE) revert UnknownRoot(commitRoot);
        address tree = _checkMask(r, f, signers);
        _checkSignature(r, tree, _digestOf(f, commitRoot, signers), signers, keys, signature);
        // A signer that has opened its vote is counted for that, and cannot spoil the certificate of the others.
        uint256 counted = signers & ~r.opened;
        if (counted == 0) revert NoProgress(f.dispute);
        Said memory said = _said(f);
        (r.certified, r.certifiedEqual) = (said.outcome, said.isEqual);
        if (counted != SeatsLib.first(r.seats)) r.certifiedMask = counted;
        r.certifiedGroup = said.group;
        _count(r, said, counted.size());
        emit Certified(f.dispute, f.round, f, counted, uint16(counted.size()));
    }

    // --- hashes and time ---

    /// @inheritdoc IRounds
    function domainSeparator() public view returns (bytes32) {
        return keccak256(abi.encode(DOMAIN, NAME, VERSION, block.chainid, disputes));
    }

    /// @inheritdoc IRounds
    function hashVote(Vote memory vote) public view returns (bytes32) {
        return MessageHashUtils.toTypedDataHash(domainSeparator(), StructHashes.vote(vote));
    }

    /// @inheritdoc IRounds
    function hashCommit(Commit memory commit_) public view returns (bytes32) {
        return MessageHashUtils.toTypedDataHash(domainSeparator(), keccak256(abi.encode(COMMIT, commit_)));
    }

    /// @inheritdoc IRounds
    function votingOf(bytes32 id, uint16 round) external view returns (uint40 commitEnd, bool isClosed) {
        RoundData storage r = _rounds[id][round];
        commitEnd = r.commitEnd;
        isClosed = commitEnd != 0 && _revealsClosed(r, SafeCast.toUint40(GUARDIAN.clock()));
    }

    // --- parts of the steps ---

    /// @dev False if the voter has committed already.
    function _commit(Commit memory c, address voter, uint40 now_, IStakeTree tree) private returns (bool) {
        RoundData storage r = _votable(c.dispute, c.round);
        uint256 mask = _seatsOf(tree, r, c.dispute, c.round, voter);
        uint256 committed = r.committed;
        // Before the clock is asked: who runs ahead of a relay may have ended the phase for the rest of it.
        if (committed & mask != 0) return false;
        _requireBy(now_, r.commitEnd);
        if (mask != c.seatMask) revert WrongSeatMask(c.seatMask, mask);
        if (c.commitment == bytes32(0)) revert EmptyCommitment();
        committed |= mask;
        r.committed = committed;
        r.words[mask.lowest()] = _seal(c.commitment, voter, mask);
        // Nobody is left to wait for: commits end before this second, reveals begin in it.
        if (committed == SeatsLib.first(r.seats)) {
            // The draw set both ends by the dispute's parameters.
            uint40 revealTime = r.revealEnd - r.commitEnd;
            r.commitEnd = now_ - 1;
            r.revealEnd = now_ + revealTime;
        }
        emit Committed(c.dispute, c.round, voter, mask, c.commitment);
        return true;
    }

    /// @dev False if the vote is open already.
    function _reveal(RoundData storage r, Vote memory vote, bytes calldata quote) private returns (bool) {
        uint256 first = vote.seatMask.lowest();
        if (_revealed(r) & first != 0) return false;
        bytes32 want = r.words[first];
        if (want == bytes32(0)) revert NotCommitted(vote.dispute, vote.round, vote.voter);
        bytes32 have = _seal(hashVote(vote), vote.voter, vote.seatMask);
        if (have != want) revert BadReveal(have, want);
        _open(r, vote, quote);
        return true;
    }

    /// @dev The voter's own seats, closed until now, open to what it committed to.
    function _open(RoundData storage r, Vote memory vote, bytes calldata quote) private {
        Said memory said = _said(_findingOf(vote));
        // A machine without a quote still votes; it may lose its fee for it later (design section 7).
        bytes32 quoteHash = quote.length == 0 ? bytes32(0) : keccak256(quote);
        if (quoteHash != vote.quoteHash) revert BadQuote(quoteHash, vote.quoteHash);
        r.words[vote.seatMask.lowest()] = said.group;
        r.opened |= vote.seatMask;
        uint256 seats = vote.seatMask.size();
        // Safe: a round has at most 255 seats.
        Group storage group = r.groups[said.group];
        (group.seats, group.outcome) = (uint8(group.seats + seats), said.outcome);
        _count(r, said, seats);
        emit Revealed(vote.dispute, vote.round, vote.voter, vote, quote);
    }

    /// @dev Adds seats of one group to the tally. Counts only grow, and a group leads once it is larger than any before.
    function _count(RoundData storage r, Said memory said, uint256 seats) private {
        bytes32 key = said.isEqual ? EQUAL : TallyLib.keyOf(said.outcome, said.code, said.outHash);
        uint256 size = _sizeOf(r, said.group);
        bytes32 largest = _largestOf(r, key);
        if (largest != said.group && size > _sizeOf(r, largest)) r.largest[key] = said.group;
        // Narrowing is safe: a round has at most 255 seats.
        if (said.outcome == Outcome.UNAVAILABLE) {
            r.unavailable += uint8(seats);
        } else if (said.outcome == Outcome.NO_KEY) {
            r.noKey += uint8(seats);
        } else if (said.outcome == Outcome.CANNOT_EXECUTE) {
            r.cannotExecute += uint8(seats);
        } else if (said.isEqual) {
            if (size > r.equal) r.equal = uint8(size);
        } else if (size > r.lead) {
            (r.lead, r.leadOutcome, r.leadCode) = (uint8(size), said.outcome, said.code);
            if (r.leadOutHash != said.outHash) r.leadOutHash = said.outHash;
        }
    }

    /// @dev Seats that may sign, and a quorum of them. Gives the pool's tree.
    function _checkMask(RoundData storage r, Finding memory f, uint256 signers) private view returns (address) {
        uint256 seats = r.seats;
        if (signers & ~SeatsLib.first(seats) != 0) revert NoSuchSeat(signers, seats);
        // Who committed itself is bound to that, and reveals it.
        uint256 themselves = signers & r.committed;
        if (themselves != 0) revert CommittedThemselves(f.dispute, f.round, themselves);
        (IStakeTree tree,, uint32 paramsVersion) = _votingOf(f.dispute);
        uint256 quorum = PARAMS.quorum(paramsVersion, seats);
        if (signers.size() < quorum) revert QuorumNotMet(signers.size(), quorum);
        return address(tree);
    }

    /// @dev What the signers of a finding sign; never bytes that a caller supplies. Everybody signs for the seats of all.
    function _digestOf(Finding memory f, bytes32 commitRoot, uint256 signers) private view returns (bytes32) {
        bytes32 signed = StructHashes.certified(CertifiedStruct(StructHashes.finding(f), commitRoot, signers));
        return MessageHashUtils.toTypedDataHash(domainSeparator(), signed);
    }

    function _checkSignature(
        RoundData storage r,
        address tree,
        bytes32 digest,
        uint256 signers,
        Bls.G1[] calldata keys,
        Bls.G2 calldata signature
    ) private view {
        uint16[] memory places = _placesOf(r, signers);
        // Keys count as of the block before the seed's: nobody can change the committee once its seats are known.
        KEYS.checkSigners(tree, places, r.seedBlock - 1, keys, digest, signature);
    }

    /// @dev Places of the seats that sign. A member whose seats sign in part could not reveal the rest.
    function _placesOf(RoundData storage r, uint256 signers) private view returns (uint16[] memory mine) {
        uint16[] memory places = r.places.all(r.seats);
        if (signers == SeatsLib.first(r.seats)) return places;
        mine = new uint16[](signers.size());
        // All seats of the round are read for whoever may also have signed, and not for everybody who is absent.
        uint256 marks = places.marks(signers);
        uint256 used = 0;
        for (uint256 i = 0; i < places.length; ++i) {
            if (signers & (1 << i) != 0) {
                mine[used++] = places[i];
            } else if (marks & SeatsLib.mark(places[i]) != 0) {
                uint256 own = places.maskIn(places[i]);
                if (own & signers != 0) revert WrongSeatMask(own & signers, own);
            }
        }
    }

    /// @dev The running round of a dispute, seated.
    function _votable(bytes32 id, uint16 round) private view returns (RoundData storage r) {
        r = _rounds[id][round];
        if (r.commitEnd == 0 || r.settled) revert NotVoting(id, round);
    }

    /// @dev Votes are shown after the commits and until the end of reveals, each in its round.
    function _voting(bytes32 id, uint16 round) private view returns (RoundData storage r) {
        uint40 now_ = _runningClock();
        r = _votable(id, round);
        _requireAfter(now_, r.commitEnd);
        _requireBy(now_, r.revealEnd);
    }

    /// @dev All seats of a member of the round. Reverts for anybody else.
    function _seatsOf(IStakeTree tree, RoundData storage r, bytes32 id, uint16 round, address voter)
        private
        view
        returns (uint256 mask)
    {
        (bool has, uint16 place) = tree.placeOf(voter);
        if (has) mask = r.places.maskOf(r.seats, place);
        if (mask == 0) revert NotMember(id, round, voter);
    }

    /// @dev What is stored of a commitment binds who made it with which seats: nobody else's opens it, and a reveal needs
    ///      not look again at who holds the seats.
    function _seal(bytes32 commitment, address voter, uint256 seatMask) private pure returns (bytes32) {
        return keccak256(abi.encode(commitment, voter, seatMask));
    }

    /// @dev What a finding says, in the one form that it may have: equal findings are equal bytes.
    function _said(Finding memory f) private view returns (Said memory said) {
        bool executed = f.outcome == uint8(Outcome.EXECUTED);
        bool coded = f.outcome == uint8(Outcome.INVALID) || f.outcome == uint8(Outcome.CANNOT_EXECUTE);
        bool bare = f.tokensHash | f.traceRoot | f.roundDigest == 0;
        bool known = f.outcome != 0 && f.outcome <= uint8(type(Outcome).max);
        if (!known || (!executed && !bare) || (!coded && f.code != 0)) revert MalformedVote(f.outcome, f.code);
        (said.outcome, said.code) = (Outcome(f.outcome), f.code);
        if (executed) {
            said.outHash = StructHashes.outHash(f.tokensHash, f.traceRoot);
            said.isEqual = StructHashes.claim(f.tokensHash, said.outHash) == claimOf[f.dispute];
        }
        said.group = TallyLib.groupOf(f.outcome, f.code, f.tokensHash, f.traceRoot, f.roundDigest);
    }

    function _findingOf(Vote memory v) private pure returns (Finding memory) {
        return Finding(v.dispute, v.round, v.outcome, v.code, v.tokensHash, v.traceRoot, v.roundDigest);
    }

    function _requireCourt() private view {
        if (msg.sender != address(disputes)) revert NotAuthorised(msg.sender);
    }

    function _requireAfter(uint40 now_, uint40 end) private pure {
        if (now_ <= end) revert TooEarly(now_, uint256(end) + 1);
    }

    function _requireBy(uint40 now_, uint40 end) private pure {
        if (now_ > end) revert TooLate(now_, end);
    }

    function _runningClock() private view returns (uint40) {
        return SafeCast.toUint40(GUARDIAN.runningClock());
    }
}
