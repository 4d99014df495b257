// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {DisputeStore} from "./DisputeStore.sol";
import {IProceedings} from "../interfaces/IProceedings.sol";
import {SeatsLib} from "../libraries/SeatsLib.sol";
import {Phase, Receipt} from "../libraries/Types.sol";

/// @title DisputeDraw: from a questioned receipt to a seated committee
abstract contract DisputeDraw is IProceedings, DisputeStore {
    using SeatsLib for uint256[16];

    uint8 private constant MAX_REARMS = 3;

    /// @inheritdoc IProceedings
    function open(Receipt calldata r, bytes calldata sig, uint64 batchId, bytes32[] calldata proof, bytes32 altCommit)
        external
        payable
        running
        returns (bytes32 id)
    {
        bytes32 receiptId = ANCHOR.checkMember(r, sig, batchId, proof);
        id = _idOf(receiptId);
        if (_cases[id].phase != Phase.NONE) revert AlreadyDisputed(receiptId, id);
        _checkChallenger(r.operator, altCommit);
        bytes32 pool = _file(id, receiptId, batchId, r, altCommit);
        _callJudges(_cases[id], pool);
        emit DisputeOpened(id, receiptId, r.operator, msg.sender, batchId, altCommit);
        _startRound(id, _cases[id], 1);
        SETTLEMENT.opened{value: msg.value}(id, r.operator, msg.sender, _cases[id].paramsVersion);
        ANCHOR.onDispute(batchId, true);
    }

    /// @inheritdoc IProceedings
    /// @dev In a pause too: a seed is lost with its epoch, and a guardian who dislikes a committee could wait for that. Its members
    ///      have all of their time when the clock goes on.
    function draw(bytes32 id, uint256 count) external {
        Case storage d = _cases[id];
        if (d.phase != Phase.DRAWING) d = _inPhase(id, Phase.SEED);
        RoundData storage r = _rounds[id][d.round];
        uint256 left = r.seats - r.drawn;
        if (count > left) count = left;
        if (count == 0) revert NoProgress(id);
        bytes32 seed = RANDOMNESS.seed(r.seedBlock);
        _seat(id, d, r, seed, count);
        if (count < left) {
            d.phase = Phase.DRAWING;
        } else {
            _openCommits(id, d, r, seed);
        }
    }

    /// @inheritdoc IProceedings
    function rearm(bytes32 id) external running {
        Case storage d = _cases[id];
        if (d.phase != Phase.DRAWING) d = _inPhase(id, Phase.SEED);
        RoundData storage r = _rounds[id][d.round];
        uint40 seedBlock = r.seedBlock;
        if (!d.tree.isOver(seedBlock) && !RANDOMNESS.isExpired(seedBlock)) revert SeedReadable(id, seedBlock);
        if (r.rearms == MAX_REARMS) return _endUndecided(id, d);
        d.phase = Phase.SEED;
        r.rearms += 1;
        r.drawn = 0;
        _nameSeed(id, d, r);
    }

    /// @dev The next committee; the caller says how large.
    function _startRound(bytes32 id, Case storage d, uint8 level) internal {
        d.phase = Phase.SEED;
        d.level = level;
        d.round += 1;
        RoundData storage r = _rounds[id][d.round];
        r.level = level;
        r.seats = SafeCast.toUint8(PARAMS.committee(d.paramsVersion).seats[level - 1]);
        _nameSeed(id, d, r);
    }

    /// @dev No round can decide any more: the earlier verdict stands, or nothing does.
    function _endUndecided(bytes32 id, Case storage d) internal virtual;

    function _file(bytes32 id, bytes32 receiptId, uint64 batchId, Receipt calldata receipt, bytes32 altCommit)
        private
        returns (bytes32 pool)
    {
        uint64 end;
        uint32 version;
        (end, version, pool) = ANCHOR.disputable(receiptId, batchId);
        uint40 now_ = _clock();
        if (now_ > end) revert WindowClosed(now_, end);
        uint256 bond = PARAMS.requiredBond(version);
        if (msg.value != bond) revert BondMismatch(msg.value, bond);
        Case storage d = _cases[id];
        d.paramsVersion = version;
        d.challenger = msg.sender;
        d.batchId = SafeCast.toUint48(batchId);
        d.index = SafeCast.toUint48(_receipts.length);
        (d.claimedTokens, d.claimed) = (receipt.tokensHash, receipt.outHash);
        d.altCommit = altCommit;
        d.openedAt = now_;
        _receipts.push(receiptId);
    }

    function _checkChallenger(address operator, bytes32 altCommit) private view {
        if (msg.sender == operator) revert OwnReceipt(operator);
        if (altCommit == bytes32(0)) revert EmptyAltCommit();
    }

    function _callJudges(Case storage d, bytes32 pool) private {
        if (!REGISTRY.isSeatable(pool)) revert PoolTooSmall(pool);
        d.tree = REGISTRY.treeOf(pool);
    }

    /// @dev A block whose mix nobody can foresee, in an epoch whose weights are fixed before anybody could.
    function _nameSeed(bytes32 id, Case storage d, RoundData storage r) private {
        uint40 seedBlock = SafeCast.toUint40(d.tree.seedBlockFrom(block.number + SHORTEST));
        r.seedBlock = seedBlock;
        RANDOMNESS.announce(seedBlock);
        emit SeedNamed(id, d.round, r.level, r.seats, seedBlock, r.rearms);
    }

    function _seat(bytes32 id, Case storage d, RoundData storage r, bytes32 seed, uint256 count) private {
        address[] memory excluded = new address[](1);
        // Only the challenger's own account is left out: a rule that looked at more could be steered.
        excluded[0] = d.challenger;
        uint8 from = r.drawn;
        uint16[] memory places = d.tree.drawPlaces(seed, r.seedBlock, id, d.round, excluded, from, count);
        r.places.write(from, places);
        // Safe: at most `seats`.
        r.drawn = uint8(from + count);
        emit SeatsDrawn(id, d.round, from, places);
    }

    function _openCommits(bytes32 id, Case storage d, RoundData storage r, bytes32 seed) private {
        (uint32 commitTime, uint32 revealTime) = PARAMS.roundTimes(d.paramsVersion);
        uint40 commitEnd = _clock() + commitTime;
        uint40 revealEnd = commitEnd + revealTime;
        d.phase = Phase.COMMIT;
        (r.commitEnd, r.revealEnd) = (commitEnd, revealEnd);
        bytes32 roundSeed = keccak256(abi.encode(seed, id, d.round));
        emit CommitOpened(id, d.round, seed, roundSeed, commitEnd, revealEnd);
    }
}
