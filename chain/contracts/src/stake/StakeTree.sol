// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {IStakeTree} from "../interfaces/IStakeTree.sol";
import {SumNodeLib} from "../libraries/SumNodeLib.sol";
import {Wired} from "../libraries/Wired.sol";

/// @title StakeTree: a sum tree of seven children by five levels, each node in two versions
/// @dev A place: FREE -setStake (the first)-> TAKEN, for good; its units count from the next epoch on. No money moves. Invariants
///      (docs/reference/contracts.md, section 6):
///
///      I7 TREE: Every node is the sum of its leaves, in the running epoch and in the next.
///      I8 WHOLE UNITS: A leaf is the stake of its account in whole units.
///      I12 FROZEN WEIGHTS: No weight of the running epoch moves.
///
///      Nodes are numbered from the root, 0: children of n are 7n+1 to 7n+7, and place p is node `INNER + p`, whose sum is
///      kept in its parent only. Each node keeps its newest sums and those before the epoch in which they came. Newest sums
///      count from an epoch not later than the next, so the older ones are those of the running epoch, or need no reading.
contract StakeTree is IStakeTree, Wired {
    using SumNodeLib for uint256;

    struct Node {
        uint256 newest;
        uint256 before; // read only in the epoch in which `newest` was written
    }

    /// @dev What one draw is about.
    struct Draw {
        bytes32 seed;
        bytes32 id;
        uint16 round;
        uint32 epoch;
        uint256 total;
    }

    /// @notice Places of the tree: 7^5.
    uint256 public constant CAPACITY = 16_807;
    /// @notice Draws of a seat before nobody holds it.
    uint256 public constant MAX_TRIES = 8;
    /// @notice Most accounts that cannot be drawn.
    uint256 public constant MAX_EXCLUDED = 8;
    /// @notice Most seats of one call.
    uint256 public constant MAX_SEATS = 255;
    /// @notice In the place of a seat that nobody holds; never a place.
    uint16 public constant NOBODY = type(uint16).max;
    /// @dev Nodes above the leaves: (7^5 - 1) / 6.
    uint256 private constant INNER = 2_801;

    /// @notice Blocks of an epoch.
    uint256 public immutable EPOCH_BLOCKS;
    /// @notice First blocks of an epoch whose beacons are no seeds of it. Main net: 128, four epochs of its own.
    uint256 public immutable LOOKAHEAD;
    /// @notice Wei of one unit.
    uint256 public immutable UNIT;
    /// @notice Most units of one account. A full tree of them fits 32 bits, so no sum can overflow.
    uint256 public immutable MAX_UNITS;

    /// @notice The contract that keeps the stakes.
    address public writer;

    Node[INNER] internal _nodes;
    mapping(address account => uint256 placePlusOne) private _placeOf;
    mapping(uint256 place => address) private _accountAt;
    uint256 internal _used;

    modifier onlyWriter() {
        if (msg.sender != writer) revert NotAuthorised(msg.sender);
        _;
    }

    constructor(uint256 epochBlocks, uint256 lookahead, uint256 unit, uint256 maxUnits) {
        // The mix of an epoch's first block is known to the block before, in which stake still moves: so not zero.
        bool foreseen = lookahead == 0 || lookahead >= epochBlocks;
        bool fits = maxUnits <= type(uint32).max / CAPACITY;
        if (foreseen || unit == 0 || maxUnits == 0 || !fits) revert BadShape(epochBlocks, lookahead, unit, maxUnits);
        (EPOCH_BLOCKS, LOOKAHEAD, UNIT, MAX_UNITS) = (epochBlocks, lookahead, unit, maxUnits);
    }

    /// @notice Name the contract that writes stakes. Once, by the deployer.
    function wire(address writer_) external wiring {
        writer = _nonZero(writer_);
    }

    /// @inheritdoc IStakeTree
    function setStake(address account, uint256 stake) external onlyWriter {
        uint32 units = unitsFor(stake);
        uint256 placePlusOne = _placeOf[account];
        if (placePlusOne == 0) {
            if (units == 0) return;
            placePlusOne = _seat(account) + 1;
        }
        uint32 next = epoch() + 1;
        _write(placePlusOne - 1, units, next);
        emit UnitsSet(account, uint16(placePlusOne - 1), next, stake, units);
    }

    /// @inheritdoc IStakeTree
    function drawPlaces(
        bytes32 seed,
        uint256 seedBlock,
        bytes32 id,
        uint16 round,
        address[] calldata excluded,
        uint256 from,
        uint256 count
    ) external view returns (uint16[] memory places) {
        if (count > MAX_SEATS) revert TooMany(count, MAX_SEATS);
        if (excluded.length > MAX_EXCLUDED) revert TooMany(excluded.length, MAX_EXCLUDED);
        uint32 now_ = _epochOfSeed(seedBlock);
        Draw memory d = Draw(seed, id, round, now_, _sums(0, now_).total());
        if (d.total == 0) revert NobodyToDraw(now_);
        uint256[] memory barred = _placesPlusOne(excluded);
        places = new uint16[](count);
        for (uint256 i = 0; i < count; ++i) {
            places[i] = _drawn(d, from + i, barred);
        }
    }

    /// @inheritdoc IStakeTree
    function unitsAt(address account, uint32 epoch_) external view returns (uint32) {
        _readable(epoch_);
        uint256 placePlusOne = _placeOf[account];
        return placePlusOne == 0 ? 0 : _unitsAt(placePlusOne - 1, epoch_);
    }

    /// @inheritdoc IStakeTree
    function totalAt(uint32 epoch_) external view returns (uint256) {
        _readable(epoch_);
        return _sums(0, epoch_).total();
    }

    /// @inheritdoc IStakeTree
    function placeOf(address account) external view returns (bool has, uint16 place) {
        uint256 placePlusOne = _placeOf[account];
        // Safe: the capacity is below 2^16.
        if (placePlusOne != 0) (has, place) = (true, uint16(placePlusOne - 1));
    }

    /// @inheritdoc IStakeTree
    function accountAt(uint16 place) external view returns (address) {
        return _accountAt[place];
    }

    /// @inheritdoc IStakeTree
    function accountsAt(uint16[] calldata places) external view returns (address[] memory accounts) {
        accounts = new address[](places.length);
        for (uint256 i = 0; i < places.length; ++i) {
            accounts[i] = _accountAt[places[i]];
        }
    }

    /// @inheritdoc IStakeTree
    function seedBlockFrom(uint256 earliest) external view returns (uint256) {
        uint256 first = earliest / EPOCH_BLOCKS * EPOCH_BLOCKS + LOOKAHEAD;
        if (earliest < first) return first;
        return earliest <= first + (EPOCH_BLOCKS - LOOKAHEAD - 1) / 2 ? earliest : first + EPOCH_BLOCKS;
    }

    /// @inheritdoc IStakeTree
    function isOver(uint256 seedBlock) external view returns (bool) {
        return seedBlock / EPOCH_BLOCKS < block.number / EPOCH_BLOCKS;
    }

    /// @inheritdoc IStakeTree
    function epochStart(uint32 epoch_) public view returns (uint256) {
        return epoch_ == 0 ? 0 : (uint256(epoch_) - 1) * EPOCH_BLOCKS;
    }

    /// @inheritdoc IStakeTree
    function epoch() public view returns (uint32) {
        return SafeCast.toUint32(block.number / EPOCH_BLOCKS + 1);
    }

    /// @inheritdoc IStakeTree
    function unitsFor(uint256 stake) public view returns (uint32) {
        uint256 units = stake / UNIT;
        // Safe: the cap is below 2^32.
        return uint32(units > MAX_UNITS ? MAX_UNITS : units);
    }

    /// @dev The next place, for a new account, which keeps it for good: committees are stored as places.
    function _seat(address account) private returns (uint256 place) {
        place = _used++;
        if (place == CAPACITY) revert TreeFull(CAPACITY);
        _placeOf[account] = place + 1;
        _accountAt[place] = account;
    }

    /// @dev From the leaf's parent up to the root: the same difference in one child of each.
    function _write(uint256 place, uint32 units, uint32 next) private {
        uint256 node = INNER + place;
        uint32 old = _unitsAt(place, next);
        while (node != 0) {
            uint256 i = (node - 1) % SumNodeLib.ARITY;
            node = (node - 1) / SumNodeLib.ARITY;
            Node storage n = _nodes[node];
            uint256 sums = n.newest;
            if (sums.epochOf() != next) n.before = sums;
            n.newest = sums.withChild(i, sums.child(i) - old + units).withEpoch(next);
        }
    }

    function _drawn(Draw memory d, uint256 seat, uint256[] memory barred) private view returns (uint16) {
        for (uint256 attempt = 0; attempt < MAX_TRIES; ++attempt) {
            uint256 place = _find(0, _pointOf(d, seat, attempt), d.epoch);
            // Safe: the capacity is below 2^16.
            if (!_among(place + 1, barred)) return uint16(place);
        }
        return NOBODY;
    }

    /// @dev keccak256(abi.encode(seed, id, round, seat, attempt)) mod total. `Draw` begins with the first three.
    function _pointOf(Draw memory d, uint256 seat, uint256 attempt) private pure returns (uint256 point) {
        uint256 total = d.total;
        assembly ("memory-safe") {
            let input := mload(0x40)
            mcopy(input, d, 96)
            mstore(add(input, 96), seat)
            mstore(add(input, 128), attempt)
            point := mod(keccak256(input, 160), total)
        }
    }

    /// @dev Zero for an account without a place, which no draw meets.
    function _placesPlusOne(address[] calldata accounts) private view returns (uint256[] memory list) {
        list = new uint256[](accounts.length);
        for (uint256 i = 0; i < accounts.length; ++i) {
            list[i] = _placeOf[accounts[i]];
        }
    }

    function _epochOfSeed(uint256 seedBlock) private view returns (uint32 now_) {
        now_ = epoch();
        (uint256 first, uint256 last) = (epochStart(now_) + LOOKAHEAD, epochStart(now_ + 1) - 1);
        if (seedBlock < first || seedBlock > last) revert SeedOutsideEpoch(seedBlock, first, last);
    }

    /// @dev The place below the inner node `node` that unit `point` of it lies in; `point` is below its total. `_sums` of each node on the
    ///      way, in assembly because a draw does this for every seat. A node is two words; its epoch stands behind its seven sums.
    function _find(uint256 node, uint256 point, uint32 epoch_) internal view returns (uint256 place) {
        assembly ("memory-safe") {
            // `INNER`: the walk ends below the last inner node.
            for {} lt(node, 2801) {} {
                let slot := add(_nodes.slot, shl(1, node))
                let sums := sload(slot)
                if gt(shr(224, sums), epoch_) { sums := sload(add(slot, 1)) }
                let child := 1
                // Nothing overflows: a sum is taken away only where it is not above the point. The last child needs no look.
                for {} lt(child, 7) { child := add(child, 1) } {
                    let sum := and(sums, 0xffffffff)
                    if lt(point, sum) { break }
                    point := sub(point, sum)
                    sums := shr(32, sums)
                }
                node := add(mul(node, 7), child)
            }
            place := sub(node, 2801)
        }
    }

    /// @dev The sums of a node in the running epoch or the next.
    function _sums(uint256 node, uint32 epoch_) internal view returns (uint256 sums) {
        Node storage n = _nodes[node];
        sums = n.newest;
        if (sums.epochOf() > epoch_) sums = n.before;
    }

    function _unitsAt(uint256 place, uint32 epoch_) private view returns (uint32) {
        uint256 parent = (INNER + place - 1) / SumNodeLib.ARITY;
        return _sums(parent, epoch_).child((INNER + place - 1) % SumNodeLib.ARITY);
    }

    function _readable(uint32 epoch_) private view {
        uint32 now_ = epoch();
        if (epoch_ != now_ && epoch_ != now_ + 1) revert WrongEpoch(now_, epoch_);
    }

    function _among(uint256 who, uint256[] memory list) private pure returns (bool) {
        for (uint256 i = 0; i < list.length; ++i) {
            if (list[i] == who) return true;
        }
        return false;
    }
}
