// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";
import {MessageHashUtils} from "@openzeppelin/contracts/utils/cryptography/MessageHashUtils.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {Bls} from "../libraries/Bls.sol";
import {CommitTree} from "../libraries/CommitTree.sol";
import {SeatsLib} from "../libraries/SeatsLib.sol";
import {Certified as CertifiedStruct} from "../libraries/Signed.sol";
import {TallyLib} from "../libraries/TallyLib.sol";
import {Commit, Finding, Outcome, Phase, Standing, StructHashes, Verdict, Vote} from "../libraries/Types.sol";
import {Wired} from "../libraries/Wired.sol";
import {IBlsKeys} from "../interfaces/IBlsKeys.sol";
import {IDisputes} from "../interfaces/IDisputes.sol";
import {IGuardian} from "../interfaces/IGuardian.sol";
import {IParams} from "../interfaces/IParams.sol";
import {IRounds} from "../interfaces/IRounds.sol";
import {IStakeTree} from "../interfaces/IStakeTree.sol";

/// @title Rounds: seats, commitments, votes and certificates of every round, counted as they come
/// @dev A round: begun -seat (last)-> commits until `commitEnd` -time, or everybody committed-> reveals until `revealEnd`
///      -close-> counted. rearm leads back to begun while seats are drawn. A round that is seated and not counted is the
///      running one of its dispute, so no vote asks the court. No money moves.
contract Rounds is IRounds, Wired {
    using SeatsLib for uint256;
    using SeatsLib for uint256[16];
    using SeatsLib for uint16[];

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
        bool certifiedEqual; // it found the claim
        uint8 equal; // these as in `Tally`
        uint8 lead;
        uint8 unavailable;
        uint8 noKey;
        uint8 cannotExecute;
        Outcome leadOutcome;
        uint8 leadCode;
        bytes32 roundSeed;
        uint256 committed; // mask of seats
        uint256 opened; // mask of seats that revealed directly
        uint256 certifiedMask; // of seats that the certificate counts for
        bytes32 certifiedGroup;
        bytes32 leadOutHash;
        uint256[16] places; // `SeatsLib`
        mapping(uint256 firstSeat => bytes32) words; // of a member: sealed commitment, then group
        mapping(bytes32 group => Group) groups;
        mapping(bytes32 key => bytes32) largest; // group; the first that got so large; see `_largestOf`
        mapping(bytes32 root => Root) roots;
    }

    /// @dev A finding as it is counted.
    struct Said {
        Outcome outcome;
        uint8 code;
        bool isEqual; // to the receipt, in both fields, which its operator signs apart
        bytes32 outHash; // EXECUTED only
        bytes32 group;
    }

    /// @dev What the standings of all seats of a round follow from.
    struct Finals {
        bool calm; // an end without penalties
        bool opened; // a later committee had the key, and decided by what it opened
        Outcome certified;
        uint256 committed; // masks of seats; whom a root may bind counts
        uint256 revealed;
        uint256 certifiedMask;
        bytes32 certifiedGroup; // these groups
        bytes32 right;
        bytes32 alsoRight;
    }

    /// @dev Relayed at once: 14.0 million gas, of the 16,777,216 that a transaction may use (EIP-7825).
    uint256 private constant MAX_COMMITS = 200;
    bytes32 private constant COMMIT =
        keccak256("Commit(bytes32 dispute,uint16 round,uint256 seatMask,bytes32 commitment)");
    bytes32 private constant DOMAIN =
        keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)");
    bytes32 private constant NAME = keccak256("Bytewise");
    bytes32 private constant VERSION = keccak256("1");
    /// @dev In `largest`, for every vote that is equal to the receipt. No hash is this number.
    bytes32 private constant EQUAL = bytes32(uint256(1));

    IParams public immutable PARAMS;
    IGuardian public immutable GUARDIAN;
    IBlsKeys public immutable KEYS;

    /// @notice The court whose rounds these are.
    IDisputes public disputes;

    /// @inheritdoc IRounds
    mapping(bytes32 id => bytes32) public claimOf;
    mapping(bytes32 id => mapping(uint16 round => RoundData)) private _rounds;

    modifier onlyCourt() {
        if (msg.sender != address(disputes)) revert NotAuthorised(msg.sender);
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
    function begin(bytes32 id, uint16 round, uint8 level, uint8 seats, uint40 seedBlock, bytes32 claim)
        external
        onlyCourt
    {
        if (claim != bytes32(0)) claimOf[id] = claim;
        RoundData storage r = _rounds[id][round];
        (r.level, r.seats, r.seedBlock) = (level, seats, seedBlock);
    }

    /// @inheritdoc IRounds
    function rearm(bytes32 id, uint16 round, uint40 seedBlock) external onlyCourt {
        RoundData storage r = _rounds[id][round];
        (r.seedBlock, r.rearms, r.drawn) = (seedBlock, r.rearms + 1, 0);
    }

    /// @inheritdoc IRounds
    function seat(
        bytes32 id,
        uint16 round,
        uint8 from,
        uint16[] calldata places,
        uint40 commitEnd,
        uint40 revealEnd,
        bytes32 roundSeed
    ) external onlyCourt {
        RoundData storage r = _rounds[id][round];
        r.places.write(from, places);
        // Safe: at most `seats`.
        (r.drawn, r.commitEnd, r.revealEnd) = (uint8(from + places.length), commitEnd, revealEnd);
        if (roundSeed != bytes32(0)) r.roundSeed = roundSeed;
    }

    /// @inheritdoc IRounds
    function close(bytes32 id, uint16 round) external onlyCourt returns (Tally memory, uint8) {
        RoundData storage r = _rounds[id][round];
        uint40 now_ = _runningClock();
        if (now_ <= r.commitEnd) revert TooEarly(now_, uint256(r.commitEnd) + 1);
        if (!_revealsClosed(r, now_)) revert TooEarly(now_, uint256(r.revealEnd) + 1);
        r.settled = true;
        return (_tallyOf(r), r.seats);
    }

    // --- commitments ---

    /// @inheritdoc IRounds
    function commit(bytes32 id, uint256 seatMask, bytes32 commitment) external {
        (IStakeTree tree, uint16 round,) = disputes.votingOf(id);
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
            // Most are of one dispute.
            if (i == 0 || commits[i].dispute != id) {
                id = commits[i].dispute;
                (tree,,) = disputes.votingOf(id);
            }
            (address recovered, ECDSA.RecoverError err,) = ECDSA.tryRecoverCalldata(hashCommit(commits[i]), sigs[i]);
            if (err != ECDSA.RecoverError.NoError || recovered != voters[i]) revert BadSignature(recovered, voters[i]);
            _commit(commits[i], voters[i], now_, tree);
        }
    }

    /// @inheritdoc IRounds
    function postCommitRoot(bytes32 id, bytes32 root) external {
        uint40 now_ = _runningClock();
        (IStakeTree tree, uint16 round,) = disputes.votingOf(id);
        RoundData storage r = _votable(id, round);
        if (now_ > r.commitEnd) revert TooLate(now_, r.commitEnd);
        if (root == bytes32(0)) revert EmptyCommitment();
        // Or a stranger could be first with a root of nothing.
        if (_seatsOf(tree, r, msg.sender) == 0) revert NotMember(id, round, msg.sender);
        // Only the first opens to single votes: with several to choose from, a member would not be bound to one.
        if (r.roots[root] == Root.NONE) r.roots[root] = r.rooted ? Root.LATER : Root.FIRST;
        r.rooted = true;
        emit CommitRootPosted(id, round, root, msg.sender);
    }

    // --- votes ---

    /// @inheritdoc IRounds
    function reveal(Vote calldata vote, bytes calldata quote) external {
        RoundData storage r = _voting(vote.dispute, vote.round);
        if (!_reveal(r, claimOf[vote.dispute], vote, quote)) {
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
        bytes32 claim = claimOf[id];
        for (uint256 i = 0; i < votes.length; ++i) {
            if (votes[i].dispute != id || votes[i].round != round) {
                revert ForeignVote(votes[i].dispute, votes[i].round, votes[i].voter);
            }
            // Who runs ahead with one of them does not spoil the others.
            _reveal(r, claim, votes[i], quotes[i]);
        }
    }

    /// @inheritdoc IRounds
    function revealUnderRoot(Vote calldata vote, bytes calldata quote, bytes32[8] calldata proof) external {
        RoundData storage r = _voting(vote.dispute, vote.round);
        // Anybody can put anything under a root: it is the voter's word only if the voter shows it.
        if (msg.sender != vote.voter) revert NotVoter(msg.sender, vote.voter);
        (IStakeTree tree,,) = disputes.votingOf(vote.dispute);
        uint256 mask = _seatsOf(tree, r, vote.voter);
        if (mask == 0) revert NotMember(vote.dispute, vote.round, vote.voter);
        if (mask != vote.seatMask) revert WrongSeatMask(vote.seatMask, mask);
        if (_revealed(r) & mask != 0) revert AlreadyRevealed(vote.dispute, vote.round, vote.voter);
        if (r.committed & mask != 0) revert CommittedThemselves(vote.dispute, vote.round, mask);
        bytes32 root = CommitTree.rootOf(_seal(hashVote(vote), vote.voter, mask), mask, proof);
        if (r.roots[root] != Root.FIRST) revert UnknownRoot(root);
        _open(r, claimOf[vote.dispute], vote, quote);
    }

    /// @inheritdoc IRounds
    function certify(
        Finding calldata f,
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
        Said memory said = _said(claimOf[f.dispute], f);
        (r.certified, r.certifiedEqual) = (said.outcome, said.isEqual);
        (r.certifiedMask, r.certifiedGroup) = (counted, said.group);
        _count(r, said, counted.size());
        emit Certified(f.dispute, f.round, f, counted, uint16(counted.size()));
    }

    // --- hashes ---

    /// @inheritdoc IRounds
    function domainSeparator() public view returns (bytes32) {
        return keccak256(abi.encode(DOMAIN, NAME, VERSION, block.chainid, disputes));
    }

    /// @inheritdoc IRounds
    function hashVote(Vote calldata vote) public view returns (bytes32) {
        return MessageHashUtils.toTypedDataHash(domainSeparator(), StructHashes.vote(vote));
    }

    /// @inheritdoc IRounds
    function hashCommit(Commit calldata commit_) public view returns (bytes32) {
        return MessageHashUtils.toTypedDataHash(domainSeparator(), keccak256(abi.encode(COMMIT, commit_)));
    }

    // --- views ---

    /// @inheritdoc IRounds
    function roundOf(bytes32 id, uint16 round) external view returns (Round memory out) {
        RoundData storage r = _rounds[id][round];
        (out.seedBlock, out.commitEnd, out.revealEnd) = (r.seedBlock, r.commitEnd, r.revealEnd);
        (out.seats, out.drawn, out.level, out.rearms) = (r.seats, r.drawn, r.level, r.rearms);
        (out.settled, out.committedMask, out.revealedMask) = (r.settled, r.committed, _revealed(r));
        (out.roundSeed, out.certifiedGroup, out.certifiedMask) = (r.roundSeed, r.certifiedGroup, r.certifiedMask);
    }

    /// @inheritdoc IRounds
    function seatingOf(bytes32 id, uint16 round) external view returns (uint40, uint8, uint8, uint8) {
        RoundData storage r = _rounds[id][round];
        return (r.seedBlock, r.seats, r.drawn, r.rearms);
    }

    /// @inheritdoc IRounds
    function votingOf(bytes32 id, uint16 round) external view returns (uint40 commitEnd, bool isClosed) {
        RoundData storage r = _rounds[id][round];
        commitEnd = r.commitEnd;
        isClosed = commitEnd != 0 && _revealsClosed(r, SafeCast.toUint40(GUARDIAN.clock()));
    }

    /// @inheritdoc IRounds
    function membersOf(bytes32 id, uint16 round) external view returns (Member[] memory members) {
        RoundData storage r = _rounds[id][round];
        uint16[] memory places = r.places.all(r.drawn);
        if (places.length == 0) return members;
        address[] memory holders = disputes.standpointOf(id).tree.accountsAt(places);
        members = new Member[](places.length);
        uint256 count = 0;
        uint256 seen = 0;
        for (uint256 i = 0; i < places.length; ++i) {
            if (seen & (1 << i) != 0) continue;
            uint256 mask = places.maskIn(places[i]);
            seen |= mask;
            members[count++] = _memberAt(r, holders[i], mask);
        }
        assembly ("memory-safe") {
            mstore(members, count)
        }
    }

    /// @inheritdoc IRounds
    function tallyOf(bytes32 id, uint16 round) external view returns (Tally memory) {
        return _tallyOf(_rounds[id][round]);
    }

    /// @inheritdoc IRounds
    function leadOf(bytes32 id, uint16 round) external view returns (bytes32 key, bytes32 outHash) {
        RoundData storage r = _rounds[id][round];
        return (_leadKey(r), r.leadOutHash);
    }

    /// @inheritdoc IRounds
    function paidSeats(bytes32 id, uint16 round) external view returns (uint16 right, uint16 worked) {
        RoundData storage r = _rounds[id][round];
        IDisputes.Standpoint memory s = disputes.standpointOf(id);
        (bytes32 key, bytes32 second) = _rightKeys(id, s.verdict, s.decidedIn, s.isMixed);
        // Safe: at most 255 seats.
        right = uint16(_sizeOf(r, _largestOf(r, key)) + _sizeOf(r, _largestOf(r, second)));
        worked = uint16(_revealed(r).size() - r.noKey - r.cannotExecute);
    }

    /// @inheritdoc IRounds
    function standingOf(bytes32 id, uint16 round, uint16 seat_) external view returns (address, Standing) {
        (address[] memory holders, Standing[] memory standings) = standingsOf(id, round, seat_, 1);
        return holders.length == 1 ? (holders[0], standings[0]) : (address(0), Standing.NONE);
    }

    /// @inheritdoc IRounds
    function keysOf(bytes32 id, Verdict verdict, uint16 decidedIn, bool isMixed)
        external
        view
        returns (bytes32 key, bytes32 second)
    {
        (key, second) = _rightKeys(id, verdict, decidedIn, isMixed);
        if (key == EQUAL) key = bytes32(0);
    }

    /// @inheritdoc IRounds
    function standingsOf(bytes32 id, uint16 round, uint256 from, uint256 count)
        public
        view
        returns (address[] memory holders, Standing[] memory standings)
    {
        RoundData storage r = _rounds[id][round];
        uint16[] memory places = r.places.all(r.seats);
        if (from > places.length) from = places.length;
        if (count > places.length - from) count = places.length - from;
        standings = new Standing[](count);
        if (r.commitEnd == 0) return (new address[](count), standings);
        IDisputes.Standpoint memory s = disputes.standpointOf(id);
        holders = s.tree.accountsAt(count == places.length ? places : places.part(from, count));
        if (s.phase != Phase.FINAL) return (holders, standings);
        Finals memory f = _finalsOf(id, r, s);
        f.opened = round < s.decidedIn && s.verdict <= Verdict.INVALID;
        for (uint256 i = 0; i < count; ++i) {
            if (holders[i] != address(0)) standings[i] = _standing(r, f, places, from + i);
        }
    }

    // --- parts of the steps ---

    /// @dev False if the voter has committed already.
    function _commit(Commit memory c, address voter, uint40 now_, IStakeTree tree) private returns (bool) {
        RoundData storage r = _votable(c.dispute, c.round);
        uint256 mask = _seatsOf(tree, r, voter);
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
            (,, uint32 paramsVersion) = disputes.votingOf(c.dispute);
            (, uint32 revealTime) = PARAMS.roundTimes(paramsVersion);
            r.revealEnd = now_ + revealTime;
        }
        emit Committed(c.dispute, c.round, voter, mask, c.commitment);
        return true;
    }

    /// @dev False if the vote is open already.
    function _reveal(RoundData storage r, bytes32 claim, Vote calldata vote, bytes calldata quote)
        private
        returns (bool)
    {
        uint256 first = vote.seatMask.lowest();
        if (_revealed(r) & first != 0) return false;
        bytes32 want = r.words[first];
        if (want == bytes32(0)) revert NotCommitted(vote.dispute, vote.round, vote.voter);
        bytes32 have = _seal(hashVote(vote), vote.voter, vote.seatMask);
        if (have != want) revert BadReveal(have, want);
        _open(r, claim, vote, quote);
        return true;
    }

    /// @dev The voter's own seats, closed until now, open to what it committed to.
    function _open(RoundData storage r, bytes32 claim, Vote calldata vote, bytes calldata quote) private {
        Said memory said = _said(claim, _findingOf(vote));
        // A machine without a quote still votes; it may lose its fee for it later (design section 7).
        bytes32 quoteHash = quote.length == 0 ? bytes32(0) : keccak256(quote);
        if (quoteHash != vote.quoteHash) revert BadQuote(quoteHash, vote.quoteHash);
        r.words[vote.seatMask.lowest()] = said.group;
        r.opened |= vote.seatMask;
        uint256 seats = vote.seatMask.size();
        // Safe: a round has at most 255 seats.
        r.groups[said.group] = Group(uint8(r.groups[said.group].seats + seats), said.outcome);
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
    function _checkMask(RoundData storage r, Finding calldata f, uint256 signers) private view returns (address) {
        uint256 seats = r.seats;
        if (signers & ~SeatsLib.first(seats) != 0) revert NoSuchSeat(signers, seats);
        // Who committed itself is bound to that, and reveals it.
        uint256 themselves = signers & r.committed;
        if (themselves != 0) revert CommittedThemselves(f.dispute, f.round, themselves);
        (IStakeTree tree,, uint32 paramsVersion) = disputes.votingOf(f.dispute);
        uint256 quorum = PARAMS.quorum(paramsVersion, seats);
        if (signers.size() < quorum) revert QuorumNotMet(signers.size(), quorum);
        return address(tree);
    }

    /// @dev What the signers of a finding sign; never bytes that a caller supplies. Everybody signs for the seats of all.
    function _digestOf(Finding calldata f, bytes32 commitRoot, uint256 signers) private view returns (bytes32) {
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

    // --- what follows from what is stored ---

    /// @dev The running round of a dispute, seated.
    function _votable(bytes32 id, uint16 round) private view returns (RoundData storage r) {
        r = _rounds[id][round];
        if (r.commitEnd == 0 || r.settled) revert NotVoting(id, round);
    }

    /// @dev Votes are shown after the commits and until the end of reveals, each in its round.
    function _voting(bytes32 id, uint16 round) private view returns (RoundData storage r) {
        uint40 now_ = _runningClock();
        r = _votable(id, round);
        if (now_ <= r.commitEnd) revert TooEarly(now_, uint256(r.commitEnd) + 1);
        if (now_ > r.revealEnd) revert TooLate(now_, r.revealEnd);
    }

    /// @dev Reveals end early once nothing more can come. Of whom a root stands for nobody knows: each seat may still open.
    function _revealsClosed(RoundData storage r, uint40 now_) private view returns (bool) {
        if (now_ > r.revealEnd) return true;
        uint256 revealed = _revealed(r);
        if (revealed == SeatsLib.first(r.seats)) return true;
        return r.committed & ~revealed == 0 && !r.rooted;
    }

    function _seatsOf(IStakeTree tree, RoundData storage r, address voter) private view returns (uint256) {
        (bool has, uint16 place) = tree.placeOf(voter);
        return has ? r.places.maskOf(r.seats, place) : 0;
    }

    /// @dev Mask of seats whose vote is known, directly or by certificate.
    function _revealed(RoundData storage r) private view returns (uint256) {
        return r.certified == Outcome.NONE ? r.opened : r.opened | r.certifiedMask;
    }

    /// @dev Seats of a group, those of the certificate included.
    function _sizeOf(RoundData storage r, bytes32 group) private view returns (uint256 seats) {
        if (group == bytes32(0)) return 0;
        seats = r.groups[group].seats;
        if (r.certified != Outcome.NONE && group == r.certifiedGroup) seats += r.certifiedMask.size();
    }

    /// @dev The largest group that says `key`, or 0. A certificate for the claim, with no equal vote beside it, is not written.
    function _largestOf(RoundData storage r, bytes32 key) private view returns (bytes32 group) {
        if (key == bytes32(0)) return key;
        group = r.largest[key];
        if (group == bytes32(0) && key == EQUAL && r.certifiedEqual) group = r.certifiedGroup;
    }

    function _leadKey(RoundData storage r) private view returns (bytes32) {
        return r.lead == 0 ? bytes32(0) : TallyLib.keyOf(r.leadOutcome, r.leadCode, r.leadOutHash);
    }

    /// @dev Keys in `largest` of what a verdict says.
    function _rightKeys(bytes32 id, Verdict v, uint16 decidedIn, bool isMixed) private view returns (bytes32, bytes32) {
        if (v == Verdict.UPHELD) return (EQUAL, 0);
        if (v == Verdict.OVERTURNED || v == Verdict.INVALID) return (_leadKey(_rounds[id][decidedIn]), 0);
        if (v != Verdict.UNAVAILABLE) return (0, 0);
        return (TallyLib.keyOf(Outcome.UNAVAILABLE, 0, 0), isMixed ? _leadKey(_rounds[id][decidedIn]) : bytes32(0));
    }

    function _tallyOf(RoundData storage r) private view returns (Tally memory t) {
        if (r.commitEnd == 0) return t;
        (t.equal, t.lead, t.unavailable) = (r.equal, r.lead, r.unavailable);
        (t.noKey, t.cannotExecute) = (r.noKey, r.cannotExecute);
        (uint256 committed, uint256 revealed) = (r.committed, _revealed(r));
        // Safe: at most 255 seats.
        t.notRevealed = uint16((committed & ~revealed).size());
        t.absent = uint16(r.seats - (committed | revealed).size());
        if (r.lead == 0) return t;
        (t.leadKey, t.leadOutHash) = (_leadKey(r), r.leadOutHash);
        t.leadVerdict = r.leadOutcome == Outcome.INVALID ? Verdict.INVALID : Verdict.OVERTURNED;
    }

    function _memberAt(RoundData storage r, address voter, uint256 mask) private view returns (Member memory m) {
        bytes32 word = r.words[mask.lowest()];
        (m.voter, m.seatMask) = (voter, mask);
        // Safe: at most 255 seats.
        m.seats = uint16(mask.size());
        if (r.certified != Outcome.NONE && mask & r.certifiedMask != 0) m.group = r.certifiedGroup;
        else if (mask & r.opened != 0) m.group = word;
        else m.commitment = word;
    }

    function _finalsOf(bytes32 id, RoundData storage r, IDisputes.Standpoint memory s)
        private
        view
        returns (Finals memory f)
    {
        f.calm = s.verdict == Verdict.DRAW || s.verdict == Verdict.REFUNDED;
        // Under a root each seat may be bound, and have seen what others say: silence costs each what it costs who committed on the chain.
        (f.committed, f.revealed) = (r.rooted ? type(uint256).max : r.committed, _revealed(r));
        if (r.certified != Outcome.NONE) {
            (f.certified, f.certifiedMask, f.certifiedGroup) = (r.certified, r.certifiedMask, r.certifiedGroup);
        }
        (bytes32 key, bytes32 second) = _rightKeys(id, s.verdict, s.decidedIn, s.isMixed);
        (f.right, f.alsoRight) = (_largestOf(r, key), _largestOf(r, second));
    }

    function _standing(RoundData storage r, Finals memory f, uint16[] memory places, uint256 i)
        private
        view
        returns (Standing)
    {
        if (f.revealed & (1 << i) == 0) {
            if (f.calm) return Standing.NEUTRAL;
            return f.committed & (1 << i) == 0 ? Standing.ABSENT : Standing.NOT_REVEALED;
        }
        (bytes32 group, Outcome outcome) = (f.certifiedGroup, f.certified);
        if (f.certifiedMask & (1 << i) == 0) {
            group = r.words[1 << places.firstOf(i)];
            outcome = r.groups[group].outcome;
        }
        if (outcome == Outcome.NO_KEY) return f.opened ? Standing.ABSENT : Standing.NEUTRAL;
        if (outcome == Outcome.CANNOT_EXECUTE) return f.calm ? Standing.NEUTRAL : Standing.ABSENT;
        if (f.calm) return Standing.WORKED;
        return group == f.right || group == f.alsoRight ? Standing.RIGHT : Standing.WRONG;
    }

    /// @dev What is stored of a commitment binds who made it with which seats: nobody else's opens it, and a reveal needs
    ///      not look again at who holds the seats.
    function _seal(bytes32 commitment, address voter, uint256 seatMask) private pure returns (bytes32) {
        return keccak256(abi.encode(commitment, voter, seatMask));
    }

    /// @dev What a finding says, in the one form that it may have: equal findings are equal bytes.
    function _said(bytes32 claim, Finding memory f) private pure returns (Said memory said) {
        bool executed = f.outcome == uint8(Outcome.EXECUTED);
        bool coded = f.outcome == uint8(Outcome.INVALID) || f.outcome == uint8(Outcome.CANNOT_EXECUTE);
        bool bare = f.tokensHash | f.traceRoot | f.roundDigest == 0;
        bool known = f.outcome != 0 && f.outcome <= uint8(type(Outcome).max);
        if (!known || (!executed && !bare) || (!coded && f.code != 0)) revert MalformedVote(f.outcome, f.code);
        (said.outcome, said.code) = (Outcome(f.outcome), f.code);
        if (executed) {
            said.outHash = StructHashes.outHash(f.tokensHash, f.traceRoot);
            said.isEqual = StructHashes.claim(f.tokensHash, said.outHash) == claim;
        }
        said.group = TallyLib.groupOf(f.outcome, f.code, f.tokensHash, f.traceRoot, f.roundDigest);
    }

    function _findingOf(Vote calldata v) private pure returns (Finding memory) {
        return Finding(v.dispute, v.round, v.outcome, v.code, v.tokensHash, v.traceRoot, v.roundDigest);
    }

    function _runningClock() private view returns (uint40) {
        return SafeCast.toUint40(GUARDIAN.runningClock());
    }
}
