// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {AccessManaged} from "@openzeppelin/contracts/access/manager/AccessManaged.sol";
import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {ParamLaw} from "./ParamLaw.sol";
import {Committee, Money, ParamSet, Shares, SplitTerms, Times} from "../libraries/Types.sol";
import {IParams} from "../interfaces/IParams.sol";

/// @title Params: versions of all numbers, each part in its own packed slots
/// @dev A version: NONE -set-> IN FORCE -set (the next)-> SUPERSEDED, and never changes. No money moves. Bounds and the law of one version
///      are `ParamLaw`'s; here is what versions owe to each other. Invariants (docs/reference/contracts.md, section 6):
///
///      I21 FIXED PARAMETERS: What began under a version keeps its numbers.
contract Params is IParams, AccessManaged {
    using SafeCast for uint256;

    /// @dev What is still owed to superseded versions: the strictest of each until `until` (wall time), when the last
    ///      request to unbond that was made under one of them has ended.
    struct Superseded {
        uint64 longest; // dispute
        uint64 unbondDelay; // least
        uint32 maxPause; // least
        uint64 until;
    }

    /// @inheritdoc IParams
    uint32 public version;

    Superseded private _superseded;
    mapping(uint32 version_ => Times) private _times;
    mapping(uint32 version_ => Committee) private _committee;
    mapping(uint32 version_ => Money) private _money;
    mapping(uint32 version_ => Shares) private _shares;

    /// @param first version 1
    constructor(address authority_, ParamSet memory first) AccessManaged(authority_) {
        ParamLaw.check(first);
        _store(first);
    }

    /// @inheritdoc IParams
    function set(ParamSet calldata p) external restricted returns (uint32) {
        ParamSet memory next = p;
        ParamLaw.check(next);
        _supersede();
        _checkAgainstSuperseded(next.times, ParamLaw.longest(next));
        return _store(next);
    }

    /// @inheritdoc IParams
    function get(uint32 version_) public view returns (ParamSet memory p) {
        p.times = times(version_);
        p.committee = committee(version_);
        p.money = money(version_);
        p.shares = shares(version_);
    }

    /// @inheritdoc IParams
    function times(uint32 version_) public view returns (Times memory) {
        return _timesOf(version_);
    }

    /// @inheritdoc IParams
    function committee(uint32 version_) public view returns (Committee memory) {
        return _committeeOf(version_);
    }

    /// @inheritdoc IParams
    function money(uint32 version_) public view returns (Money memory) {
        return _moneyOf(version_);
    }

    /// @inheritdoc IParams
    function shares(uint32 version_) public view returns (Shares memory) {
        return _sharesOf(version_);
    }

    /// @inheritdoc IParams
    function window(uint32 version_) external view returns (uint32) {
        return _timesOf(version_).window;
    }

    /// @inheritdoc IParams
    function demandTimes(uint32 version_) external view returns (uint32, uint32) {
        Times storage t = _timesOf(version_);
        return (t.maxAnchorDelay, t.cure);
    }

    /// @inheritdoc IParams
    function endTimes(uint32 version_) external view returns (uint32, uint32) {
        Times storage t = _timesOf(version_);
        return (t.appealTime, t.airgap);
    }

    /// @inheritdoc IParams
    function postTerms(uint32 version_) external view returns (uint256, uint256, uint256) {
        Money storage m = _money[version_];
        return (m.minOperatorStake, m.receiptCollateral, _sharesOf(version_).maxBatch);
    }

    /// @inheritdoc IParams
    function longestDispute(uint32 version_) public view returns (uint256) {
        return ParamLaw.longest(get(version_));
    }

    /// @inheritdoc IParams
    function longestLive() external view returns (uint256) {
        uint256 own = longestDispute(version);
        return _owed() ? Math.max(own, _superseded.longest) : own;
    }

    /// @inheritdoc IParams
    function pauseLimit() external view returns (uint256) {
        uint256 own = _times[version].maxPause;
        return _owed() ? Math.min(own, _superseded.maxPause) : own;
    }

    /// @inheritdoc IParams
    function feeAndSlash(uint32 version_) external view returns (uint256 feePerSeat, uint256 slashAmount) {
        Money storage m = _moneyOf(version_);
        return (m.feePerSeat, m.slashAmount);
    }

    /// @inheritdoc IParams
    function openTerms(uint32 version_) external view returns (uint256 bond, uint256 slashAmount) {
        return (requiredBond(version_), _money[version_].slashAmount);
    }

    /// @inheritdoc IParams
    function splitTerms(uint32 version_) external view returns (SplitTerms memory) {
        (Money storage m, Shares storage s) = (_money[version_], _sharesOf(version_));
        return
            SplitTerms(requiredBond(version_), m.slashAmount, m.feePerSeat, s.alphaBps, s.betaBps, s.operatorShareBps);
    }

    /// @inheritdoc IParams
    function roundTerms(uint32 version_, uint8 level) external view returns (uint8, uint32, uint32) {
        Times storage t = _timesOf(version_);
        // Safe: the law allows 255 seats at most.
        return (uint8(_committee[version_].seats[level - 1]), t.commitTime, t.revealTime);
    }

    /// @inheritdoc IParams
    function demandMoney(uint32 version_)
        external
        view
        returns (uint256 bond, uint256 withheldPenalty, uint256 unanchoredPenalty)
    {
        Money storage m = _moneyOf(version_);
        return (m.demandBond, m.withheldPenalty, m.unanchoredPenalty);
    }

    /// @inheritdoc IParams
    function reportTerms(uint32 version_) external view returns (uint256 slashAmount, uint16 alphaBps) {
        return (_moneyOf(version_).slashAmount, _sharesOf(version_).alphaBps);
    }

    /// @inheritdoc IParams
    function penalties(uint32 version_) external view returns (uint256 absent, uint256 noReveal, uint256 wrong) {
        Money storage m = _moneyOf(version_);
        return (m.absentPenalty, m.noRevealPenalty, m.wrongPenalty);
    }

    /// @inheritdoc IParams
    function withdrawDelay() external view returns (uint256) {
        return _times[version].withdrawDelay;
    }

    /// @inheritdoc IParams
    function requiredBond(uint32 version_) public view returns (uint256) {
        Money storage m = _moneyOf(version_);
        return uint256(_committee[version_].seats[0]) * m.feePerSeat + m.privacyPrice;
    }

    /// @inheritdoc IParams
    function quorum(uint32 version_, uint256 seats) external view returns (uint256) {
        Committee storage c = _committeeOf(version_);
        return Math.ceilDiv(seats * c.tauNum, c.tauDen);
    }

    /// @dev The version in force becomes one that is owed to, together with those that still are.
    function _supersede() private {
        Times storage old = _times[version];
        Superseded memory s = Superseded(longestDispute(version).toUint64(), old.unbondDelay, old.maxPause, 0);
        s.until = (block.timestamp + old.unbondDelay + old.maxPause).toUint64();
        if (_owed()) {
            Superseded memory before = _superseded;
            if (before.longest > s.longest) s.longest = before.longest;
            if (before.unbondDelay < s.unbondDelay) s.unbondDelay = before.unbondDelay;
            if (before.maxPause < s.maxPause) s.maxPause = before.maxPause;
            if (before.until > s.until) s.until = before.until;
        }
        _superseded = s;
    }

    /// @dev New delays outlast old disputes; and new disputes end before stake is gone that was asked back under an old delay.
    function _checkAgainstSuperseded(Times memory t, uint256 longest) private view {
        Superseded memory s = _superseded;
        ParamLaw.checkDelays(t, s.longest);
        if (longest >= s.unbondDelay) revert StaticLawBroken("unbondDelay", s.unbondDelay, longest);
    }

    function _store(ParamSet memory p) private returns (uint32 v) {
        v = ++version;
        _times[v] = p.times;
        _committee[v] = p.committee;
        _money[v] = p.money;
        _shares[v] = p.shares;
        emit ParamsSet(v, keccak256(abi.encode(p)), p);
    }

    function _owed() private view returns (bool) {
        return block.timestamp < _superseded.until;
    }

    /// @dev A version that was never set has zeros where the law allows none: no other word has to be read for that.
    function _timesOf(uint32 version_) private view returns (Times storage t) {
        t = _times[version_];
        if (t.window == 0) revert UnknownVersion(version_);
    }

    function _committeeOf(uint32 version_) private view returns (Committee storage c) {
        c = _committee[version_];
        if (c.rounds == 0) revert UnknownVersion(version_);
    }

    function _moneyOf(uint32 version_) private view returns (Money storage m) {
        m = _money[version_];
        if (m.feePerSeat == 0) revert UnknownVersion(version_);
    }

    function _sharesOf(uint32 version_) private view returns (Shares storage s) {
        s = _shares[version_];
        if (s.maxBatch == 0) revert UnknownVersion(version_);
    }
}
