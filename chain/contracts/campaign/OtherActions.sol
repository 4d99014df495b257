// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Bls} from "../src/libraries/Bls.sol";
import {Receipt} from "../src/libraries/Types.sol";
import {Phase, ParamSet} from "../src/libraries/Types.sol";
import {IDemands} from "../src/interfaces/IDemands.sol";
import {LateActions} from "./LateActions.sol";

/// @title Stake, money, demands, time, governance: everything beside the court, in any order
/// @dev Checks I6 REFUSED PAYMENT, I31 SUSPENDED.
abstract contract OtherActions is LateActions {
    function moveMoney(uint256 what, uint256 who, uint256 amount) external step {
        what = spread(what) % 7;
        if (what == 6) changeKey(who, amount);
        else if (what == 0) deposit(who, amount);
        else if (what == 1) unbond(who, amount);
        else if (what == 2) leave(who, rarely(amount));
        else if (what == 3) withdraw(who, rarely(amount));
        else if (what == 4) quit(who, amount % 3 != 0);
        else fund(who, amount);
    }

    function demand(uint256 what, uint256 which, uint256 who) external step {
        what = spread(what) % 8;
        if (what == 0) demandList(which, who);
        else if (what == 1) demandEnvelope(which, who);
        else if (what == 2) demandAnchor(which, who);
        else if (what < 5) answer(which, who, uint8(spread(who)));
        else if (what == 5) expire(which, uint8(spread(who)), rarely(who));
        else if (what == 6) release(which, rarely(who));
        else equivocate(which, who);
    }

    function rule(uint256 what, uint256 which, uint256 salt) external step {
        what = spread(what) % 4;
        if (what < 2) idle(salt);
        else if (what == 2) pause(spread(salt), salt % 2 == 0);
        else govern(which, salt);
    }

    // --- stake and money ---

    /// @dev Operators oftener than others: only theirs is bound.
    function stakerAt(uint256 who) internal view returns (address) {
        return spread(who) % 2 == 0 ? operatorOf(who) : personAt(who);
    }

    function deposit(uint256 who, uint256 amount) internal {
        may(personAt(who), address(vault), spread(amount) % 10 ether, abi.encodeCall(vault.deposit, ()), "deposit");
    }

    function unbond(uint256 who, uint256 amount) internal {
        amount = rarely(amount) ? vault.stakeOf(stakerAt(who)) : spread(amount) % 3 ether;
        may(stakerAt(who), address(vault), 0, abi.encodeCall(vault.requestUnbond, (amount)), "requestUnbond");
    }

    function leave(uint256 who, bool wait) internal {
        address a = stakerAt(who);
        // Some take home all they have, whatever is bound and whoever is fined later.
        uint256 all_ = vault.stakeOf(a);
        bool home = all_ != 0 && spread(spread(who)) % 4 == 0;
        if (home) may(a, address(vault), 0, abi.encodeCall(vault.requestUnbond, (all_)), "all home");
        (,, uint64 nextAt) = vault.unbondingOf(a);
        if (home) until(uint256(guardian.clock()) + parameters().times.unbondDelay);
        else if (wait && nextAt != 0) until(nextAt);
        may(a, address(vault), 0, abi.encodeCall(vault.finishUnbond, ()), "finishUnbond");
    }

    function withdraw(uint256 who, bool wait) internal {
        address a = personAt(who);
        (, uint64 nextAt) = ledger.dueOf(a);
        if (wait && nextAt != 0) until(nextAt);
        (uint256 due,) = ledger.dueOf(a);
        uint256 had = a.balance;
        bool ok = may(a, address(ledger), 0, abi.encodeCall(ledger.withdraw, ()), "withdraw");
        // Who refuses its own payment keeps its credit, and nobody else waits for it.
        that(ok == (due != 0 && a != address(refuser)), "withdraw");
        if (ok) same(a.balance - had, due, "withdrawn");
    }

    function quit(uint256 who, bool back) internal {
        if (!back && !rarely(who)) return;
        uint256 i = who % VERIFIERS;
        bytes32 platform = keccak256(abi.encode("platform", i));
        bytes memory data =
            back ? abi.encodeCall(registry.join, (POOL, platform, MEASUREMENT)) : abi.encodeCall(registry.quit, ());
        may(verifierOf(i), address(registry), 0, data, back ? string("rejoin") : string("quit"));
    }

    /// @dev Another key for certificates: it counts for committees whose seeds come later. Places were noted for good.
    function changeKey(uint256 who, uint256 salt) internal {
        address v = verifierOf(who);
        must(v, address(blsKeys), registeringBls(v), "register");
        keptBls(v);
        // Whoever says so again, of a key that is in force or of an old one.
        Bls.G1 memory key = blsKeysOf[v][salt % blsKeysOf[v].length].key;
        may(
            personAt(salt),
            address(blsKeys),
            0,
            abi.encodeCall(blsKeys.notePlace, (keccak256(abi.encode(key)))),
            "notePlace"
        );
    }

    function fund(uint256 who, uint256 amount) internal {
        may(personAt(who), address(ledger), spread(amount) % 0.1 ether, abi.encodeCall(ledger.fund, ()), "fund");
    }

    // --- demands and reports ---

    function demandList(uint256 which, uint256 who) internal {
        if (receipts.length == 0) return;
        uint64 batchId = receipts[which % receipts.length].batchId;
        uint256 bond = params.money(anchor.batch(batchId).paramsVersion).demandBond;
        may(personAt(who), address(demands), bond, abi.encodeCall(demands.demandList, (batchId)), "demandList");
    }

    function demandEnvelope(uint256 which, uint256 who) internal {
        if (receipts.length == 0) return;
        Anchored memory a = receipts[which % receipts.length];
        uint256 bond = params.money(anchor.batch(a.batchId).paramsVersion).demandBond;
        bytes memory data = abi.encodeCall(demands.demandEnvelope, (a.r, a.sig, a.batchId, none()));
        may(personAt(who), address(demands), bond, data, "demandEnvelope");
    }

    function answer(uint256 which, uint256 who, uint8 how) internal {
        if (receipts.length == 0) return;
        Anchored memory a = receipts[_asked(which)];
        address by = how % 2 == 0 ? a.r.operator : personAt(who);
        (Receipt[] memory rs, bytes[] memory sigs) = (new Receipt[](1), new bytes[](1));
        (rs[0], sigs[0]) = (a.r, a.sig);
        bytes memory data = how % 4 < 2
            ? abi.encodeCall(demands.answerList, (a.batchId, listOf(a.r), rs, sigs))
            : abi.encodeCall(demands.answerEnvelope, (_answered(a, which), "elsewhere"));
        may(by, address(demands), 0, data, how % 4 < 2 ? string("answerList") : string("answerEnvelope"));
    }

    /// @dev The envelope's demand, or now and then another one, which a locator does not answer.
    function _answered(Anchored memory a, uint256 which) private view returns (bytes32) {
        if (spread(which) % 3 == 0) return demands.listSubject(a.batchId);
        return spread(which) % 3 == 1 && owing.length != 0 ? owing[which % owing.length] : anchor.receiptId(a.r);
    }

    function expire(uint256 which, uint8 how, bool wait) internal {
        if (receipts.length == 0) return;
        Anchored memory a = receipts[which % receipts.length];
        bytes32 subject = how % 3 == 0 ? demands.listSubject(a.batchId) : anchor.receiptId(a.r);
        // A demand to anchor, now and then: it may be one that nobody ended.
        if (how % 3 == 2 && owing.length != 0) subject = owing[which % owing.length];
        uint64 deadline = demands.demand(subject).deadline;
        if (wait && deadline != 0) until(uint256(deadline) + 1);
        may(personAt(which), address(demands), 0, abi.encodeCall(demands.expire, (subject)), "expire");
    }

    function release(uint256 which, bool wait) internal {
        if (receipts.length == 0) return;
        uint64 batchId = receipts[which % receipts.length].batchId;
        // Those that must not be released are tried oftener than chance would.
        if (live.length != 0 && spread(which) % 2 == 0) batchId = batchOf[live[which % live.length]];
        if (wait) until(uint256(anchor.windowEnd(0, batchId)) + 1);
        may(personAt(which), address(anchor), 0, abi.encodeCall(anchor.release, (batchId)), "release");
    }

    function equivocate(uint256 who, uint256 seq) internal {
        if (!rarely(seq)) return;
        address operator = operatorOf(who);
        Receipt memory a = receipt(operator, uint64(1_000_000 + seq % 3), ENVIRONMENT);
        Receipt memory b = a;
        b = receipt(operator, a.seq, ENVIRONMENT);
        b.outHash = "another";
        (bytes memory sigA, bytes memory sigB) = (signature(a), signature(b));
        bytes memory data = abi.encodeCall(demands.equivocation, (a, sigA, b, sigB));
        may(personAt(seq), address(demands), 0, data, "equivocation");
    }

    // --- time and power ---

    function idle(uint256 salt) internal {
        pass(spread(salt) % (rarely(salt) ? 4 hours : 10 minutes));
    }

    function pause(uint256 seconds_, bool stop) internal {
        bytes memory data = stop
            ? abi.encodeCall(guardian.unpause, ())
            : abi.encodeCall(guardian.pause, (uint64(1 + spread(seconds_) % 3 hours)));
        uint64 clock = guardian.clock();
        uint64 pausedUntil = guardian.pausedUntil();
        bool ok = may(address(this), address(guardian), 0, data, stop ? string("unpause") : string("pause"));
        same(guardian.clock(), clock, "a pause moves the clock");
        if (pausedUntil != 0 && !stop) same(guardian.pausedUntil(), pausedUntil, "a pause was prolonged");
        // Who has just paused tries at once to have more of it.
        if (ok && !stop) pause(spread(seconds_), false);
    }

    /// @dev Refund, parameters, breaker, environments: by who may, and by who may not.
    function govern(uint256 which, uint256 salt) internal {
        uint256 what = spread(salt) % 4;
        if (what == 0) _refund(which, salt);
        else if (what == 1) _setParams(salt);
        else if (what == 2 && which % 2 == 0) _readmit(salt);
        else _govern(what == 2, salt);
    }

    function _refund(uint256 which, uint256 who) private {
        bytes32 id = pick(which);
        for (uint256 i = 0; i < live.length; ++i) {
            Phase phase = disputes.phaseOf(live[i]);
            if (phase == Phase.APPEAL || phase == Phase.AIRGAP) id = live[i];
        }
        if (id == 0) return;
        address by = who % 3 == 0 ? personAt(who) : address(this);
        bytes memory data = abi.encodeCall(disputes.refund, (id));
        that(!_tries(personAt(who), address(disputes), data), "anybody refunds");
        bool ok = may(by, address(guardian), 0, abi.encodeCall(guardian.refund, (disputes, id)), "refund");
        that(!ok || by == address(this), "who refunded");
    }

    /// @dev Fees, slashes and stakes move; what began keeps its version. An operator anchors before and after: whose open batch
    ///      asked for more stake keeps more.
    function _setParams(uint256 salt) private {
        if (params.version() == 12) return;
        salt = spread(salt);
        ParamSet memory p = params.get(params.version());
        p.money.feePerSeat = uint96(0.005 ether + salt % 0.02 ether);
        p.money.slashAmount = uint96(5 ether + (salt >> 64) % 15 ether);
        p.money.minOperatorStake = p.money.slashAmount + uint96((salt >> 192) % 10 ether);
        p.money.unanchoredPenalty =
            p.money.slashAmount + uint96((salt >> 224) % (1 + (p.money.minOperatorStake - p.money.slashAmount)));
        p.shares.alphaBps = uint16(1_000 + (salt >> 128) % 2_000);
        p.times.airgap = uint32(30 minutes + (salt >> 160) % 1 hours);
        address by = (salt >> 16) % 4 == 0 ? personAt(salt >> 24) : address(this);
        _post(salt >> 32, 2);
        bool ok = may(by, address(params), 0, abi.encodeCall(params.set, (p)), "setParams");
        that(!ok || by == address(this), "who set parameters");
        _post(salt >> 32, 2);
    }

    function _readmit(uint256 who) private {
        address operator = operatorOf(who);
        for (uint256 i = 0; i < OPERATORS; ++i) {
            if (suspendedUntil[people[i]] != 0) operator = people[i];
        }
        address by = who % 4 == 0 ? personAt(who) : address(this);
        bool ok = may(by, address(registry), 0, abi.encodeCall(registry.readmit, (operator)), "readmit");
        that(!ok || by == address(this), "who readmits");
    }

    function _govern(bool reset, uint256 who) private {
        bytes memory data = reset
            ? abi.encodeCall(breaker.resetBreaker, (ENVIRONMENT))
            : abi.encodeCall(registry.activate, (ENVIRONMENT));
        address to = reset ? address(breaker) : address(registry);
        address by = who % 4 == 0 ? personAt(who) : address(this);
        bool ok = may(by, to, 0, data, reset ? string("resetBreaker") : string("activate"));
        that(!ok || by == address(this), "who governs");
    }

    /// @dev A receipt whose list is demanded, if one of the next few is: chance would seldom find it in time.
    function _asked(uint256 which) private view returns (uint256 i) {
        for (uint256 k = 0; k < 8; ++k) {
            i = (which % receipts.length + k) % receipts.length;
            bytes32 subject = demands.listSubject(receipts[i].batchId);
            if (demands.demand(subject).state == IDemands.State.OPEN) return i;
        }
    }
}
