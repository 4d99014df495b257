// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {SeatsLib} from "../libraries/SeatsLib.sol";
import {TallyLib} from "../libraries/TallyLib.sol";
import {Outcome, Phase, Standing, Verdict} from "../libraries/Types.sol";
import {Wired} from "../libraries/Wired.sol";
import {IDisputes} from "../interfaces/IDisputes.sol";
import {IRounds} from "../interfaces/IRounds.sol";
import {IStakeTree} from "../interfaces/IStakeTree.sol";

/// @title RoundStore: what is stored of a round, and what follows from it: its tally, its members, what each seat is worth
/// @dev Invariants (docs/reference/contracts.md, section 6):
///
///      I17 TALLY: The tally is every seat once.
///      I19 QUORUM: The seats of a conviction say one thing.
abstract contract RoundStore is IRounds, Wired {
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
        uint256 certifiedMask; // of seats that the certificate counts for; 0: of all of them
        bytes32 certifiedGroup;
        bytes32 leadOutHash;
        uint256[16] places; // `SeatsLib`
        mapping(uint256 firstSeat => bytes32) words; // of a member: sealed commitment, then group
        mapping(bytes32 group => Group) groups;
        mapping(bytes32 key => bytes32) largest; // group; the first that got so large; see `_largestOf`
        mapping(bytes32 root => Root) roots;
    }

    /// @dev What the standings of all seats of a round follow from.
    struct Finals {
        bool calm; // an end without penalties
        bool opened; // a later committee had the key, and decided by what it opened
        uint256 committed; // masks of seats; whom a root may bind counts
        uint256 revealed;
        bytes32 right; // these groups
        bytes32 alsoRight;
    }

    /// @dev In `largest`, for every vote that is equal to the receipt. No hash is this number.
    bytes32 internal constant EQUAL = bytes32(uint256(1));

    /// @notice The court whose rounds these are.
    IDisputes public disputes;

    /// @inheritdoc IRounds
    mapping(bytes32 id => bytes32) public claimOf;
    mapping(bytes32 id => mapping(uint16 round => RoundData)) internal _rounds;

    /// @inheritdoc IRounds
    function roundOf(bytes32 id, uint16 round) external view returns (Round memory out) {
        RoundData storage r = _rounds[id][round];
        (out.commitEnd, out.revealEnd, out.drawn, out.rearms) = (r.commitEnd, r.revealEnd, r.drawn, r.rearms);
        if (out.commitEnd == 0) {
            // What is not seated is the court's.
            (uint16 waiting, uint8 level, uint8 seats, uint40 seedBlock) = disputes.seedOf(id);
            if (waiting == round) (out.level, out.seats, out.seedBlock) = (level, seats, seedBlock);
            else out.drawn = 0;
            return out;
        }
        (out.seedBlock, out.seats, out.level) = (r.seedBlock, r.seats, r.level);
        (out.settled, out.committedMask, out.revealedMask) = (r.settled, r.committed, _revealed(r));
        (out.roundSeed, out.certifiedGroup, out.certifiedMask) = (r.roundSeed, r.certifiedGroup, _certifiedMask(r));
    }

    /// @inheritdoc IRounds
    function seatingOf(bytes32 id, uint16 round) external view returns (uint8, uint8) {
        RoundData storage r = _rounds[id][round];
        return (r.drawn, r.rearms);
    }

    /// @inheritdoc IRounds
    function membersOf(bytes32 id, uint16 round) external view returns (Member[] memory members) {
        RoundData storage r = _rounds[id][round];
        uint16[] memory places = r.places.all(r.drawn);
        if (places.length == 0) return members;
        (IStakeTree tree,,) = _votingOf(id);
        address[] memory holders = _holdersAt(tree, places);
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
    function paidSeats(bytes32 id, uint16 round) external view returns (uint16 right, uint16 worked) {
        RoundData storage r = _rounds[id][round];
        IDisputes.Standpoint memory s = disputes.standpointOf(id);
        (bytes32 key, bytes32 second) = _rightKeys(id, s.verdict, s.decidedIn, s.isMixed);
        // Safe: at most 255 seats.
        right = uint16(_sizeOf(r, _largestOf(r, key)) + _sizeOf(r, _largestOf(r, second)));
        worked = uint16(_revealed(r).size() - r.noKey - r.cannotExecute);
    }

    /// @inheritdoc IRounds
    function keysOf(bytes32 id, Verdict verdict, uint16 decidedIn, bool isMixed)
        external
        view
        returns (bytes32 key, bytes32 second, bytes32 outHash)
    {
        (key, second) = _rightKeys(id, verdict, decidedIn, isMixed);
        if (key == EQUAL) key = bytes32(0);
        outHash = _rounds[id][decidedIn].leadOutHash;
    }

    /// @inheritdoc IRounds
    function standingsOf(bytes32 id, uint16 round, uint256 from, uint256 count)
        external
        view
        returns (address[] memory holders, bytes memory standings)
    {
        RoundData storage r = _rounds[id][round];
        // A draw that was given up seats nobody.
        if (r.commitEnd == 0) return (holders, standings);
        uint16[] memory places = r.places.all(r.seats);
        if (from > places.length) from = places.length;
        if (count > places.length - from) count = places.length - from;
        standings = new bytes(count);
        IDisputes.Standpoint memory s = disputes.standpointOf(id);
        holders = _holdersAt(s.tree, count == places.length ? places : places.part(from, count));
        if (s.phase != Phase.FINAL) return (holders, standings);
        Finals memory f = _finalsOf(id, r, s);
        f.opened = round < s.decidedIn && s.verdict <= Verdict.INVALID;
        _fill(standings, holders, r, f, places, from);
    }

    /// @dev Reveals end early once nothing more can come. Of whom a root stands for nobody knows: each seat may still open.
    function _revealsClosed(RoundData storage r, uint40 now_) internal view returns (bool) {
        if (now_ > r.revealEnd) return true;
        uint256 revealed = _revealed(r);
        if (revealed == SeatsLib.first(r.seats)) return true;
        return r.committed & ~revealed == 0 && !r.rooted;
    }

    /// @dev Mask of seats whose vote is known, directly or by certificate.
    function _revealed(RoundData storage r) internal view returns (uint256) {
        return r.opened | _certifiedMask(r);
    }

    /// @dev Mask of seats that the certificate counts for; 0 without one.
    function _certifiedMask(RoundData storage r) private view returns (uint256 mask) {
        if (r.certified == Outcome.NONE) return 0;
        mask = r.certifiedMask;
        if (mask == 0) mask = SeatsLib.first(r.seats);
    }

    /// @dev Seats of a group, those of the certificate included.
    function _sizeOf(RoundData storage r, bytes32 group) internal view returns (uint256 seats) {
        if (group == bytes32(0)) return 0;
        seats = r.groups[group].seats;
        if (r.certified != Outcome.NONE && group == r.certifiedGroup) seats += _certifiedMask(r).size();
    }

    /// @dev The largest group that says `key`, or 0. A certificate for the claim, with no equal vote beside it, is not written.
    function _largestOf(RoundData storage r, bytes32 key) internal view returns (bytes32 group) {
        if (key == bytes32(0)) return key;
        group = r.largest[key];
        if (group == bytes32(0) && key == EQUAL && r.certifiedEqual) group = r.certifiedGroup;
    }

    /// @dev A call has some hundred bytes of code, so each view of a neighbour is called in one place where gas allows it.
    function _votingOf(bytes32 id) internal view returns (IStakeTree, uint16, uint32) {
        return disputes.votingOf(id);
    }

    function _holdersAt(IStakeTree tree, uint16[] memory places) private view returns (address[] memory) {
        return tree.accountsAt(places);
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

    function _tallyOf(RoundData storage r) internal view returns (Tally memory t) {
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
        if (mask & _certifiedMask(r) != 0) m.group = r.certifiedGroup;
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
        (bytes32 key, bytes32 second) = _rightKeys(id, s.verdict, s.decidedIn, s.isMixed);
        (f.right, f.alsoRight) = (_largestOf(r, key), _largestOf(r, second));
    }

    /// @dev Standings of seats `from` on.
    function _fill(
        bytes memory standings,
        address[] memory holders,
        RoundData storage r,
        Finals memory f,
        uint16[] memory places,
        uint256 from
    ) private view {
        // All seats that a certificate counts for said one thing.
        uint256 mask = _certifiedMask(r) >> from;
        bytes1 certified;
        if (mask != 0) certified = _byte(_standing(f, r.certified, r.certifiedGroup));
        for (uint256 i = 0; i < holders.length; ++i) {
            if (holders[i] == address(0)) continue;
            standings[i] = mask & (1 << i) != 0 ? certified : _byte(_standingAt(r, f, places, from + i));
        }
    }

    function _byte(Standing standing) private pure returns (bytes1) {
        return bytes1(uint8(standing));
    }

    /// @dev Of a seat that no certificate counts for.
    function _standingAt(RoundData storage r, Finals memory f, uint16[] memory places, uint256 i)
        private
        view
        returns (Standing)
    {
        if (f.revealed & (1 << i) == 0) {
            if (f.calm) return Standing.NEUTRAL;
            return f.committed & (1 << i) == 0 ? Standing.ABSENT : Standing.NOT_REVEALED;
        }
        bytes32 group = r.words[1 << places.firstOf(i)];
        return _standing(f, r.groups[group].outcome, group);
    }

    /// @dev Of who said what `group` says.
    function _standing(Finals memory f, Outcome outcome, bytes32 group) private pure returns (Standing) {
        if (outcome == Outcome.NO_KEY) return f.opened ? Standing.ABSENT : Standing.NEUTRAL;
        if (outcome == Outcome.CANNOT_EXECUTE) return f.calm ? Standing.NEUTRAL : Standing.ABSENT;
        if (f.calm) return Standing.WORKED;
        return group == f.right || group == f.alsoRight ? Standing.RIGHT : Standing.WRONG;
    }
}
