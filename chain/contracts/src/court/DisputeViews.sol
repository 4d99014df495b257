// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {DisputeVotes} from "./DisputeVotes.sol";
import {IBallots} from "../interfaces/IBallots.sol";
import {IReceiptAnchor} from "../interfaces/IReceiptAnchor.sol";
import {SeatsLib} from "../libraries/SeatsLib.sol";
import {Outcome, Phase, Standing, Verdict} from "../libraries/Types.sol";

/// @title DisputeViews: what others ask the court
abstract contract DisputeViews is DisputeVotes {
    using SeatsLib for uint256;
    using SeatsLib for uint256[16];
    using SeatsLib for uint16[];

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

    /// @inheritdoc IBallots
    function disputeId(bytes32 receiptId) public view returns (bytes32) {
        return _idOf(receiptId);
    }

    /// @inheritdoc IBallots
    function roundsOf(bytes32 id) external view returns (uint16) {
        return _cases[id].round;
    }

    /// @inheritdoc IBallots
    function phaseOf(bytes32 id) external view returns (Phase) {
        return _phaseOf(id);
    }

    /// @inheritdoc IBallots
    function tallyOf(bytes32 id, uint16 round) external view returns (Tally memory) {
        return _tallyOf(_rounds[id][round]);
    }

    /// @inheritdoc IBallots
    function isHeld(bytes32 environment) external view returns (bool) {
        return _held[environment];
    }

    /// @inheritdoc IBallots
    function disputeCount() external view returns (uint256) {
        return _receipts.length;
    }

    /// @inheritdoc IBallots
    function disputeAt(uint256 index) external view returns (bytes32) {
        return disputeId(_receipts[index]);
    }

    /// @inheritdoc IBallots
    function dispute(bytes32 id) external view returns (Dispute memory out) {
        Case storage d = _cases[id];
        if (d.phase == Phase.NONE) return out;
        IReceiptAnchor.Batch memory batch = ANCHOR.batch(d.batchId);
        (out.receiptId, out.claimedTokensHash, out.claimedOutHash) = (_receipts[d.index], d.claimedTokens, d.claimed);
        (out.environment, out.operator, out.keyEpoch) = (batch.environment, batch.operator, batch.keyEpoch);
        (out.challenger, out.batchId, out.openedAt) = (d.challenger, d.batchId, d.openedAt);
        (out.paramsVersion, out.phase, out.level) = (d.paramsVersion, d.phase, d.level);
        (out.round, out.reruns, out.verdict) = (d.round, d.reruns, d.verdict);
        (out.appealed, out.refunded) = (d.appealed != Verdict.NONE, d.verdict == Verdict.REFUNDED);
        (out.appealEnd, out.airgapEnd) = (d.appealEnd, d.airgapEnd);
        (out.key, out.secondKey) = _keysOf(id, d);
        out.replacement = _replacementOf(id, d);
    }

    /// @inheritdoc IBallots
    function roundOf(bytes32 id, uint16 round) external view returns (Round memory out) {
        RoundData storage r = _rounds[id][round];
        (out.seedBlock, out.commitEnd, out.revealEnd) = (r.seedBlock, r.commitEnd, r.revealEnd);
        (out.seats, out.drawn, out.level, out.rearms) = (r.seats, r.drawn, r.level, r.rearms);
        (out.settled, out.committedMask, out.revealedMask) = (r.settled, r.committed, _revealed(r));
        (out.committee, out.certifiedGroup, out.certifiedMask) = (r.committee, r.certifiedGroup, r.certifiedMask);
        if (r.commitEnd != 0) out.roundSeed = keccak256(abi.encode(RANDOMNESS.seed(r.seedBlock), id, round));
    }

    /// @inheritdoc IBallots
    function membersOf(bytes32 id, uint16 round) external view returns (Member[] memory members) {
        RoundData storage r = _rounds[id][round];
        uint16[] memory places = r.places.all(r.drawn);
        address[] memory holders = places.length == 0 ? new address[](0) : _cases[id].tree.accountsAt(places);
        members = new Member[](places.length);
        uint256 count = 0;
        uint256 seen = 0;
        for (uint256 seat = 0; seat < places.length; ++seat) {
            if (seen & (1 << seat) != 0) continue;
            uint256 mask = places.maskIn(places[seat]);
            seen |= mask;
            members[count++] = _memberAt(r, holders[seat], mask);
        }
        assembly ("memory-safe") {
            mstore(members, count)
        }
    }

    /// @inheritdoc IBallots
    function challengerOf(bytes32 id) external view returns (address who, bool knew) {
        return (_cases[id].challenger, _cases[id].knew);
    }

    /// @inheritdoc IBallots
    function paidSeats(bytes32 id, uint16 round) external view returns (uint16 right, uint16 worked) {
        RoundData storage r = _rounds[id][round];
        (bytes32 key, bytes32 second) = _keysOf(id, _cases[id]);
        // Safe: at most 255 seats.
        right = uint16(_sizeOf(r, _largestOf(r, key)) + _sizeOf(r, _largestOf(r, second)));
        worked = uint16(_revealed(r).size() - r.noKey - r.cannotExecute);
    }

    /// @inheritdoc IBallots
    function standingOf(bytes32 id, uint16 round, uint16 seat)
        external
        view
        returns (address holder, Standing standing)
    {
        (address[] memory holders, Standing[] memory standings) = standingsOf(id, round, seat, 1);
        if (holders.length == 1) return (holders[0], standings[0]);
    }

    /// @inheritdoc IBallots
    function standingsOf(bytes32 id, uint16 round, uint256 from, uint256 count)
        public
        view
        returns (address[] memory holders, Standing[] memory standings)
    {
        Case storage d = _cases[id];
        RoundData storage r = _rounds[id][round];
        uint16[] memory places = r.places.all(r.seats);
        if (from > places.length) from = places.length;
        if (count > places.length - from) count = places.length - from;
        standings = new Standing[](count);
        if (r.commitEnd == 0) return (new address[](count), standings);
        holders = d.tree.accountsAt(count == places.length ? places : places.part(from, count));
        if (d.phase != Phase.FINAL) return (holders, standings);
        Finals memory f = _finalsOf(id, d, r);
        f.opened = round < d.decidedIn && d.verdict <= Verdict.INVALID;
        for (uint256 i = 0; i < count; ++i) {
            if (holders[i] != address(0)) standings[i] = _standing(r, f, places, from + i);
        }
    }

    /// @inheritdoc IBallots
    function isSettleable(bytes32 id) external view returns (bool) {
        Case storage d = _cases[id];
        return _phaseOf(id) == Phase.REVEAL && _revealsClosed(_rounds[id][d.round], _clock());
    }

    /// @inheritdoc IBallots
    function receiptStatus(bytes32 receiptId)
        external
        view
        returns (bytes32 id, Phase phase, Verdict verdict, bytes32 replacement)
    {
        id = disputeId(receiptId);
        Case storage d = _cases[id];
        return (id, _phaseOf(id), d.verdict, _replacementOf(id, d));
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

    /// @dev The largest group that says `key`, or 0.
    function _largestOf(RoundData storage r, bytes32 key) private view returns (bytes32) {
        return key == bytes32(0) ? bytes32(0) : r.largest[key];
    }

    function _finalsOf(bytes32 id, Case storage d, RoundData storage r) private view returns (Finals memory f) {
        f.calm = d.verdict == Verdict.DRAW || d.verdict == Verdict.REFUNDED;
        // Under a root each seat may be bound, and have seen what others say: silence costs each what it costs who committed on the chain.
        (f.committed, f.revealed) = (r.rooted ? type(uint256).max : r.committed, _revealed(r));
        if (r.certified != Outcome.NONE) {
            (f.certified, f.certifiedMask, f.certifiedGroup) = (r.certified, r.certifiedMask, r.certifiedGroup);
        }
        (bytes32 key, bytes32 second) = _keysOf(id, d);
        (f.right, f.alsoRight) = (_largestOf(r, key), _largestOf(r, second));
    }

    function _standing(RoundData storage r, Finals memory f, uint16[] memory places, uint256 seat)
        private
        view
        returns (Standing)
    {
        if (f.revealed & (1 << seat) == 0) {
            if (f.calm) return Standing.NEUTRAL;
            return f.committed & (1 << seat) == 0 ? Standing.ABSENT : Standing.NOT_REVEALED;
        }
        (bytes32 group, Outcome outcome) = _voteOf(r, f, places, seat);
        if (outcome == Outcome.NO_KEY) return f.opened ? Standing.ABSENT : Standing.NEUTRAL;
        if (outcome == Outcome.CANNOT_EXECUTE) return f.calm ? Standing.NEUTRAL : Standing.ABSENT;
        if (f.calm) return Standing.WORKED;
        return group == f.right || group == f.alsoRight ? Standing.RIGHT : Standing.WRONG;
    }

    function _voteOf(RoundData storage r, Finals memory f, uint16[] memory places, uint256 seat)
        private
        view
        returns (bytes32, Outcome)
    {
        if (f.certifiedMask & (1 << seat) != 0) return (f.certifiedGroup, f.certified);
        bytes32 group = r.words[1 << places.firstOf(seat)];
        return (group, r.groups[group].outcome);
    }
}
