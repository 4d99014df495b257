// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {DisputeStore} from "./DisputeStore.sol";
import {ILedger} from "./interfaces/ILedger.sol";
import {TallyLib} from "./TallyLib.sol";
import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {Outcome, ParamSet, Phase, Verdict} from "./Types.sol";

/// @title DisputeMoney: the money of design section 9, one function per row of its table
/// @dev Every amount leaves the dispute's pot in the ledger, every share is rounded down, and what remains is burned:
///      conservation is the ledger's, not arithmetic's.
abstract contract DisputeMoney is DisputeStore {
    uint256 private constant BPS = 10_000;
    /// @dev Challenger and committee together get at most 80 % of a slash; 20 % are burned, always.
    uint256 private constant MAX_REWARD_BPS = 8_000;

    /// @dev The paid votes of a dispute: per round the right groups, over all rounds the seats (in a draw those that worked).
    struct Winners {
        bytes32[2] main;
        bytes32[2] second;
        uint256 seats;
    }

    function _finalize(bytes32 id, TallyLib.Judgement memory j, bytes32 replacement) internal {
        Dispute storage d = _disputes[id];
        d.phase = Phase.FINAL;
        d.verdict = j.verdict;
        d.replacement = replacement;
        ParamSet memory p = _params();
        Winners memory w = _winners(id, d.round, j);
        Payout memory money;
        money.bond = d.bond;
        uint256 perSeat = _split(id, d, p, w.seats, money);
        for (uint16 round = 1; round <= d.round; ++round) {
            _settleRound(id, round, j, w, perSeat, p, money);
        }
        money.burned = money.penalties + LEDGER.close(id, ILedger.BurnReason.REMAINDER);
        if (replacement != bytes32(0)) emit OutputReplaced(d.receiptId, d.claimedOutHash, replacement);
        bytes32 stands = j.verdict == Verdict.UPHELD ? d.claimedOutHash : replacement;
        emit Finalized(id, d.receiptId, j.verdict, stands, money);
    }

    function _winners(bytes32 id, uint16 rounds, TallyLib.Judgement memory j) private view returns (Winners memory w) {
        for (uint16 i = 0; i < rounds; ++i) {
            Member[] memory members = _members[id][i + 1];
            (w.main[i],) = TallyLib.largest(members, j.main);
            (w.second[i],) = TallyLib.largest(members, j.second);
            for (uint256 k = 0; k < members.length; ++k) {
                if (_isPaid(members[k], i, j, w)) w.seats += members[k].seats;
            }
        }
    }

    /// @dev A draw has no right answer: there a seat is paid for having worked, which NO_KEY and CANNOT_EXECUTE say it did not.
    function _isPaid(Member memory m, uint256 i, TallyLib.Judgement memory j, Winners memory w)
        private
        pure
        returns (bool)
    {
        if (!m.revealed) return false;
        if (j.verdict != Verdict.DRAW) return m.group == w.main[i] || m.group == w.second[i];
        return m.outcome == Outcome.EXECUTED || m.outcome == Outcome.INVALID || m.outcome == Outcome.UNAVAILABLE;
    }

    /// @dev Pays challenger and operator; returns what each winning seat gets.
    function _split(bytes32 id, Dispute storage d, ParamSet memory p, uint256 seats, Payout memory money)
        private
        returns (uint256 perSeat)
    {
        if (d.verdict == Verdict.UPHELD) return _splitUpheld(id, d, p, seats, money);
        if (d.verdict == Verdict.DRAW) return _splitDraw(id, d, p, seats, money);
        return _splitConviction(id, d, p, seats, money);
    }

    /// @dev UPHELD: fees from the bond, at most half of the rest to the operator, remainder burned.
    function _splitUpheld(bytes32 id, Dispute storage d, ParamSet memory p, uint256 seats, Payout memory money)
        private
        returns (uint256)
    {
        _unlock(d.operator, d.operatorLocked, id);
        // No underflow: the bond covers the fee of every seat of every round.
        uint256 rest = d.bond - seats * p.feePerSeat;
        money.toOperator = rest * p.operatorShareBps / BPS;
        _credit(id, d.operator, money.toOperator, ILedger.Reason.OPERATOR_SHARE);
        return p.feePerSeat;
    }

    /// @dev OVERTURNED, INVALID, UNAVAILABLE: bond back, alpha to the challenger (not for UNAVAILABLE), beta and fees to
    ///      the right seats, all of it from what was really slashed and never more than 80 % of that.
    function _splitConviction(bytes32 id, Dispute storage d, ParamSet memory p, uint256 seats, Payout memory money)
        private
        returns (uint256)
    {
        uint256 slashed = _slash(d.operator, d.operatorLocked, p.slashAmount, id);
        uint256 alpha = d.verdict == Verdict.UNAVAILABLE ? 0 : slashed * p.alphaBps / BPS;
        money.slashed = slashed;
        money.toChallenger = d.bond + alpha;
        _credit(id, d.challenger, d.bond, ILedger.Reason.BOND_BACK);
        _credit(id, d.challenger, alpha, ILedger.Reason.CHALLENGER_SHARE);
        if (seats == 0) return 0;
        uint256 due = slashed * p.betaBps / BPS + seats * p.feePerSeat;
        // No underflow: alpha + beta <= 80 % is checked at deployment.
        return Math.min(due, slashed * MAX_REWARD_BPS / BPS - alpha) / seats;
    }

    /// @dev DRAW: every seat that worked gets its fee, half from the bond, half from the operator's stake; rest of the bond back.
    function _splitDraw(bytes32 id, Dispute storage d, ParamSet memory p, uint256 seats, Payout memory money)
        private
        returns (uint256)
    {
        uint256 fees = seats * p.feePerSeat;
        uint256 half = fees / 2;
        uint256 slashed = _slash(d.operator, d.operatorLocked, half, id);
        money.slashed = slashed;
        money.toChallenger = d.bond - (fees - half);
        _credit(id, d.challenger, money.toChallenger, ILedger.Reason.BOND_BACK);
        return seats == 0 ? 0 : (fees - half + slashed) / seats;
    }

    function _settleRound(
        bytes32 id,
        uint16 round,
        TallyLib.Judgement memory j,
        Winners memory w,
        uint256 perSeat,
        ParamSet memory p,
        Payout memory money
    ) private {
        Member[] storage members = _members[id][round];
        for (uint256 i = 0; i < members.length; ++i) {
            Member memory m = members[i];
            bool paid = _isPaid(m, round - 1, j, w);
            if (paid) {
                money.toVerifiers += m.seats * perSeat;
                _credit(id, m.voter, m.seats * perSeat, ILedger.Reason.SEAT_PAY);
            }
            Charge charge = paid || j.verdict == Verdict.DRAW ? Charge.NONE : _chargeOf(m, j);
            money.penalties += _release(id, round, m, charge, p);
        }
    }

    /// @dev Why a member that was not right pays. NO_KEY is nobody's fault but the shards': no fee, no penalty.
    function _chargeOf(Member memory m, TallyLib.Judgement memory j) private pure returns (Charge) {
        if (m.commitment == bytes32(0)) return Charge.ABSENT;
        if (!m.revealed) return Charge.NOT_REVEALED;
        if (m.outcome == Outcome.CANNOT_EXECUTE) return Charge.CANNOT_EXECUTE;
        // Under the paper's rule a verdict can rest on silence alone: then no vote was against it.
        if (m.outcome == Outcome.NO_KEY || j.main == bytes32(0)) return Charge.NONE;
        return Charge.WRONG;
    }

    /// @dev Frees a member's lock, and takes and burns its penalty.
    function _release(bytes32 id, uint16 round, Member memory m, Charge charge, ParamSet memory p)
        private
        returns (uint256 taken)
    {
        uint256 rate;
        if (charge == Charge.ABSENT || charge == Charge.CANNOT_EXECUTE) rate = p.absentPenalty;
        else if (charge == Charge.NOT_REVEALED) rate = p.noRevealPenalty;
        else if (charge == Charge.WRONG) rate = p.wrongPenalty;
        if (charge == Charge.NONE) {
            _unlock(m.voter, m.locked, id);
            return 0;
        }
        taken = _slash(m.voter, m.locked, rate * m.seats, id);
        LEDGER.burn(id, taken, ILedger.BurnReason.PENALTY);
        emit MemberCharged(id, round, m.voter, charge, m.seats, taken);
    }

    // One copy of each call, for the same reason as `_params`.

    function _credit(bytes32 id, address account, uint256 amount, ILedger.Reason reason) private {
        LEDGER.credit(id, account, amount, reason);
    }

    function _slash(address account, uint256 bound, uint256 want, bytes32 id) private returns (uint256) {
        return VAULT.slash(account, bound, want, id);
    }

    function _unlock(address account, uint256 bound, bytes32 id) private {
        VAULT.unlock(account, bound, id);
    }
}
