// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ParamSet} from "../src/libraries/Types.sol";

/// @title A version of all parameters that is inside every bound, with round numbers
library Defaults {
    function parameters() internal pure returns (ParamSet memory p) {
        _times(p);
        _committee(p);
        _money(p);
        p.shares.alphaBps = 3_000;
        p.shares.betaBps = 3_000;
        p.shares.operatorShareBps = 5_000;
        p.shares.auditRateBps = 9_000;
        p.shares.auditsPerHour = 10;
        p.shares.maxBatch = 64;
    }

    function _times(ParamSet memory p) private pure {
        p.times.window = 1 hours;
        p.times.maxAnchorDelay = 1 hours;
        p.times.cure = 1 hours;
        p.times.seedTime = 1 hours;
        p.times.drawTime = 30 minutes;
        p.times.commitTime = 1 hours;
        p.times.revealTime = 30 minutes;
        p.times.appealTime = 2 hours;
        p.times.rerunTime = 6 hours;
        p.times.airgap = 1 days;
        p.times.maxPause = 1 days;
        p.times.executionBound = 20 minutes;
        p.times.unbondDelay = 14 days;
        p.times.daRetention = 20 days;
        p.times.daMargin = 1 days;
        p.times.keyRetention = 15 days;
        p.times.withdrawDelay = 1 days;
        p.times.breakerTime = 3 days;
    }

    function _committee(ParamSet memory p) private pure {
        p.committee.seats = [uint16(15), 31, 63];
        p.committee.rounds = 3;
        p.committee.maxReruns = 2;
        p.committee.breakerOperators = 2;
        p.committee.tauNum = 2;
        p.committee.tauDen = 3;
        p.committee.minPool = 5;
        p.committee.certifyBps = 5_000;
    }

    function _money(ParamSet memory p) private pure {
        p.money.feePerSeat = 0.01 ether;
        p.money.privacyPrice = 0.05 ether;
        p.money.slashAmount = 10 ether;
        p.money.absentPenalty = 0.02 ether;
        p.money.noRevealPenalty = 0.05 ether;
        p.money.wrongPenalty = 0.07 ether;
        p.money.minOperatorStake = 20 ether;
        p.money.minVerifierStake = 5 ether;
        p.money.receiptCollateral = 0.1 ether;
        p.money.withheldPenalty = 0.2 ether;
        p.money.unanchoredPenalty = 1 ether;
        p.money.demandBond = 0.01 ether;
        p.money.auditUnit = 1 ether;
        p.money.bounty = 0.001 ether;
    }
}
