// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IParams} from "./interfaces/IParams.sol";
import {ParamSet} from "./Types.sol";

/// @title Params: one set of numbers, checked against hard bounds and the static law, never changed afterwards
contract Params is IParams {
    uint256 private constant BPS = 10_000;
    /// @dev alpha + beta may take 80 % of a slash: an operator that challenges itself always loses the other 20 %.
    uint256 private constant MAX_REWARD_BPS = 8_000;
    uint256 private constant MAX_OPERATOR_SHARE_BPS = 5_000;
    uint256 private constant MAX_WINDOW = 14 days;
    uint256 private constant MAX_SEATS = 255;
    /// @dev A seed must be readable with BLOCKHASH, which reaches 256 blocks back.
    uint256 private constant MAX_SEED_DELAY_BLOCKS = 200;

    ParamSet private _params;

    constructor(ParamSet memory p) {
        _checkShares(p);
        _checkCommittee(p);
        _checkMoney(p);
        _checkStaticLaw(p);
        _params = p;
    }

    /// @inheritdoc IParams
    function get() external view returns (ParamSet memory) {
        return _params;
    }

    /// @inheritdoc IParams
    function longestDispute() external view returns (uint256) {
        return _longest(_params);
    }

    /// @inheritdoc IParams
    function requiredBond() external view returns (uint256) {
        uint256 seats = _params.seats[0];
        if (_params.rounds == 2) seats += _params.seats[1];
        return seats * _params.feePerSeat + _params.privacyPrice;
    }

    /// @inheritdoc IParams
    function quorum(uint256 seats) external view returns (uint256) {
        return (seats * _params.tauNum + _params.tauDen - 1) / _params.tauDen;
    }

    function _checkShares(ParamSet memory p) private pure {
        _require(uint256(p.alphaBps) + p.betaBps <= MAX_REWARD_BPS, "alphaBps+betaBps");
        _require(p.operatorShareBps <= MAX_OPERATOR_SHARE_BPS, "operatorShareBps");
        _require(p.auditRateBps <= BPS, "auditRateBps");
        // More than a half, so that two verdicts can never both reach it; at most four fifths, so that one can.
        _require(p.tauDen != 0 && uint256(p.tauNum) * 2 > p.tauDen, "tau");
        _require(uint256(p.tauNum) * 5 <= uint256(p.tauDen) * 4, "tau");
    }

    function _checkCommittee(ParamSet memory p) private pure {
        _require(p.rounds == 1 || p.rounds == 2, "rounds");
        _checkSeats(p.seats[0]);
        if (p.rounds == 2) {
            _checkSeats(p.seats[1]);
            _require(p.seats[1] > p.seats[0], "seats");
        }
        _require(p.seedDelayBlocks >= 1 && p.seedDelayBlocks <= MAX_SEED_DELAY_BLOCKS, "seedDelayBlocks");
        _require(p.window > 0 && p.window <= MAX_WINDOW, "window");
        _require(p.revealTime > 0, "revealTime");
        _require(p.commitTime > 0, "commitTime");
        _require(p.maxBatch > 0, "maxBatch");
    }

    function _checkSeats(uint256 seats) private pure {
        _require(seats >= 3 && seats <= MAX_SEATS && seats % 2 == 1, "seats");
    }

    function _checkMoney(ParamSet memory p) private pure {
        _require(p.slashAmount > 0, "slashAmount");
        _require(p.minOperatorStake >= p.slashAmount, "minOperatorStake");
        _require(p.minVerifierStake > 0, "minVerifierStake");
        _require(p.auditUnit > 0, "auditUnit");
        _require(p.absentPenalty <= p.seatStake, "absentPenalty");
        _require(p.noRevealPenalty <= p.seatStake, "noRevealPenalty");
        _require(p.wrongPenalty <= p.seatStake, "wrongPenalty");
    }

    function _checkStaticLaw(ParamSet memory p) private pure {
        uint256 longest = _longest(p);
        if (longest >= p.unbondDelay) revert StaticLawBroken("unbondDelay", p.unbondDelay, longest);
        uint256 retention = p.daRetention > p.daMargin ? p.daRetention - p.daMargin : 0;
        if (longest >= retention) revert StaticLawBroken("daRetention", retention, longest);
        if (longest >= p.keyRetention) revert StaticLawBroken("keyRetention", p.keyRetention, longest);
        uint256 needed = 2 * uint256(p.executionBound);
        if (p.commitTime < needed) revert StaticLawBroken("commitTime", p.commitTime, needed);
    }

    function _longest(ParamSet memory p) private pure returns (uint256) {
        uint256 round = uint256(p.seedTime) + p.drawTime + p.commitTime + p.revealTime + p.appealTime;
        return uint256(p.maxAnchorDelay) + p.window + p.cure + p.rounds * round + p.rerunTime + p.airgap + p.maxPause;
    }

    function _require(bool ok, bytes32 key) private pure {
        if (!ok) revert ParamOutOfBounds(key);
    }
}
