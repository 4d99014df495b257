// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @title IStakeTree: stakes of a pool as weights of a draw, frozen while the draw can be foreseen
/// @notice Time is cut into epochs of blocks. What is written in epoch e counts from epoch e+1 on, and a draw takes the
///         weights of the running epoch by the beacon of a block of this epoch, not of its first `LOOKAHEAD` blocks. So
///         the beacon meets weights that were fixed while nobody could foresee it.
///         Weights are whole units of stake, at most `MAX_UNITS` for one account.
interface IStakeTree {
    /// @notice From `epoch` on `account`, at `place`, has `units`; its stake is `stake` wei.
    event UnitsSet(address indexed account, uint16 indexed place, uint32 epoch, uint256 stake, uint32 units);
    /// @notice Unit or cap is zero, the whole tree at the cap does not fit 32 bits, or the lookahead is zero or the whole
    ///         epoch.
    error BadShape(uint256 epochBlocks, uint256 lookahead, uint256 unit, uint256 maxUnits);
    /// @notice Weights of epoch `want` are neither those of the running epoch `have` nor of the next.
    error WrongEpoch(uint32 have, uint32 want);
    /// @notice All places are taken.
    error TreeFull(uint256 capacity);
    /// @notice Seeds of the running epoch are those of blocks `first` to `last`.
    error SeedOutsideEpoch(uint256 seedBlock, uint256 first, uint256 last);
    /// @notice Nobody has a unit in this epoch.
    error NobodyToDraw(uint32 epoch);
    /// @notice More seats or more excluded accounts than one call takes.
    error TooMany(uint256 have, uint256 most);

    /// @notice The running epoch; the first is 1.
    function epoch() external view returns (uint32);
    /// @notice The first block of an epoch. Its weights are fixed from here on.
    function epochStart(uint32 epoch_) external view returns (uint256);
    /// @notice Units that `stake` wei are worth: rounded down, at most `MAX_UNITS`.
    function unitsFor(uint256 stake) external view returns (uint32);
    /// @notice Units of `account` in the running epoch or in the next one. An account without a place has none.
    function unitsAt(address account, uint32 epoch_) external view returns (uint32);
    /// @notice Units of all accounts in the running epoch or in the next one.
    function totalAt(uint32 epoch_) external view returns (uint256);
    /// @notice Whether `account` has a place, and which.
    function placeOf(address account) external view returns (bool has, uint16 place);
    /// @notice Who holds `place`; zero if nobody.
    function accountAt(uint16 place) external view returns (address);

    /// @notice The stake of `account` is now `stake` wei; it weighs so from the next epoch on. Only the writer.
    /// @dev The first units of an account give it a place. It never reverts for an account that has one, so that a
    ///      slash cannot be stopped here.
    function setStake(address account, uint256 stake) external;
    /// @notice The places of seats `from` to `from + count - 1` of a round, with replacement, each in proportion to units.
    ///         Parts of one draw in several calls are those of the whole draw.
    /// @dev Seat i falls to the unit keccak256(abi.encode(seed, id, round, i, try)) mod total, for try 0, 1, … until it is
    ///      not an excluded account's; after `MAX_TRIES` nobody holds the seat: an absent member, which convicts nobody.
    /// @param seed beacon of block `seedBlock`; the caller answers for that
    /// @param seedBlock of the running epoch, at least `LOOKAHEAD` blocks after its start
    /// @param id the dispute
    /// @param round first round is 1
    /// @param excluded fixed before the seed was known, the same in all parts of one draw
    /// @return places `NOBODY` (65,535) for a seat that nobody holds
    function drawPlaces(
        bytes32 seed,
        uint256 seedBlock,
        bytes32 id,
        uint16 round,
        address[] calldata excluded,
        uint256 from,
        uint256 count
    ) external view returns (uint16[] memory places);
    /// @notice Who holds each of the places; zero if nobody.
    function accountsAt(uint16[] calldata places) external view returns (address[] memory);
    /// @notice The first block from `earliest` on whose beacon is a seed and that leaves half of its epoch's seed blocks for the draw.
    function seedBlockFrom(uint256 earliest) external view returns (uint256);
    /// @notice Whether the epoch of `seedBlock` has ended: nothing can be drawn by it any more.
    function isOver(uint256 seedBlock) external view returns (bool);
}
